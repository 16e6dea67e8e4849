"""Carries a series of patches over, hunk by hunk, and writes it anew for the other tree."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from harness.errors import SourceError
from harness.fork.patches import apply_patch, header, without_places
from harness.fork.refresh import copy_files, difference, makes
from harness.port.alignment import aligned
from harness.port.hunks import Hunk, read_hunks
from harness.port.placing import FAILED, Placement, place
from harness.port.report import HunkFound

SOURCES = ("*.cc", "*.h")
ALIKE = 0.5
"""How much of a file must be in another for that to be the same one, of 1."""


def carry_over(
    files: Mapping[str, Path], base: Path, tree: Path, scratch: Path
) -> tuple[list[HunkFound], dict[str, str]]:
    """What became of each hunk, and the patches' new text by name. Both trees are changed: `base` as its patches say,
    `tree` as far as hunks have their place."""
    found: list[HunkFound] = []
    texts: dict[str, str] = {}
    for name, file in files.items():
        hunks = read_hunks(file.read_text(), name)
        now = {path: _renamed(path, base, tree) for path in dict.fromkeys(hunk.path for hunk in hunks)}
        copy_files(tree, scratch / "a", list(now.values()))
        for path, there in now.items():
            found += _file(name, there, [hunk for hunk in hunks if hunk.path == path], base, tree)
        apply_patch(base, file, shared=True)
        copy_files(tree, scratch / "b", list(now.values()))
        diff = difference(scratch, list(now.values()))
        texts[name] = header(file) + diff if diff else ""
        shutil.rmtree(scratch / "a")
        shutil.rmtree(scratch / "b")
    return found, texts


def patches_to_write(
    texts: Mapping[str, str], files: Mapping[str, Path], tree: Path, scratch: Path, *, share: bool
) -> dict[str, str]:
    """Those that need a text of their own; without `share` all of them. Where only line numbers differ the older
    version's will do, if git puts its hunks where they belong here, too: it goes by a line or two of context.

    Raises SourceError if they do not make `tree` out of scratch/pristine.
    """
    every = {name: text for name, text in texts.items() if text}
    new = scratch / "new"
    new.mkdir()
    for name, text in every.items():
        (new / name).write_text(text)
    own = {name for name, text in every.items() if without_places(text) != without_places(files[name].read_text())}
    pristine = scratch / "pristine"
    if share and makes(
        [(new if name in own else files[name].parent) / name for name in files], pristine, tree, scratch
    ):
        return {name: every[name] for name in sorted(own)}
    if makes([new / name for name in every], pristine, tree, scratch):
        return every
    raise SourceError("the new patches do not make the tree they were taken from; nothing was written", "report this")


def _renamed(path: str, base: Path, tree: Path) -> str:
    """Where the file is now: in another folder, if it is the only one of its name and most of it is as it was; else
    where it was. NCCL has several files of the same name that have nothing else in common."""
    if (tree / path).is_file():
        return path
    found = list((tree / "src").rglob(Path(path).name))
    if len(found) != 1:
        return path
    where = aligned(_lines(base / path), _lines(found[0]))
    alike = sum(line is not None for line in where) >= ALIKE * len(where)
    return str(found[0].relative_to(tree)) if alike else path


def _file(patch: str, path: str, hunks: list[Hunk], base: Path, tree: Path) -> list[HunkFound]:
    """Places the hunks of one file, which is now at `path`, and writes it."""
    if not (tree / path).is_file():
        return [_absent(patch, hunk, tree) for hunk in hunks]
    before, after = _lines(base / hunks[0].path), _lines(tree / path)
    where = aligned(before, after)
    settled = [_settled(hunk, before) for hunk in hunks]
    placed = _apart([(hunk, place(hunk, where, after)) for hunk in settled])
    for _, to in sorted(placed, key=lambda each: each[1].begin, reverse=True):
        if to.outcome != FAILED:
            after[to.begin : to.end] = to.lines
    there = _lines(tree / path)
    (tree / path).write_text("".join(f"{line}\n" for line in after), errors="surrogateescape")
    return [_found(patch, hunk, to, there, path) for hunk, to in placed]


def _lines(file: Path) -> list[str]:
    return file.read_text(errors="surrogateescape").splitlines() if file.is_file() else []


def _settled(hunk: Hunk, before: list[str]) -> Hunk:
    """With its line in the tree that it is for: a shared patch gives another version's."""
    old = hunk.old
    starts = [at for at in range(len(before) - len(old) + 1) if before[at : at + len(old)] == old]
    if not starts:
        raise SourceError(
            f"{hunk.path}: hunk {hunk.number} does not fit its own version", "`r2cc fork patch` says more"
        )
    return Hunk(hunk.path, hunk.number, min(starts, key=lambda at: abs(at - hunk.start)), hunk.lines)


def _apart(placed: list[tuple[Hunk, Placement]]) -> list[tuple[Hunk, Placement]]:
    """In the order that they had, and none over another: one that is not fails."""
    kept: list[tuple[Hunk, Placement]] = []
    end = 0
    for hunk, to in placed:
        if to.outcome != FAILED and to.begin < end:
            to = Placement(FAILED, to.begin)  # noqa: PLW2901
        elif to.outcome != FAILED:
            end = to.end
        kept.append((hunk, to))
    return kept


def _found(patch: str, hunk: Hunk, to: Placement, there: list[str], path: str) -> HunkFound:
    text = there[to.begin].strip() if to.outcome == FAILED and to.begin < len(there) else None
    # Where the hunk's first line of context is, as `line` gives that.
    line = to.begin + 1 if to.outcome in (FAILED, "applied", "moved") else max(to.begin + 1 - hunk.lead, 1)
    return HunkFound(
        patch=patch,
        path=hunk.path,
        number=hunk.number,
        outcome=to.outcome,
        line=hunk.start + 1,
        there=line,
        file=path if path != hunk.path else None,
        text=text,
    )


def _absent(patch: str, hunk: Hunk, tree: Path) -> HunkFound:
    """The file is no more: the nearest place is the same text in another one."""
    wanted = max(hunk.core_old or hunk.old, key=len).strip()
    path, line = _elsewhere(wanted, tree) if len(wanted) > 3 else (None, None)
    return HunkFound(
        patch=patch,
        path=hunk.path,
        number=hunk.number,
        outcome="failed",
        line=hunk.start + 1,
        there=line,
        file=path,
        text=wanted if path else None,
    )


def _elsewhere(wanted: str, tree: Path) -> tuple[str | None, int | None]:
    for pattern in SOURCES:
        for file in sorted((tree / "src").rglob(pattern)):
            for number, line in enumerate(_lines(file), 1):
                if line.strip() == wanted:
                    return str(file.relative_to(tree)), number
    return None, None
