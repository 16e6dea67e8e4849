"""Many words to iproute2 in one process, for what pyroute2 does not speak. In the current network."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable

LIMIT_S = 20.0


def batch(program: str, lines: Iterable[str]) -> str:
    """Runs `ip` or `tc` over all lines; returns why not, or nothing."""
    text = "".join(f"{line}\n" for line in lines)
    try:
        result = subprocess.run(
            [program, "-batch", "-"], input=text, text=True, capture_output=True, timeout=LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = result.stderr.strip() or f"{program} ended with exit code {result.returncode}"
    return said.splitlines()[0] if result.returncode != 0 else ""
