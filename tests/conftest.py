"""What every test gets: an environment that does not leak the user's settings in, and the tools to fake a checkout."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.build.cuda import NEEDED
from harness.fork.treehash import tree_hash
from harness.repo import Layout
from harness.schemas import CHECKED

sys.path.insert(0, str(Path(__file__).parent))  # ports.py, processes.py, strikes.py, waits.py

# A shell starts what runs in the background with SIGINT ignored, nohup with SIGHUP, and every process of a test would
# inherit that. What is not ignored but heard is as usual in a program that is started.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

ROOT = Path(__file__).resolve().parents[1]
GIT_ENV = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "t",
    "GIT_AUTHOR_EMAIL": "t@example.org",
    "GIT_COMMITTER_NAME": "t",
    "GIT_COMMITTER_EMAIL": "t@example.org",
}

PIN = """\
version = "9.9.9-1"
patches = ["9.9.9"]

[upstream]
repository = "{repository}"
tag = "v9.9.9-1"
commit = "{commit}"

[content]
tree = "{tree}"
tree_sha256 = "{tree_sha256}"

[archive]
source_package = "tiny-nccl"
suite = "unstable"
component = "contrib"
name = "tiny-nccl_9.9.9-1.orig.tar.gz"
bytes = 1
sha256 = "{commit}"
"""


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No R2CC setting of the caller, and no git setting (a test may run inside a git hook), reaches a test.

    All JSON that a command prints or writes, in whatever process of a test, must fit its schema.
    """
    for name in list(os.environ):
        if name.startswith(("R2CC_", "GIT_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv(CHECKED, "1")


@dataclass(frozen=True)
class TinyFork:
    """A checkout whose pinned "NCCL" is a handful of files: everything real but the size."""

    layout: Layout
    upstream: Path

    @property
    def tree(self) -> Path:
        return self.layout.tree

    def write_patch(self, name: str, text: str) -> Path:
        folder = self.layout.patches / "9.9.9"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        return folder / name


def git(folder: Path, *words: str) -> str:
    """Run git without the user's configuration."""
    env = {**os.environ, **GIT_ENV}
    return subprocess.run(
        ["git", "-C", str(folder), *words], env=env, check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


def cuda_toolkit(root: Path) -> Path:
    """The headers that make a folder a complete toolkit, empty; its include folder."""
    for name in (*NEEDED, "cuda_runtime_api.h"):
        (root / "include" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "include" / name).touch()
    return root / "include"


@pytest.fixture
def tiny_fork(tmp_path: Path) -> TinyFork:
    """A checkout in a folder with a space in its name, whose pinned source is a git repository beside it."""
    upstream = tmp_path / "up stream"
    (upstream / "src").mkdir(parents=True)
    (upstream / "src" / "net.cc").write_text("".join(f"line {number}\n" for number in range(1, 21)))
    (upstream / "src" / "other.cc").write_text("one\ntwo\nthree\n")
    (upstream / "run.sh").write_text("#!/bin/sh\n")
    (upstream / "run.sh").chmod(0o755)
    (upstream / "link").symlink_to("src/net.cc")
    git(upstream, "init", "--quiet")
    git(upstream, "add", "--all")
    git(upstream, "commit", "--quiet", "-m", "tiny")
    git(upstream, "tag", "v9.9.9-1")
    layout = Layout(tmp_path / "check out")
    layout.pin.parent.mkdir(parents=True)
    layout.pin.write_text(
        PIN.format(
            repository=upstream,
            commit=git(upstream, "rev-parse", "HEAD"),
            tree=git(upstream, "rev-parse", "HEAD^{tree}"),
            tree_sha256=tree_hash(upstream, "sha256"),
        )
    )
    return TinyFork(layout, upstream)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout under test."""
    return ROOT
