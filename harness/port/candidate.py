"""The NCCL that patches are carried over to: a tag or version from git, a folder or an archive."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from harness.errors import R2ccError, SourceError, UsageError
from harness.fork.network import run_bounded
from harness.fork.pin import load_pin
from harness.fork.sources import acquire, chosen_source, export_commit, from_files, from_git, is_repository, sources
from harness.fork.tree import cached_archive
from harness.fork.treehash import tree_hash
from harness.fork.version import version_of
from harness.progress import Progress
from harness.repo import Layout

UPSTREAM = "https://github.com/NVIDIA/nccl.git"
LOOKS_LIKE_A_PATH = ("/", "~", ".")
NAMED = 3
"""How many changed files an error names."""


@dataclass(frozen=True)
class Candidate:
    """A tree as it is, in scratch. `repository`, `tag` and `commit` are empty where it came from no git."""

    tree: Path
    version: str
    """2.30.7"""
    revision: str
    """2.30.7-1"""
    source: str
    repository: str
    tag: str
    commit: str
    content: str
    """git's tree hash"""


def candidate(layout: Layout, what: str, source: str | None, scratch: Path, progress: Progress) -> Candidate:
    """`what`: a folder, an archive, a tag (v2.30.7-1) or a version (2.30.7). SourceError says what was tried."""
    path = Path(what).expanduser()
    if not path.exists() and not what.startswith(LOOKS_LIKE_A_PATH):
        return _of_tag(layout, what, source, scratch, progress)
    tree = scratch / "candidate"
    tree.mkdir()
    with progress(f"reading {what}"):
        if path.is_dir() and is_repository(path):
            return _checked_out(path.absolute(), tree)
        from_files(path, tree)
    return _described(tree, str(path.absolute()), "", "", "")


def _checked_out(path: Path, tree: Path) -> Candidate:
    """What a repository has at HEAD, so that the pin names a commit. UsageError where files differ from it: which of
    the two is meant?"""
    git = ["git", "--no-optional-locks", "-C", str(path)]
    if (path / ".git").exists():
        status = run_bounded(
            [*git, "status", "--porcelain", "--no-renames", "--untracked-files=no", "-z"], timeout_s=60
        )
        changed = [entry[3:] for entry in status.split("\0") if entry]
        if changed:
            more = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
            message = f"{path} has changes that are not committed: {', '.join(changed[:NAMED])}{more}"
            raise UsageError(message, f"commit them, or name a tag of it: TAG --source {path}")
    commit = run_bounded([*git, "rev-parse", "HEAD^{commit}"], timeout_s=20).strip()
    export_commit(path, commit, tree)
    return _described(tree, str(path), "", "", commit)


def _of_tag(layout: Layout, what: str, source: str | None, scratch: Path, progress: Progress) -> Candidate:
    tag = what if not what[:1].isdigit() else f"v{what}" if "-" in what else f"v{what}-1"
    version = tag.removeprefix("v").partition("-")[0]
    chosen, tried = chosen_source(source), []
    if chosen is None and (layout.pins / f"{version}.toml").is_file():
        return _pinned(layout.with_version(version), scratch, progress)
    place = chosen or UPSTREAM
    tree = scratch / "candidate"
    tree.mkdir()
    try:
        with progress(f"fetching {tag} from {place}"):
            return _fetched(place, tag, tree)
    except R2ccError as error:
        tried.append(error.message if error.message.startswith(place) else f"{place}: {error.message}")
    reasons: dict[str, str] = tomllib.loads((layout.pins.parent / "no-source.toml").read_text())
    known = [f"what is known of {version}: {reasons[version]}"] if version in reasons else []
    message = "\n  ".join([f"no source gave NCCL {version}; skipped. Tried:", *tried, *known])
    raise SourceError(
        message, "give a folder or an archive in its place, or --source PLACE (a git repository with the tag)"
    )


def _pinned(layout: Layout, scratch: Path, progress: Progress) -> Candidate:
    pin = load_pin(layout.pin)
    tree, source = acquire(pin, sources(pin, cached_archive(layout, pin), None), scratch, progress)
    return _described(tree, source, pin.repository, pin.tag, pin.commit)


def _fetched(place: str, tag: str, tree: Path) -> Candidate:
    """From a repository, here or elsewhere; a folder or archive that is none holds one version alone."""
    local = None if "://" in place else Path(place).expanduser().absolute()
    if local is not None and not (local.is_dir() and is_repository(local)):
        from_files(local, tree)
        found = _described(tree, str(local), "", "", "")
        if f"v{found.revision}" != tag:
            raise SourceError(f"it is NCCL {found.revision}, not {tag.removeprefix('v')}")
        return found
    from_git(place if local is None else str(local), f"refs/tags/{tag}", tree)
    clone = tree.with_name(f"{tree.name}.git")
    commit = run_bounded(["git", "-C", str(clone), "rev-parse", "FETCH_HEAD^{commit}"], timeout_s=20).strip()
    return _described(tree, place, UPSTREAM if local else place, tag, commit)


def _described(tree: Path, source: str, repository: str, tag: str, commit: str) -> Candidate:
    found = version_of(tree)
    if found is None:
        message = f"{source} holds no NCCL: no version in makefiles/version.mk"
        raise SourceError(message, "name the folder that holds NCCL's Makefile and src")
    return Candidate(tree, *found, source, repository, tag, commit, tree_hash(tree))
