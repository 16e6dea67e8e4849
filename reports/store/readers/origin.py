"""Whose line it is: what stands before it, whichever launcher, container tool or terminal put it there.

No list of launchers is kept. What a tool prints is known by its own form; what comes before that, without its times, is
the same for all lines of one process: `[1,0]<stdout>:`, ` 0:`, `[pod/x/launcher]`, `worker-1 |`, spaces.
"""

from __future__ import annotations

import re

DAY, MONTH = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)", "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
CLOCK = r"\d{1,2}:\d\d:\d\d(?:[.,]\d+)?(?:\s?[AP]M)?"
ZONE = r"(?:Z|\s?[+-]\d\d:?\d\d|\s[A-Z]{3,4}(?=\s))"
MOMENTS = (
    rf"\d{{4}}[-/]\d\d[-/]\d\d[T ]{CLOCK}{ZONE}?",
    rf"(?:{DAY},?\s+)?{MONTH}\s+\d+\s+{CLOCK}(?:{ZONE}?\s+\d{{4}})?",
    rf"{CLOCK}{ZONE}?",
    r"(?<![\d.])\d{10}(?:\.\d+)?(?![\d.])",
    r"\[\s*\d+\.\d+\]",
)
TIMES = re.compile("|".join(rf"\[{moment}\]|{moment}" for moment in MOMENTS))
RANKS = (
    r"\[(?:[^\[\]]*@)?\d+,(\d+)\].*",  # Open MPI: [1,0]<stdout>: and [prterun-node-1@1,0]<stdout>:
    r"(\d+):",  # srun --label
    r"\[(\d+)\]",  # mpiexec -prepend-rank
    r"\[(?:default|rank)(\d+)\]:?",  # torchrun
)
LONGEST_WORD = 40


def origin(before: str) -> str:
    """What stands before a line, without times and spaces; "" when that is nothing."""
    return " ".join(TIMES.sub("", before).replace("#", " ").split())


def word(origin_: str) -> str:
    """A short name of an origin, fit for a file's name: `rank0`, or its own letters and digits."""
    for form in RANKS:
        if (found := re.fullmatch(form, origin_)) is not None:
            return f"rank{found[1]}"
    return slug(origin_)


def slug(text: str) -> str:
    """Small letters, digits and `_`, with `-` for all else."""
    return re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-")[-LONGEST_WORD:].strip("-")
