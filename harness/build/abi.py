"""Whether a libnccl can stand in for another: what it exports, and that it loads with every symbol resolved."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.errors import BuildError, CommandError
from harness.hosts import LocalHost

# In a process of its own: a library that does not load, or crashes while it does, must not take us with it.
LOAD = """\
import ctypes, os, sys
library = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW)
version = ctypes.c_int()
assert library.ncclGetVersion(ctypes.byref(version)) == 0
print(version.value)
"""


def exports(library: Path) -> set[str]:
    """The dynamic symbols it defines. Raises BuildError when it is no library."""
    try:
        listing = LocalHost().run(["nm", "-D", "--defined-only", str(library)], timeout_s=60).stdout
    except CommandError as error:
        raise BuildError(f"{library} cannot be read: {error.message}", "is it a libnccl.so.2?") from error
    return {line.split()[-1].partition("@")[0] for line in listing.splitlines() if line.strip()}


def check_exports(ours: Path, stock: Path) -> None:
    """Raises BuildError, naming the symbols, unless both export the same."""
    mine, theirs = exports(ours), exports(stock)
    missing, more = sorted(theirs - mine), sorted(mine - theirs)
    if missing or more:
        lines = [f"missing: {', '.join(missing)}"] * bool(missing) + [f"not in stock: {', '.join(more)}"] * bool(more)
        raise BuildError(f"{ours.name} does not export what {stock} does\n" + "\n".join(lines), "are they one version?")


def check_loads(library: Path, version: str) -> None:
    """Raises BuildError unless it loads with all symbols resolved and is of this version (2.29.7-1)."""
    try:
        said = LocalHost().run([sys.executable, "-c", LOAD, str(library)], timeout_s=60).stdout.strip()
    except CommandError as error:
        raise BuildError(f"{library} does not load: {error.message}", "report this") from error
    major, minor, patch = (int(part) for part in version.partition("-")[0].split("."))
    expected = f"{major}{minor:02}{patch:02}"
    if said != expected:
        raise BuildError(f"{library} says that it is version {said}, not {expected}", "report this")
