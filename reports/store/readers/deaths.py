"""Lines that say that a job died, whoever prints them: the program, its launcher, the scheduler or the kernel."""

from __future__ import annotations

import re

from harness.config.plain import printable

FATAL = re.compile(
    r"Test (?:NCCL|CUDA|MPI) failure|Test failure|Test timeout|srun: error:|slurmstepd: error:|DUE TO TIME LIMIT"
    r"|(?:mpirun|mpiexec|prterun) (?:noticed|detected)|BAD TERMINATION|exited on signal"
    r"|non-zero (?:exit )?(?:code|status)|Segmentation fault|Bus error|core dumped|\bKilled\b|OOMKilled|Aborted"
    r"|command terminated with|Traceback \(most recent call last\)|(?:Runtime|Dist\w*|OutOfMemory)Error\b"
    r"|CUDA error|CUDA out of memory|Watchdog caught collective operation timeout"
)
HINT = re.compile(
    "ailure|rror|LIMIT|noticed|detected|TERMINATION|signal|non-zero|fault|dumped|illed|Abort|terminated|Traceback"
    "|memory|timeout"
)
"""One of them is in every such line: most lines have none, and are not looked at further."""
LONGEST = 160


def death(text: str) -> str:
    """The line, short enough to be quoted; "" when it says nothing of the kind."""
    if HINT.search(text) is None or FATAL.search(text) is None:
        return ""
    words = printable(" ".join(text.split()))
    return words if len(words) <= LONGEST else words[:LONGEST] + "..."
