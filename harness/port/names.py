"""Asks the compiler for the types of private names that our .inc files use, in two trees.

The probe includes the fork's file, so it sees what our .inc sees. A template without a body, named with each name's
type, makes the compiler say that type in an error on a line of its own; a name that is missing gets another error
there. The list is kept by hand, as a scan of text cannot tell whose member `->dev` is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from harness.errors import CommandError, SourceError
from harness.hosts import LocalHost
from harness.port.report import NameFound

LIST = "src/inner/private_names.txt"
Types = dict[str, str | None]
SAYS = re.compile(r"R2ccTypeOf<(?P<type>.*)> r2ccName\d+[’']")
COMPILE_S = 300.0
HEAD = '#include "{file}"\ntemplate <class Type> struct R2ccTypeOf;\n'
FIRST_LINE = HEAD.count("\n") + 1


def listed(path: Path) -> dict[str, list[str]]:
    """Names by the file that they are private to. SourceError for a list that is none."""
    found: dict[str, list[str]] = {}
    names: list[str] | None = None
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            names = found.setdefault(line.strip(), [])
        elif names is None:
            raise SourceError(f"{path} names {line.strip()} under no file", "restore it from git")
        else:
            names.append(line.strip())
    return found


def types_of(names: Sequence[str], file: Path, flags: Sequence[str], scratch: Path) -> Types | str:
    """Each name's type, None for one that is missing; where the file itself is missing or does not compile, why."""
    if not file.is_file():
        return "there is no such file"
    probe = scratch / "probe.cc"
    asks = "".join(f"R2ccTypeOf<decltype({name})> r2ccName{at};\n" for at, name in enumerate(names))
    probe.write_text(HEAD.format(file=file.absolute()) + asks)
    argv = ["g++", *flags, "-w", "-fsyntax-only", "-fmax-errors=0", "-fdiagnostics-color=never", str(probe)]
    try:
        result = LocalHost().run(argv, env={"LC_ALL": "C"}, timeout_s=COMPILE_S, check=False)
    except CommandError as error:
        raise SourceError(f"cannot ask the compiler: {error.message}", "install g++") from error
    return read_types(result.stderr, names, probe)


def read_types(said: str, names: Sequence[str], probe: Path) -> Types | str:
    """What g++ said, line by line. A file that does not compile has errors elsewhere, too: then the first of them."""
    errors = re.findall(r"^(\S[^:\n]*):(?:(\d+):)?(?:\d+:)? (?:fatal )?error: (.*)$", said, flags=re.MULTILINE)
    others = [f"{place}:{line}: {text}" for place, line, text in errors if Path(place) != probe]
    if others or not errors:
        return others[0] if others else "the compiler said nothing"
    found: Types = dict.fromkeys(names)
    for _, line, text in errors:
        at = int(line or 0) - FIRST_LINE
        if (match := SAYS.search(text)) and 0 <= at < len(names):
            found[names[at]] = match["type"]
    return found


def compared(path: str, names: Sequence[str], before: Types | str, now: Types | str) -> list[NameFound]:
    """What became of each name."""
    if isinstance(now, str):
        return [NameFound(path, name, "unknown", None, None, now) for name in names]
    was = {} if isinstance(before, str) else before
    return [_compared(path, name, was.get(name), now.get(name)) for name in names]


def _compared(path: str, name: str, was: str | None, type: str | None) -> NameFound:
    if type is None:
        return NameFound(path, name, "missing", was, None)
    return NameFound(path, name, "new" if was is None else "same" if was == type else "changed", was, type)
