"""The real library: what it exports, so that NCCL can load it as a net plugin and nothing of ours collides."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from harness.build import NetBuild, build_net
from harness.progress import silent

pytestmark = [pytest.mark.build, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def built() -> NetBuild:
    """Built already in `make test`; from nothing otherwise."""
    return build_net(progress=silent)


def exported(built: NetBuild) -> set[str]:
    if not shutil.which("nm"):
        pytest.skip("nm (binutils) is not installed")
    command = ["nm", "--dynamic", "--defined-only", "--format=posix", str(built.library)]
    listing = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    return {line.split()[0].split("@")[0] for line in listing.splitlines()}


def test_exports_the_net_plugin_table(built: NetBuild) -> None:
    assert "ncclNetPlugin_v11" in exported(built)


def test_exports_nothing_that_could_collide_with_nccls_own_symbols(built: NetBuild) -> None:
    """The library holds copies of NCCL's transports; loaded into a real NCCL they must stay private."""
    names = exported(built)
    foreign = {name for name in names if not name.lower().startswith("r2cc") and not name.startswith("ncclNetPlugin_v")}
    assert foreign == set()


def test_loads_with_every_symbol_resolved(built: NetBuild) -> None:
    """In a child, with immediate binding: a missing symbol shows here and not under a user's job."""
    code = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW).ncclNetPlugin_v11"
    done = subprocess.run(["python3", "-c", code, str(built.library)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_is_up_to_date_at_once(built: NetBuild) -> None:
    again = build_net(progress=silent)
    assert not again.rebuilt and again.build_id == built.build_id
