"""A rank of an older build with one of today's: both carry a NIC that is cut, and one line says that builds differ.

The older one is built once from this repository's own history, which takes minutes. R2CC_OLDER_BUILD names a folder
that has its libr2cc_net.so already.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.build import build_net, run_target
from harness.progress import silent

sys.path.insert(0, str(Path(__file__).parent))
from netcases.mixed import PLUGIN, works
from netcases.play import Outcome, stage

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.build, pytest.mark.timeout(3600)]
REPO = Path(__file__).parents[2]
OLDER = "158829efb8ff36de08b7686a74d5e0d1c7a394e6"
"""Without R2CC_TLS, of the same protocol. When the protocol changes, this moves on to the first commit that has it."""
CLI = "from harness.cli import main; main()"
BUILD_S = 3000.0


@pytest.fixture(scope="module")
def older() -> Path:
    """Its library."""
    given = os.environ.get("R2CC_OLDER_BUILD")
    if given:
        return Path(given) / "libr2cc_net.so"
    if subprocess.run(["git", "cat-file", "-e", OLDER], cwd=REPO, capture_output=True).returncode != 0:
        pytest.skip(f"this checkout's history has no {OLDER[:8]}")
    there = REPO / ".cache" / "older" / OLDER
    if not (there / "r2cc_patches").is_dir():
        there.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "archive", OLDER], cwd=REPO, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", str(there)], input=archive, check=True)
    for words in (["fork", "fetch"], ["fork", "patch"], ["build", "net"]):
        env = {**os.environ, "PYTHONPATH": str(there)}
        argv = [sys.executable, "-c", CLI, *words]
        done = subprocess.run(argv, cwd=there, env=env, capture_output=True, text=True, timeout=BUILD_S)
        assert done.returncode == 0, done.stderr
    return there / "build" / "net" / "libr2cc_net.so"


@pytest.mark.parametrize("sends", ["older", "todays"])
def test_both_carry_a_nic_that_is_cut(older: Path, sends: str) -> None:
    todays = build_net(progress=silent).library
    run_target("driver", silent)
    assert played(todays.with_name("net_driver"), todays, older, older_sends=sends == "older").problems == []


def played(driver: Path, todays: Path, older: Path, *, older_sends: bool) -> Outcome:
    """The same as the case `mixed-builds`, whose ends have one library that plays another."""
    other = (*PLUGIN, "--library", older)
    with stage(driver, todays, 1) as found:
        return works(found, modes=(1, 1), doors=(other, PLUGIN) if older_sends else (PLUGIN, other))
