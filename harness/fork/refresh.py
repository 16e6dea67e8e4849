"""Re-creates the patch files from an edited tree, keeping each patch's header and its split by topic.

The series is replayed on the pristine source, one stage a patch. A file's own history is thereby known: every patch
that touches it keeps its part, and the edits go to the last of them.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import SourceError, UsageError
from harness.fork.patches import apply_patch, header, list_patches, patch_files, patched_files, without_places
from harness.fork.pin import Pin, load_pin
from harness.fork.sources import acquire, sources
from harness.fork.state import IGNORED, TreeState, read_state
from harness.fork.tree import cached_archive, locked, staging
from harness.fork.treehash import tree_hash
from harness.hosts import LocalHost
from harness.progress import silent
from harness.repo import Layout
from harness.schemas.form import form

CONTEXT_LINES = 1  # as little of NCCL's text as can anchor a hunk: the base is pinned
NEW_HEADER = "{name}\n\nWhat this hooks and why: to be written by whoever made the edit.\n\n"


@form("fork_refresh", "r2cc fork refresh")
@dataclass(frozen=True)
class Refreshed:
    """What was done, in words."""

    done: Sequence[str]


@dataclass
class Series:
    """The patches under way: which files each owns, and the text each will have.

    `folder` is the version's own; `where` says where each patch lies now, which may be another version's folder."""

    folder: Path
    where: dict[str, Path]
    names: list[str]
    files: dict[str, list[str]]
    text: dict[str, str] = field(default_factory=dict)

    def owner(self, path: str) -> str | None:
        """The last patch that touches the file."""
        return next((name for name in reversed(self.names) if path in self.files[name]), None)


def refresh(layout: Layout, *, into: str | None = None) -> list[str]:
    """Rewrite the patches so that they make the edited tree out of the pinned source; returns what was done.

    `into` names the patch that takes files no patch touches yet. The new patches are applied and compared with the tree
    before the old ones are replaced. Raises UsageError (no tree, patches changed meanwhile, no owner for a file).
    """
    pin = load_pin(layout.pin)
    with locked(layout), staging(layout) as scratch:
        state = _state_to_refresh(layout, pin)
        pristine, _ = acquire(pin, sources(pin, cached_archive(layout, pin), None), scratch, silent)
        series = _series(layout, pin)
        _assign_new_files(series, _differences(_replayed(series, pristine, scratch), layout.tree), into)
        _write_diffs(series, pristine, layout.tree, scratch)
        done = _checked_and_installed(series, pristine, layout.tree, scratch)
        _remember(layout, pin, state)
        return done


def _state_to_refresh(layout: Layout, pin: Pin) -> TreeState:
    state = read_state(layout.tree)
    if state is None or state.tree != pin.tree:
        raise UsageError("there is no tree of the pinned version to take patches from", "`r2cc fork fetch` and `patch`")
    if state.patches != list_patches(patch_files(layout.patches, pin.patches)):
        raise UsageError(
            f"the patch files changed since they were applied to nccl_fork/{layout.tree.name}, so edits cannot be told "
            "from them",
            "restore the patch files (git), refresh, and then merge",
        )
    return state


def _series(layout: Layout, pin: Pin) -> Series:
    where = patch_files(layout.patches, pin.patches)
    folder = layout.patches / pin.patches[-1]
    return Series(folder, where, list(where), {name: patched_files(file) for name, file in where.items()})


def _replayed(series: Series, pristine: Path, scratch: Path) -> Path:
    """What the patches, as they are, make of the source."""
    tree = scratch / "replayed"
    shutil.copytree(pristine, tree, symlinks=True)
    for file in series.where.values():
        apply_patch(tree, file, shared=file.parent != series.folder)
    return tree


def _differences(before: Path, after: Path) -> list[str]:
    """Files that differ, were added or were removed, relative to the trees."""
    return sorted(path for path in _files(before) | _files(after) if not _same(before / path, after / path))


def _files(tree: Path) -> set[str]:
    found: set[str] = set()
    for folder, folders, names in os.walk(tree):
        if Path(folder) == tree:
            folders[:] = [name for name in folders if name not in IGNORED]
            names = [name for name in names if name not in IGNORED]  # noqa: PLW2901
        found.update(str(Path(folder, name).relative_to(tree)) for name in names)
    return found


def _same(one: Path, other: Path) -> bool:
    if one.is_symlink() or other.is_symlink():
        return one.is_symlink() and other.is_symlink() and one.readlink() == other.readlink()
    if not (one.is_file() and other.is_file()):
        return False
    return one.read_bytes() == other.read_bytes() and (one.stat().st_mode & 0o100) == (other.stat().st_mode & 0o100)


def _assign_new_files(series: Series, edited: list[str], into: str | None) -> None:
    orphans = [path for path in edited if series.owner(path) is None]
    if not orphans:
        return
    if into is None:
        raise UsageError(f"no patch touches {', '.join(orphans)} yet", "say which one shall, or a new one: --into NAME")
    name = Path(into).name.removesuffix(".patch") + ".patch"
    if name not in series.names:
        series.names = sorted([*series.names, name])
        series.files[name] = []
    series.files[name] += orphans


def _write_diffs(series: Series, pristine: Path, edited: Path, scratch: Path) -> None:
    """Replay once more; before and after each patch, compare just the files that it owns."""
    stage = scratch / "stage"
    shutil.copytree(pristine, stage, symlinks=True)
    for name in series.names:
        before = scratch / "a"
        copy_files(stage, before, series.files[name])
        if name in series.where:
            apply_patch(stage, series.where[name], shared=True)  # said once already, if it was written for this version
        copy_files(edited, stage, [path for path in series.files[name] if series.owner(path) == name])
        after = scratch / "b"
        copy_files(stage, after, series.files[name])
        series.text[name] = difference(scratch, series.files[name])
        shutil.rmtree(before)
        shutil.rmtree(after)


def copy_files(source: Path, target: Path, paths: list[str]) -> None:
    """Make the target's files what the source's are; absent there means absent here."""
    target.mkdir(exist_ok=True)
    for path in paths:
        (target / path).unlink(missing_ok=True)
        if (source / path).is_symlink() or (source / path).exists():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / path, target / path, follow_symlinks=False)


def difference(scratch: Path, order: Sequence[str]) -> str:
    """git's own difference of the folders a/ and b/, so that it is what `git apply` reads best; files in this order."""
    options = f"--no-index -U{CONTEXT_LINES} --no-color --no-ext-diff --no-renames --no-prefix --text".split()
    env = {"GIT_CEILING_DIRECTORIES": str(scratch), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    argv = ["git", "-C", str(scratch), "diff", *options, "a", "b"]
    result = LocalHost().run(argv, env=env, timeout_s=60, check=False)
    if result.exit_code not in (0, 1):  # 1 says that they differ
        raise SourceError(f"git cannot compare the trees: {result.stderr.strip()}", "is git installed and recent?")
    return tidy(ordered(result.stdout, order))


def ordered(diff: str, order: Sequence[str]) -> str:
    """Files in the order in which the patch has them: git's is the alphabet's, which would show moves as edits."""
    places = {path: place for place, path in enumerate(order)}

    def place(part: str) -> int:
        named = re.match(r"diff --git [ab]/(.*) [ab]/\1\n", part)
        return places.get(named[1], len(places)) if named else len(places)

    return "".join(sorted(re.split(r"^(?=diff --git )", diff, flags=re.MULTILINE)[1:], key=place))


def tidy(diff: str) -> str:
    """Both names on a difference's first line even where a side is absent, and no quoted function after a hunk's @@.

    git's own two lines before a file that was only edited are left out: `---` and `+++` say all, as in ours."""
    diff = re.sub(r"^diff --git .*\nindex .*\n(?=--- a/.*\n\+\+\+ b/)", "", diff, flags=re.MULTILINE)
    diff = re.sub(r"^diff --git [ab]/(.*) [ab]/\1$", r"diff --git a/\1 b/\1", diff, flags=re.MULTILINE)
    return re.sub(r"^(@@ -\S+ \+\S+ @@).*$", r"\1", diff, flags=re.MULTILINE)


def _checked_and_installed(series: Series, pristine: Path, edited: Path, scratch: Path) -> list[str]:
    """Write the patches aside, prove that they make the edited tree, then put each in its place."""
    aside = scratch / "patches"
    aside.mkdir()
    proof = scratch / "proof"
    shutil.copytree(pristine, proof, symlinks=True)
    for name in series.names:
        if series.text[name]:
            (aside / name).write_text(_header(series, name) + series.text[name])
            apply_patch(proof, aside / name)
    if tree_hash(proof, ignore=IGNORED) != tree_hash(edited, ignore=IGNORED):
        raise SourceError("the new patches do not make the edited tree; nothing was changed", "report this")
    for name in series.names:
        if not (aside / name).exists() and series.where[name].parent != series.folder:
            other = series.where[name].parent.name
            raise UsageError(f"all that {name} did is taken back, but it is {other}'s, too", "keep one line of it")
    shared = {name for name in series.names if _could_share(series, aside, name)}
    files = [series.where[name] if name in shared else aside / name for name in series.names if series.text[name]]
    if shared and not makes(files, pristine, edited, scratch):
        shared = set()
    return [_install(series, aside, name, share=name in shared) for name in series.names]


def makes(files: Sequence[Path], pristine: Path, tree: Path, scratch: Path) -> bool:
    """Whether these patches, one after the other, make `tree` out of `pristine`. Another version's may not: git goes
    by a line or two of context, and may find the same in another function."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        proof = Path(folder, "tree")
        shutil.copytree(pristine, proof, symlinks=True)
        try:
            for file in files:
                apply_patch(proof, file, shared=True)
        except SourceError:
            return False
        return tree_hash(proof, ignore=IGNORED) == tree_hash(tree, ignore=IGNORED)


def _could_share(series: Series, aside: Path, name: str) -> bool:
    """A patch that lies in another version's folder stays there alone while only line numbers differ."""
    file, new = series.where.get(name), aside / name
    if file is None or file.parent == series.folder or not new.exists():
        return False
    return without_places(file.read_text()) == without_places(new.read_text())


def _header(series: Series, name: str) -> str:
    existing = series.where.get(name)
    return header(existing) if existing else NEW_HEADER.format(name=name.removesuffix(".patch"))


def _install(series: Series, aside: Path, name: str, *, share: bool) -> str:
    folder = series.folder
    new, old = aside / name, folder / name
    shared = series.where.get(name)
    if not new.exists():
        old.unlink(missing_ok=True)
        return f"{name}: removed, its edits are gone from the tree"
    if old.exists() and old.read_bytes() == new.read_bytes():
        return f"{name}: unchanged"
    if shared and share:
        return f"{name}: unchanged, shared with {shared.parent.name}"
    verb = "updated" if shared else "new; write its header"
    folder.mkdir(exist_ok=True)
    part = folder / f".{name}.part"
    shutil.copyfile(new, part)
    part.replace(old)
    return f"{name}: {verb}"


def _remember(layout: Layout, pin: Pin, state: TreeState) -> None:
    """The tree is now exactly what the patches make: not edited any more."""
    patches = list_patches(patch_files(layout.patches, pin.patches))
    found = tree_hash(layout.tree, ignore=IGNORED)
    TreeState(state.version, state.commit, state.tree, state.source, patches, found).write(layout.tree)
