"""The patch files: listing, identifying and applying them, strictly."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from harness.errors import CommandError, SourceError
from harness.hosts import LocalHost
from harness.schemas.form import Limits

APPLY_TIMEOUT_S = 60.0
FIRST_LINES = ("diff --git ", "--- a/", "--- /dev/null")


@dataclass(frozen=True)
class Patch:
    """One patch file, identified by its content."""

    name: str
    sha256: Annotated[str, Limits(pattern=r"^[0-9a-f]{64}$")]


def patch_files(root: Path, folders: Sequence[str]) -> dict[str, Path]:
    """The patches of one NCCL version by name, in the order they apply: by name. The last folder that has one wins."""
    found = {file.name: file for folder in folders for file in (root / folder).glob("*.patch")}
    return dict(sorted(found.items()))


def list_patches(files: Mapping[str, Path]) -> list[Patch]:
    """What `patch_files` found, each identified."""
    return [Patch(name, hashlib.sha256(file.read_bytes()).hexdigest()) for name, file in files.items()]


def without_places(text: str) -> str:
    """A patch but for line numbers and git's hashes: alike for two versions that differ only elsewhere in the file."""
    kept = re.sub(r"^(diff --git|index) .*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^@@ -\S+ \+\S+ @@", "@@", kept, flags=re.MULTILINE)


def apply_patch(tree: Path, patch: Path, *, shared: bool = False) -> None:
    """Apply one patch to the tree, all of it or none, without fuzz. Raises SourceError with git's own words.

    `shared`: it was written for another version, too, and lines may have moved. The ceiling keeps git from taking the
    tree for a part of our own repository.
    """
    argv = ["git", "-C", str(tree), "apply", "-p1", "--whitespace=nowarn", "--verbose", str(patch)]
    env = {"GIT_CEILING_DIRECTORIES": str(tree.parent), "LC_ALL": "C.UTF-8"}
    try:
        result = LocalHost().run(argv, env=env, timeout_s=APPLY_TIMEOUT_S)
    except CommandError as error:
        hint = "mend the patch by hand, or apply the others, edit nccl_fork/tree and run `r2cc fork refresh`"
        raise SourceError(f"{patch.name} does not apply: {error.message}", hint) from error
    moved = [line for line in result.stderr.splitlines() if "offset" in line]
    if moved and not shared:
        print(f"r2cc: warning: {patch.name} applied with an offset: {'; '.join(moved)}", file=sys.stderr)


def patched_files(patch: Path) -> list[str]:
    """The paths a patch changes, as git reads it. Raises SourceError for what is no patch."""
    env = {"GIT_CEILING_DIRECTORIES": str(patch.parent.parent), "LC_ALL": "C.UTF-8"}
    try:
        listing = LocalHost().run(["git", "apply", "--numstat", "-z", str(patch)], env=env, timeout_s=APPLY_TIMEOUT_S)
    except CommandError as error:
        raise SourceError(f"{patch.name} is no patch that git can read: {error.message}", "restore it") from error
    return [entry.split("\t", 2)[2] for entry in listing.stdout.split("\0") if entry]


def header(patch: Path) -> str:
    """What a patch says before its first difference: why it is there."""
    lines = patch.read_text().splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if line.startswith(FIRST_LINES)]
    first = starts[0] if starts else len(lines)
    return "".join(lines[:first])
