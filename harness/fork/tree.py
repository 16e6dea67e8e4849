"""Makes a tree in nccl_fork: fetched, verified, patched. Always built aside and renamed, so it is whole or absent."""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import UsageError
from harness.files.lock import exclusive
from harness.fork.patches import apply_patch, list_patches, patch_files
from harness.fork.pin import Pin, load_pin
from harness.fork.sources import acquire, chosen_source, sources
from harness.fork.state import IGNORED, ForkStatus, TreeState, fork_status
from harness.fork.treehash import tree_hash
from harness.fork.unpack import pack_tar
from harness.progress import Progress, show
from harness.repo import Layout

KEEP_EDITS = "`r2cc fork refresh` turns the edits into patches; --force throws them away"


def fetch(layout: Layout, source: str | None = None, *, force: bool = False, progress: Progress = show) -> ForkStatus:
    """Have the pinned NCCL in the tree, unpatched unless it already was patched.

    A source that is asked for is fetched and verified even if the tree is there already, so that a wrong one never
    goes unnoticed. Raises SourceError, or UsageError rather than lose edits.
    """
    pin = load_pin(layout.pin)
    with locked(layout):
        before = fork_status(layout, pin)
        chosen = chosen_source(source)
        if before.fetched and not (chosen or force):
            return before
        with staging(layout) as scratch:
            tree, name = _pristine(layout, pin, chosen, scratch, progress)
            if force or not before.fetched:
                _refuse_to_lose_edits(layout, before, force)
                _install(layout, tree, TreeState(pin.version, pin.commit, pin.tree, name, [], pin.tree))
        return fork_status(layout, pin)


def patch(layout: Layout, *, force: bool = False, progress: Progress = show) -> ForkStatus:
    """Have the current patches in the tree, applied to the pristine source. Raises SourceError or UsageError."""
    pin = load_pin(layout.pin)
    with locked(layout):
        before = fork_status(layout, pin)
        if not before.fetched:
            raise UsageError(f"there is no NCCL {pin.version} to patch in {layout.tree}", "`r2cc fork fetch` first")
        if before.patched and not force:
            return before
        _refuse_to_lose_edits(layout, before, force)
        _patch(layout, pin, None, before.source, progress)
        return fork_status(layout, pin)


def ensure(layout: Layout, source: str | None = None, *, progress: Progress = show) -> ForkStatus:
    """Fetch and patch as far as needed; for a build. An edited tree is used as it is while its patches are current.

    `source` (the option, not the environment) is verified even when it is not needed.
    """
    pin = load_pin(layout.pin)
    if source is not None:
        fetch(layout, source, progress=progress)
    with locked(layout):
        before = fork_status(layout, pin)
        if before.fetched and before.patched:
            return before
        _refuse_to_lose_edits(layout, before, force=False)
        _patch(layout, pin, None if before.fetched else chosen_source(source), before.source, progress)
        return fork_status(layout, pin)


def _patch(layout: Layout, pin: Pin, chosen: str | None, known_source: str | None, progress: Progress) -> None:
    with staging(layout) as scratch:
        tree, name = _pristine(layout, pin, chosen, scratch, progress)
        files = patch_files(layout.patches, pin.patches)
        patches = list_patches(files)
        for file in files.values():
            apply_patch(tree, file, shared=file.parent.name != pin.patches[-1])
        source = known_source or name
        _install(layout, tree, TreeState(pin.version, pin.commit, pin.tree, source, patches, tree_hash(tree)))


def _pristine(layout: Layout, pin: Pin, chosen: str | None, scratch: Path, progress: Progress) -> tuple[Path, str]:
    """A verified tree in scratch; the cache is filled so that the next time needs neither source nor network."""
    cache = cached_archive(layout, pin)
    tree, name = acquire(pin, sources(pin, cache, chosen), scratch, progress)
    if name != "cache":
        pack_tar(tree, cache)
    return tree, name


def cached_archive(layout: Layout, pin: Pin) -> Path:
    return layout.cache / "nccl" / f"nccl-{pin.version}-{pin.tree[:12]}.tar"


def _refuse_to_lose_edits(layout: Layout, before: ForkStatus, force: bool) -> None:
    if before.edited and not force:
        raise UsageError(f"nccl_fork/{layout.tree.name} has been edited, and this would replace it", KEEP_EDITS)


@contextmanager
def locked(layout: Layout) -> Iterator[None]:
    """One process at a time changes the tree or the patches."""
    with exclusive(layout.cache / "locks" / "fork.lock", "fetching or patching NCCL"):
        yield


@contextmanager
def staging(layout: Layout) -> Iterator[Path]:
    """A scratch directory on the tree's own file system, gone afterwards. What a killed process left is swept first."""
    for stale in layout.tree.parent.glob(f"{layout.tree.name}.tmp-*"):
        shutil.rmtree(stale, ignore_errors=True)
    scratch = layout.tree.with_name(f"{layout.tree.name}.tmp-{os.getpid()}")
    scratch.mkdir(parents=True)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _install(layout: Layout, tree: Path, state: TreeState) -> None:
    """Put the new tree in the old one's place. The old one leaves first: a rename onto a full directory fails."""
    state.write(tree)
    if layout.tree.exists():
        _keep_times(tree, layout.tree)
        layout.tree.rename(tree.with_name("replaced"))
    tree.rename(layout.tree)


def _keep_times(new: Path, old: Path) -> None:
    """What did not change keeps its old time, what did is new: so make rebuilds what it must and nothing else."""
    for folder, folders, names in os.walk(new):
        folders[:] = [name for name in folders if name not in IGNORED]
        for name in names:
            ours = Path(folder, name)
            theirs = old / ours.relative_to(new)
            if not theirs.is_symlink() and theirs.is_file() and filecmp.cmp(ours, theirs, shallow=False):
                times = theirs.stat()
                os.utime(ours, ns=(times.st_atime_ns, times.st_mtime_ns))
            elif not ours.is_symlink():
                os.utime(ours)
