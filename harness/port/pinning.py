"""Writes the pin and the patches of a new version: all of it, or nothing. And says whether they are there already."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.errors import UsageError
from harness.files.writing import told
from harness.fork.patches import apply_patch, patch_files
from harness.fork.pin import load_pin
from harness.fork.tree import cached_archive
from harness.fork.treehash import tree_hash
from harness.fork.unpack import pack_tar
from harness.port.candidate import Candidate
from harness.port.placing import FAILED
from harness.port.report import HunkFound, Present
from harness.repo import Layout

PIN = """\
# An NCCL that R2CC forks. Every source is verified against `tree` and `tree_sha256` before it is used.

version = "{version}"
patches = [{folders}] # folders under r2cc_patches/patches/; of patches of one name the last folder's is taken

[upstream]
repository = "{repository}"
tag = "{tag}"
commit = "{commit}"

[content]
# Git's own tree hash, so that it can be compared with upstream's commit by eye...
tree = "{tree}"
# ... and the same tree in git's SHA-256 object format, because SHA-1 no longer keeps a determined forger out.
tree_sha256 = "{tree_sha256}"
"""


def check_place(layout: Layout, found: Candidate) -> bool:
    """Before work that would be lost else. Whether a pin of this very tree is there; UsageError where one of another
    tree is, or where nothing can be written."""
    pin = layout.pins / f"{found.version}.toml"
    if not pin.exists():
        for folder in (layout.pins, layout.patches):
            if not os.access(folder, os.W_OK):
                raise UsageError(f"nothing can be written in {folder}", "port in a checkout of your own")
        return False
    known = load_pin(pin)
    if known.tree != found.content:
        message = (
            f"{pin} is there already, of another tree: {known.tree[:12]} (NCCL {known.version}), and this one is "
            f"{found.content[:12]}"
        )
        raise UsageError(message, "without --write nothing is written; move that pin away to write it anew")
    return True


def present(layout: Layout, found: Candidate, hunks: Sequence[HunkFound], scratch: Path) -> Present:
    """What the pin that is there makes of the tree as it came (scratch/pristine), beside what was carried over into
    `found.tree`. SourceError where the pin's patches do not apply."""
    pin = layout.pins / f"{found.version}.toml"
    for file in patch_files(layout.patches, load_pin(pin).patches).values():
        apply_patch(scratch / "pristine", file, shared=True)
    by_hand = sorted(_different(scratch / "pristine", found.tree))
    failed = {hunk.file or hunk.path for hunk in hunks if hunk.outcome == FAILED}
    left = [path for path in sorted(failed) if path not in by_hand and (found.tree / path).is_file()]
    return Present(str(pin.relative_to(layout.root)), by_hand, left)


def _different(one: Path, other: Path) -> Iterator[str]:
    """Files that are not the same in both. Both came from one tree; a patch made by hand may add one, or remove it."""
    for path in _files(one) | _files(other):
        both = (one / path).is_file() and (other / path).is_file()
        if not both or not filecmp.cmp(one / path, other / path, shallow=False):
            yield str(path)


def _files(tree: Path) -> set[Path]:
    return {path.relative_to(tree) for path in tree.rglob("*") if path.is_file() and not path.is_symlink()}


def write_version(
    layout: Layout, found: Candidate, own: Mapping[str, str], *, folders: Sequence[str], scratch: Path
) -> list[str]:
    """The patches first, the pin last: without a pin nothing else counts. `folders`: whose patches hold beside them.
    The tree as it came is in scratch/pristine."""
    folder, pin = layout.patches / found.version, layout.pins / f"{found.version}.toml"
    aside = scratch / "patches"
    aside.mkdir()
    for name, text in own.items():
        (aside / name).write_text(text)
    names = [*folders, found.version]  # a folder of its own, for what is edited later
    text = PIN.format(
        version=found.revision,
        folders=", ".join(f'"{name}"' for name in names),
        repository=found.repository,
        tag=found.tag,
        commit=found.commit,
        tree=found.content,
        tree_sha256=tree_hash(scratch / "pristine", "sha256"),
    )
    (scratch / "pin.toml").write_text(text)
    pack_tar(scratch / "pristine", cached_archive(layout, load_pin(scratch / "pin.toml")))
    with told(pin), _in_place(aside if own else None, folder, scratch / "replaced", pin):
        (scratch / "pin.toml").rename(pin)
    return [str(path.relative_to(layout.root)) for path in (*([folder] if own else []), pin)]


@contextmanager
def _in_place(new: Path | None, folder: Path, old: Path, last: Path) -> Iterator[None]:
    """`new` becomes `folder`, and what was there `old`: a port that was killed left it, or its pin was taken away. All
    is as before when the block ends before it has made `last`."""
    try:
        if folder.exists():
            folder.rename(old)
        if new is not None:
            new.rename(folder)
        yield
    except BaseException:
        if not last.exists():
            if new is not None and not new.exists():
                folder.rename(new)
            if old.exists():
                old.rename(folder)
        raise
