"""What a port found: for people, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from harness.port.placing import APPLIED, FAILED, MOVED, Outcome
from harness.schemas.form import form, left_out


@dataclass(frozen=True, kw_only=True)
class HunkFound:
    """`line` is where it was, `there` where it is now (or, of a failed one, the nearest place), both from 1. `file` is
    where its file is now, if that is elsewhere; of a failed one whose file is no more, where the nearest place is."""

    patch: str
    path: str
    number: int
    outcome: Outcome
    line: int
    there: int | None
    file: str | None = left_out()
    text: str | None = left_out()
    """of a failed one: the line there"""


@dataclass(frozen=True)
class NameFound:
    """A private name that our .inc files use. `type` and `was` are the compiler's words; `type` is None where the name
    is missing, both are None where the file itself does not compile, and `why` says why not."""

    path: str
    name: str
    outcome: Literal["same", "changed", "missing", "new", "unknown"]
    was: str | None
    type: str | None
    why: str | None = left_out()


@dataclass(frozen=True)
class Present:
    """The pin of this very tree, which is there already and whose patches apply. They make the files of `by_hand`
    otherwise than was found here; a hunk failed in those of `left`, and nobody has mended that."""

    pin: str
    by_hand: Sequence[str]
    left: Sequence[str]

    @property
    def complete(self) -> bool:
        return not self.left


@form("fork_port", "r2cc fork port")
@dataclass(frozen=True)
class Port:
    """`ok`: every hunk has its place, every name is there, and what was built and tested passed; or a complete version
    was `present`, so that there was nothing to write, and names were not asked for. A type may be another: whether that
    matters the build and a reader must say. `built` and `tested` are None where that was not tried."""

    version: str
    base: str
    source: str
    commit: str
    tree: str
    hunks: Sequence[HunkFound]
    names: Sequence[NameFound]
    built: bool | None
    tested: bool | None
    log: str | None
    written: Sequence[str]
    ok: bool
    present: Present | None = left_out()


def describe(port: Port) -> Iterator[str]:
    """For people: what needs no look is counted, the rest has a line each."""
    yield f"NCCL {port.version} ({port.source}, tree {port.tree[:12]}), with the patches of {port.base}"
    for patch in dict.fromkeys(hunk.patch for hunk in port.hunks):
        yield from _patch(patch, [hunk for hunk in port.hunks if hunk.patch == patch])
    yield from _names(port.names)
    for what, passed in (("build", port.built), ("tests", port.tested)):
        if passed is not None:
            yield f"{what}: passed" if passed else f"{what}: failed, see {port.log}"
    yield from (f"wrote {path}" for path in port.written)
    if port.present:
        yield from _present(port.present)


def _present(found: Present) -> Iterator[str]:
    if found.complete:
        yield f"nothing to do: {found.pin} is of this tree, and its patches apply"
    else:
        yield f"nothing written: {found.pin} is of this tree, but what failed is not mended in {', '.join(found.left)}"
    if found.by_hand:
        yield f"  made by hand there, otherwise than here: {', '.join(found.by_hand)}"


def _patch(name: str, hunks: Sequence[HunkFound]) -> Iterator[str]:
    counts = {outcome: sum(hunk.outcome == outcome for hunk in hunks) for outcome in get_args(Outcome)}
    yield f"{name}: {len(hunks)} hunks: " + ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    for hunk in hunks:
        where = f"  {hunk.path} #{hunk.number}, line {hunk.line}"
        if hunk.outcome == FAILED:
            there = f"{hunk.file or hunk.path}:{hunk.there}" if hunk.there else "no place like it"
            yield f"{where}: failed; nearest: {there}" + (f": {hunk.text}" if hunk.text else "")
        elif hunk.file:
            yield f"{where}: {hunk.outcome}, now {hunk.file}:{hunk.there}"
        elif hunk.outcome == MOVED:
            yield f"{where}: moved by {(hunk.there or 0) - hunk.line:+d}"
        elif hunk.outcome != APPLIED:
            reason = (
                "only white space differs" if hunk.outcome == "reformatted" else "a line beside it has changed: look"
            )
            yield f"{where}: {hunk.outcome}, now line {hunk.there} ({reason})"


def _names(names: Sequence[NameFound]) -> Iterator[str]:
    if not names:
        return
    same = sum(name.outcome == "same" for name in names)
    yield f"private names: {same} of {len(names)} as they were"
    for name in names:
        if name.outcome == "missing":
            yield f"  {name.path}: {name.name} is missing (was {name.was})"
        elif name.outcome == "changed":
            yield f"  {name.path}: {name.name} is {name.type}, was {name.was}"
        elif name.outcome == "new":
            yield f"  {name.path}: {name.name} is {name.type}, and was not there before"
    for path, why in dict.fromkeys((name.path, name.why) for name in names if name.outcome == "unknown"):
        yield f"  {path}: not asked: {why}"
