"""A rank of an older build with one of today's: with one protocol both carry a NIC that is cut, and one line says that
builds differ; with two they say at both ends that they cannot work with each other.

The older ones are built once from this repository's own history, which takes minutes. Which ones that are follows from
the history: a change of the protocol moves them on.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.build import build_net, run_target
from harness.progress import silent

sys.path.insert(0, str(Path(__file__).parent))
from netcases.mixed import PLUGIN, Words, protocols, works
from netcases.play import Stage, stage

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.build, pytest.mark.timeout(3600)]
REPO = Path(__file__).parents[2]
PROTOCOL = "r2cc_patches/src/wire/wire.h"
CLI = "from harness.cli import main; main()"
BUILD_S = 3000.0


def git(*words: str) -> str:
    """Nothing where there is no such history."""
    return subprocess.run(["git", *words], cwd=REPO, capture_output=True, text=True, check=False).stdout.strip()


def since() -> str:
    """The first commit that speaks today's protocol. Skips where today's files are the first."""
    [line] = re.findall(r"kWireVersion = \d+;", (REPO / PROTOCOL).read_text())
    found = git("log", "-1", "--format=%H", f"-G{line}", "--", PROTOCOL)
    if not found or found == git("rev-parse", "HEAD"):
        pytest.skip("this checkout's history has no older commit of the same protocol")
    return found


def built(commit: str) -> Path:
    """Its library."""
    there = REPO / ".cache" / "older" / commit
    if not (there / "r2cc_patches").is_dir():
        there.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "archive", commit], cwd=REPO, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", str(there)], input=archive, check=True)
    for words in (["fork", "fetch"], ["fork", "patch"], ["build", "net"]):
        env = {**os.environ, "PYTHONPATH": str(there)}
        argv = [sys.executable, "-c", CLI, *words]
        done = subprocess.run(argv, cwd=there, env=env, capture_output=True, text=True, timeout=BUILD_S)
        assert done.returncode == 0, done.stderr
    return there / "build" / "net" / "libr2cc_net.so"


@pytest.fixture(params=["older", "todays"])
def sends(request: pytest.FixtureRequest) -> str:
    """Which of both sends."""
    return str(request.param)


@contextmanager
def beside(older: Path, sends: str) -> Iterator[tuple[Stage, tuple[Words, Words]]]:
    """Where both play, and what is behind the sender and the receiver."""
    todays = build_net(progress=silent).library
    run_target("driver", silent)
    doors = ((*PLUGIN, "--library", older), PLUGIN)
    with stage(todays.with_name("net_driver"), todays, 1) as found:
        yield found, doors if sends == "older" else doors[::-1]


def test_both_carry_a_nic_that_is_cut(sends: str) -> None:
    with beside(built(since()), sends) as (found, doors):
        assert works(found, modes=(1, 1), doors=doors).problems == []


def test_both_say_that_their_protocols_differ(sends: str) -> None:
    with beside(built(git("rev-parse", f"{since()}^")), sends) as (found, doors):
        assert protocols(found, doors=doors, change=None).problems == []
