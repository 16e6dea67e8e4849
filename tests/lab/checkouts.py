"""Copies of this checkout, as it is now, with what was built from it: nothing is compiled or fetched again."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from harness.repo import checkout


def copy_files(folder: Path) -> Path:
    """The files that git knows, changed ones as they are."""
    root = checkout().root
    words = ["git", "-C", str(root), "ls-files", "-z"]
    listed = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    for name in filter(None, listed.stdout.split("\0")):
        if (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)
    return folder


def copy_built(folder: Path) -> None:
    """NCCL's tree and the net library, with its objects."""
    ours = checkout()
    for built in (ours.tree, ours.net):
        shutil.copytree(built, folder / built.relative_to(ours.root), symlinks=True, dirs_exist_ok=True)
