"""The tree hash is git's, so git is the judge."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness.fork.treehash import tree_hash


def write_tree(tree: Path, algorithm: str, scratch: Path) -> str:
    """What git itself says."""
    env = {
        **os.environ,
        "GIT_DIR": str(scratch / algorithm),
        "GIT_WORK_TREE": str(tree),
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    for words in (["init", "-q", f"--object-format={algorithm}"], ["add", "--all", "--force", "."]):
        subprocess.run(["git", *words], cwd=tree, env=env, check=True, timeout=60)
    done = subprocess.run(
        ["git", "write-tree"], cwd=tree, env=env, check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


@pytest.fixture
def awkward_tree(tmp_path: Path) -> Path:
    """Everything git's format is particular about."""
    tree = tmp_path / "tree"
    (tree / "a").mkdir(parents=True)  # a folder sorts as "a/", after "a.b" and "a-b"
    for name in ("a.b", "a-b", "a0", "a/file", "ünïcode", "with space", ".gitignore"):
        (tree / name).write_text(f"content of {name}\n")
    (tree / ".gitignore").write_text("*\n")
    (tree / "binary").write_bytes(bytes(range(256)) * 9)
    (tree / "empty").touch()
    (tree / "empty folder" / "nested").mkdir(parents=True)
    (tree / "run").write_text("#!/bin/sh\n")
    (tree / "run").chmod(0o755)
    (tree / "link").symlink_to("a/file")
    (tree / "dangling").symlink_to("nowhere")
    return tree


@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
def test_is_gits_own(awkward_tree: Path, tmp_path: Path, algorithm: str) -> None:
    assert tree_hash(awkward_tree, algorithm) == write_tree(awkward_tree, algorithm, tmp_path)


def test_sees_content_mode_name_and_link(awkward_tree: Path) -> None:
    hashes = [tree_hash(awkward_tree)]
    (awkward_tree / "a0").write_text("else\n")
    hashes.append(tree_hash(awkward_tree))
    (awkward_tree / "a0").chmod(0o755)
    hashes.append(tree_hash(awkward_tree))
    (awkward_tree / "a0").rename(awkward_tree / "a1")
    hashes.append(tree_hash(awkward_tree))
    (awkward_tree / "link").unlink()
    (awkward_tree / "link").symlink_to("a1")
    hashes.append(tree_hash(awkward_tree))
    assert len(set(hashes)) == len(hashes)


def test_does_not_see_times_permissions_beyond_execute_or_gits_folder(awkward_tree: Path) -> None:
    before = tree_hash(awkward_tree)
    os.utime(awkward_tree / "a0", (1, 1))
    (awkward_tree / "a0").chmod(0o600)
    (awkward_tree / ".git").mkdir()
    (awkward_tree / ".git" / "config").write_text("")
    assert tree_hash(awkward_tree) == before


def test_ignores_names_only_at_the_root(awkward_tree: Path) -> None:
    before = tree_hash(awkward_tree, ignore=("build",))
    (awkward_tree / "build").mkdir()
    (awkward_tree / "build" / "x.o").touch()
    assert tree_hash(awkward_tree, ignore=("build",)) == before
    (awkward_tree / "a" / "build").touch()
    assert tree_hash(awkward_tree, ignore=("build",)) != before


def test_refuses_what_git_cannot_store(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe"):
        tree_hash(tmp_path)
