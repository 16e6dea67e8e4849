"""What a host says of itself before an experiment: the real script on this machine, and answers that are no answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from host_double import FakeHost

from harness.errors import InfraError
from harness.hosts import LocalHost
from harness.hosts.survey import Survey, parse, survey

V6, V4 = {"family": "inet6", "local": "fe80::1"}, {"family": "inet", "local": "10.1.0.2"}
ADDRESSES = [
    {"ifname": "lo", "flags": ["LOOPBACK", "UP"], "addr_info": [{"family": "inet", "local": "127.0.0.1"}]},
    {"ifname": "ens1f0", "flags": ["UP"], "addr_info": [V6, V4]},
    {"ifname": "ens1f1", "flags": [], "addr_info": []},
]
SAID = f"""
=== prefix
/home/a/.r2cc
=== connection
192.0.2.9 50000 192.0.2.1 22
=== settings
NCCL_DEBUG
R2CC_MODE

=== addresses
{json.dumps(ADDRESSES)}

=== rdma
mlx5_0 ens1f0
mlx5_1

=== cpu
model name\t: Some CPU @ 2.00GHz

=== cores
64

=== memory
MemTotal:       1024 kB

=== kernel
6.1.0

=== machine
x86_64
=== built
    62
=== build
{{"build_id": "abc"}}

=== end
"""


def test_everything_is_read() -> None:
    assert parse(SAID) == Survey(
        prefix="/home/a/.r2cc",
        address="192.0.2.1",
        settings=("NCCL_DEBUG", "R2CC_MODE"),
        nics={"ens1f0": "10.1.0.2"},
        devices={"ens1f0": "mlx5_0"},
        cpu="Some CPU @ 2.00GHz",
        cores=64,
        memory_bytes=1 << 20,
        kernel="6.1.0",
        build={"build_id": "abc"},
    )
    assert parse(SAID.replace("    62", "   183")).alien == "aarch64"
    assert parse(SAID.replace("    62\n", "")).alien == ""


@pytest.mark.parametrize("length", [0, 30, len(SAID) - 8])
def test_an_answer_cut_short_is_an_error_with_the_hosts_name(length: int) -> None:
    host = FakeHost("n1").answer("sh -c *", stdout=SAID[:length], stderr="ip: not found")
    with pytest.raises(InfraError, match=r"n1: cannot be surveyed(.|\n)*ip: not found"):
        survey({"n1": host}, {"n1": "~/.r2cc"})


def test_the_script_really_runs_and_finds_what_is_deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r2cc" / "current").mkdir(parents=True)
    (tmp_path / "r2cc" / "current" / "build.json").write_text('{"build_id": "f00d"}')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    found = survey({"here": LocalHost()}, {"here": "~/r2cc"})["here"]
    assert (found.prefix, found.build_id) == (str(tmp_path / "r2cc"), "f00d")
    assert "NCCL_ALGO" in found.settings
    assert found.cores > 0
    assert found.memory_bytes > 1 << 28
    assert "lo" not in found.nics


def test_without_a_deployed_build_there_is_none(tmp_path: Path) -> None:
    assert survey({"here": LocalHost()}, {"here": str(tmp_path)})["here"].build is None
