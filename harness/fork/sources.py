"""Where NCCL's source can come from. Whatever the source, what it gives is verified against the pin before use."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.errors import R2ccError, SourceError
from harness.fork.apt import fetch_through_apt
from harness.fork.network import run_bounded
from harness.fork.pin import Archive, Pin
from harness.fork.treehash import tree_hash
from harness.fork.unpack import copy_directory, unpack_tar
from harness.progress import Progress

SOURCE_VARIABLE = "R2CC_NCCL_SOURCE"
QUIET_GIT = {"GIT_TERMINAL_PROMPT": "0", "GIT_HTTP_LOW_SPEED_LIMIT": "1000", "GIT_HTTP_LOW_SPEED_TIME": "20"}


class Source(Protocol):
    """A place that may hold the pinned tree."""

    @property
    def name(self) -> str: ...
    def unpack(self, target: Path) -> None: ...


@dataclass(frozen=True)
class PathSource:
    """What the user points at: a directory, a tar archive or a git repository."""

    path: Path
    pin: Pin

    @property
    def name(self) -> str:
        return str(self.path)

    def unpack(self, target: Path) -> None:
        """A repository that has the pinned commit gives that commit, whatever its working tree holds."""
        if not self.path.exists():
            raise SourceError(f"{self.path} does not exist", "give a directory, a tar archive or a git repository")
        if self.path.is_file():
            unpack_tar(self.path, target)
        elif is_repository(self.path) and has_commit(self.path, self.pin.commit):
            export_commit(self.path, self.pin.commit, target)
        else:
            copy_directory(self.path, target)


@dataclass(frozen=True)
class CacheSource:
    """The pristine tree kept from an earlier fetch."""

    archive: Path
    name: str = "cache"

    def unpack(self, target: Path) -> None:
        if not self.archive.is_file():
            raise SourceError("nothing cached yet")
        unpack_tar(self.archive, target)


@dataclass(frozen=True)
class GitSource:
    """Upstream's repository, or a site's mirror of it."""

    pin: Pin
    repository: str
    name: str = "git"

    def unpack(self, target: Path) -> None:
        """A short look first: where nothing answers, the next source should be tried soon."""
        reference = f"refs/tags/{self.pin.tag}"
        run_bounded(["git", "ls-remote", "--exit-code", self.repository, reference], timeout_s=20, env=QUIET_GIT)
        clone = target.with_name(f"{target.name}.git")
        run_bounded(["git", "init", "--quiet", "--bare", str(clone)], timeout_s=20)
        fetch = ["git", "-C", str(clone), "fetch", "--quiet", "--depth=1", self.repository, reference]
        run_bounded(fetch, timeout_s=180, env=QUIET_GIT)
        export_commit(clone, "FETCH_HEAD", target)


@dataclass(frozen=True)
class AptSource:
    """The distribution's source archive."""

    archive: Archive
    name: str = "apt"

    def unpack(self, target: Path) -> None:
        fetch_through_apt(self.archive, target.with_name(f"{target.name}.apt"), target)


def is_repository(path: Path) -> bool:
    """A working tree's root or a bare repository; a plain folder inside somebody's repository is neither."""
    return (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())


def has_commit(repository: Path, commit: str) -> bool:
    try:
        run_bounded(["git", "-C", str(repository), "cat-file", "-e", f"{commit}^{{commit}}"], timeout_s=20)
    except SourceError:
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


def sources(pin: Pin, cache: Path, chosen: str | None) -> list[Source]:
    """What to try, in order. A source that was asked for is the only one: falling back would hide that it is wrong."""
    if chosen is None:
        apt = [AptSource(pin.archive)] if pin.archive else []
        git = [GitSource(pin, pin.repository)] if pin.tag else []
        return [CacheSource(cache), *git, *apt]
    if "://" in chosen:
        return [GitSource(pin, chosen, name=chosen)]
    return [PathSource(Path(chosen).expanduser().absolute(), pin)]


def acquire(pin: Pin, candidates: Sequence[Source], scratch: Path, progress: Progress) -> tuple[Path, str]:
    """The first candidate's tree that is what the pin says, and that candidate's name; scratch is an empty directory.

    Raises SourceError that says for each candidate why not.
    """
    failures: list[str] = []
    for number, source in enumerate(candidates):
        target = scratch / f"source{number}"
        target.mkdir()
        try:
            with progress(f"fetching NCCL {pin.version} from {source.name}"):
                source.unpack(target)
            verify(target, pin)
            return target, source.name
        except R2ccError as error:
            failures.append(f"{source.name}: {error.message}")
    message = f"no source gave NCCL {pin.version}:\n  " + "\n  ".join(failures)
    raise SourceError(message, f"give a copy with --source PATH or {SOURCE_VARIABLE} (directory, tar archive or git)")


def verify(tree: Path, pin: Pin) -> None:
    """Raises SourceError naming both hashes unless the tree is exactly the pinned one."""
    found = tree_hash(tree)
    if found != pin.tree:
        raise SourceError(f"its tree is {found}, but the pin says {pin.tree} (NCCL {pin.version})")
    found_sha256 = tree_hash(tree, "sha256")
    if found_sha256 != pin.tree_sha256:
        raise SourceError(f"its SHA-256 tree is {found_sha256}, but the pin says {pin.tree_sha256}: a forged SHA-1?")
