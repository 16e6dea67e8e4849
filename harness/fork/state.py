"""What is known about a tree in nccl_fork: read from disk each time, never assumed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.fork.patches import Patch, list_patches, patch_files
from harness.fork.pin import Pin
from harness.fork.treehash import tree_hash
from harness.repo import Layout
from harness.schemas import dumped
from harness.schemas.form import form

STATE_NAME = ".r2cc-state.json"
IGNORED = (".git", "build", STATE_NAME)
"""Entries of the tree that are nobody's edit: NCCL's own build folder is one of them."""


@form("fork_state", ".r2cc-state.json of the fetched tree", version=None)
@dataclass(frozen=True)
class TreeState:
    """Written into the tree by whatever made it, so that it moves, and goes, with the tree."""

    version: str
    commit: str
    tree: str
    source: str
    patches: list[Patch]
    patched_tree: str

    def write(self, tree: Path) -> None:
        (tree / STATE_NAME).write_text(dumped(self, 1) + "\n")


def read_state(tree: Path) -> TreeState | None:
    """None if there is no tree, or one that we did not make."""
    try:
        data: dict[str, Any] = json.loads((tree / STATE_NAME).read_text())
        return TreeState(**{**data, "patches": [Patch(**patch) for patch in data["patches"]]})
    except (OSError, ValueError, TypeError, KeyError):
        return None


@form("fork", "r2cc fork status, fetch, patch")
@dataclass(frozen=True)
class ForkStatus:
    """Where the fork stands. `edited`: the tree differs from what its patches make of the pinned source."""

    version: str
    commit: str
    pinned_tree: str
    exists: bool
    fetched: bool
    patched: bool
    edited: bool
    source: str | None
    tree_hash: str | None
    patches: list[Patch]
    applied: list[Patch]


def fork_status(layout: Layout, pin: Pin) -> ForkStatus:
    """Look at the tree and the patch files. Takes about 0.1 s: every file of the tree is hashed."""
    state = read_state(layout.tree)
    exists = layout.tree.is_dir()
    found = tree_hash(layout.tree, ignore=IGNORED) if exists else None
    patches = list_patches(patch_files(layout.patches, pin.patches))
    fetched = state is not None and state.tree == pin.tree
    return ForkStatus(
        version=pin.version,
        commit=pin.commit,
        pinned_tree=pin.tree,
        exists=exists,
        fetched=fetched,
        patched=fetched and state is not None and state.patches == patches,
        edited=exists and (state is None or state.patched_tree != found),
        source=state.source if state else None,
        tree_hash=found,
        patches=patches,
        applied=state.patches if state else [],
    )
