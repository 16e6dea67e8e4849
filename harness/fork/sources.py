"""Where NCCL's source can come from. Whatever the source, what it gives is verified against the pin before use."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from harness.errors import R2ccError, SourceError
from harness.fork.apt import fetch_through_apt
from harness.fork.network import run_bounded
from harness.fork.pin import Archive, Pin
from harness.fork.treehash import tree_hash
from harness.fork.unpack import copy_directory, unpack_tar
from harness.fork.version import version_of
from harness.progress import Progress

SOURCE_VARIABLE = "R2CC_NCCL_SOURCE"
QUIET_GIT = {"GIT_TERMINAL_PROMPT": "0", "GIT_HTTP_LOW_SPEED_LIMIT": "1000", "GIT_HTTP_LOW_SPEED_TIME": "20"}


Unpack = Callable[[Path], None]
"""Puts what a source holds into an empty folder. SourceError when it has nothing."""


def from_path(path: Path, pin: Pin, target: Path) -> None:
    """What the user points at. A repository that has the commit gives it, whatever its working tree holds."""
    if not is_repository(path):
        from_files(path, target)
    elif has_commit(path, pin.commit):
        export_commit(path, pin.commit, target)
    elif (checked_out := version_of(path)) is not None and checked_out[1] == pin.version:
        from_files(path, target)
    else:
        wanted = f"commit {pin.commit[:12]} ({pin.tag or pin.version})" if pin.commit else f"NCCL {pin.version}"
        there = f", and NCCL {checked_out[1]} is checked out" if checked_out else ""
        raise SourceError(f"this git repository has no {wanted}{there}")


def from_files(path: Path, target: Path) -> None:
    """A folder or a tar archive."""
    if not path.exists():
        raise SourceError(f"{path} does not exist", "give a directory, a tar archive or a git repository")
    try:
        (unpack_tar if path.is_file() else copy_directory)(path, target)
    except shutil.Error as error:
        source, _, why = error.args[0][0]
        raise SourceError(f"cannot copy all of {path}, as {source}: {why}", "see who may read it: ls -l") from error


def from_cache(archive: Path, target: Path) -> None:
    """The pristine tree kept from an earlier fetch."""
    if not archive.is_file():
        raise SourceError("nothing cached yet")
    unpack_tar(archive, target)


def from_git(repository: str, reference: str, target: Path) -> None:
    """A short look first: where nothing answers, the next source should be tried soon."""
    if not run_bounded(["git", "ls-remote", repository, reference], timeout_s=20, env=QUIET_GIT):
        raise SourceError(f"{repository} has no {reference.removeprefix('refs/tags/')}")
    clone = target.with_name(f"{target.name}.git")
    run_bounded(["git", "init", "--quiet", "--bare", str(clone)], timeout_s=20)
    fetch = ["git", "-C", str(clone), "fetch", "--quiet", "--depth=1", repository, reference]
    run_bounded(fetch, timeout_s=180, env=QUIET_GIT)
    export_commit(clone, "FETCH_HEAD", target)


def from_apt(archive: Archive, target: Path) -> None:
    """The distribution's source archive."""
    fetch_through_apt(archive, target.with_name(f"{target.name}.apt"), target)


def is_repository(path: Path) -> bool:
    """A working tree's root or a bare repository; a plain folder inside somebody's repository is neither."""
    return (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())


def has_commit(repository: Path, commit: str) -> bool:
    """Raises SourceError where git refuses to read the repository, as it does when somebody else owns it."""
    try:
        run_bounded(["git", "-C", str(repository), "cat-file", "-e", f"{commit}^{{commit}}"], timeout_s=20)
    except SourceError:
        run_bounded(["git", "-C", str(repository), "rev-parse", "--git-dir"], timeout_s=20)
        return False
    return True


def export_commit(repository: Path, commit: str, target: Path) -> None:
    """Unpack one commit's tree."""
    archive = target.with_name(f"{target.name}.tar")
    run_bounded(
        ["git", "-C", str(repository), "archive", "--format=tar", "-o", str(archive), f"{commit}^{{tree}}"],
        timeout_s=60,
    )
    unpack_tar(archive, target)
    archive.unlink()


def chosen_source(option: str | None) -> str | None:
    """The source the user asks for, by option or else by environment; None to search for one."""
    return option or os.environ.get(SOURCE_VARIABLE) or None


def sources(pin: Pin, cache: Path, chosen: str | None) -> dict[str, Unpack]:
    """What to try, in order, by name. One that was asked for is the only one: falling back would hide that it is
    wrong."""
    tag = f"refs/tags/{pin.tag}"
    if chosen is None:
        git = {"git": partial(from_git, pin.repository, tag)} if pin.tag else {}
        apt = {"apt": partial(from_apt, pin.archive)} if pin.archive else {}
        return {"cache": partial(from_cache, cache), **git, **apt}
    if "://" in chosen:
        return {chosen: partial(from_git, chosen, tag)}
    path = Path(chosen).expanduser().absolute()
    return {str(path): partial(from_path, path, pin)}


def acquire(pin: Pin, candidates: Mapping[str, Unpack], scratch: Path, progress: Progress) -> tuple[Path, str]:
    """The first candidate's tree that is what the pin says, and that candidate's name; scratch is an empty directory.

    Raises SourceError that says for each candidate why not.
    """
    failures: list[str] = []
    for number, (name, unpack) in enumerate(candidates.items()):
        target = scratch / f"source{number}"
        target.mkdir()
        try:
            with progress(f"fetching NCCL {pin.version} from {name}"):
                unpack(target)
            verify(target, pin)
            return target, name
        except R2ccError as error:
            failures.append(error.message if error.message.startswith(name) else f"{name}: {error.message}")
    message = f"no source gave NCCL {pin.version}:\n  " + "\n  ".join(failures)
    raise SourceError(message, f"give a copy with --source PATH or {SOURCE_VARIABLE} (directory, tar archive or git)")


def verify(tree: Path, pin: Pin) -> None:
    """Raises SourceError naming both hashes unless the tree is exactly the pinned one."""
    found = tree_hash(tree)
    if found != pin.tree:
        hashes = f"its tree is {found or 'empty'}, but the pin says {pin.tree} (NCCL {pin.version})"
        raise SourceError(f"{_other(tree, pin)}: {hashes}")
    found_sha256 = tree_hash(tree, "sha256")
    if found_sha256 != pin.tree_sha256:
        raise SourceError(f"its SHA-256 tree is {found_sha256}, but the pin says {pin.tree_sha256}: a forged SHA-1?")


def _other(tree: Path, pin: Pin) -> str:
    """What is known of a tree that is not the pinned one, in words."""
    found = version_of(tree)
    if found is None:
        return "it holds no NCCL (no version in makefiles/version.mk)"
    if found[1] != pin.version:
        return f"it is NCCL {found[1]}, not {pin.version}"
    return "it is not as published: a file was changed, is missing, or was added (by a build?)"
