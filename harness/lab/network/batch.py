"""Many words to iproute2 in one process, for what pyroute2 does not speak. In the current network."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable

LIMIT_S = 20.0
ADMIN_FOLDERS = ("/usr/sbin", "/sbin")
"""Where they may lie, and which a plain user's PATH may lack."""


def batch(program: str, lines: Iterable[str]) -> str:
    """Runs `ip` or `tc` over all lines; returns why not, or nothing."""
    where = os.pathsep.join([os.environ.get("PATH", ""), *ADMIN_FOLDERS])
    found = shutil.which(program, path=where)
    if found is None:
        return f"there is no program {program} (package iproute2)"
    text = "".join(f"{line}\n" for line in lines)
    try:
        result = subprocess.run(
            [found, "-batch", "-"], input=text, text=True, capture_output=True, timeout=LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = result.stderr.strip() or f"{program} ended with exit code {result.returncode}"
    return said.splitlines()[0] if result.returncode != 0 else ""
