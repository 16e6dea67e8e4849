"""Real ranks with traffic, and a host on the same networks that is none of theirs and means harm."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.build import NetBuild, build_net
from harness.hosts import Process
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent
from harness.workloads.bench import BenchSpec, bench_command, bench_env

pytestmark = [pytest.mark.lab, pytest.mark.build, pytest.mark.timeout(240)]

RANKS, NICS = 2, 2
ROOT = "10.250.0.1:29519"
HOSTILE = [sys.executable, str(Path(__file__).with_name("hostile.py"))]
SPEC = BenchSpec(bytes=4 << 20, iterations=60, warmup=1, channels=2, timeout_s=60)
FLOOD_S = 3
FLOOD_RATE = 20_000


@pytest.fixture(scope="module")
def net() -> NetBuild:
    return build_net(progress=silent)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.up(Topology(hosts=RANKS + 1, nics=NICS, rate_gbit=0.5)) as made:
        yield made


def udp_sockets(lab: Lab, rank: int) -> list[str]:
    """Where the side channel of a rank listens: what a port scan would find out."""
    lines = lab.hosts[f"h{rank}"].read_text("/proc/net/udp").splitlines()[1:]
    local = [line.split()[1].split(":") for line in lines]
    found = [(".".join(str(byte) for byte in reversed(bytes.fromhex(ip))), int(port, 16)) for ip, port in local]
    return [f"{ip}:{port}" for ip, port in found if ip.startswith("10.") and not ip.startswith("10.250.")]


def until_traffic(rank: Process) -> None:
    assert rank.stdout is not None
    for line in rank.stdout:
        if json.loads(line)["event"] == "iteration":
            return
    pytest.fail(f"a rank ended with {rank.wait(10)}: {rank.stderr_tail(20)}")


def test_a_stranger_changes_nothing_but_a_counter(lab: Lab, net: NetBuild) -> None:
    stranger = lab.hosts[f"h{RANKS}"]
    rails = [f"10.{rail + 1}.0.{rank + 1}" for rank in range(RANKS) for rail in range(NICS)]
    scan = stranger.spawn([*HOSTILE, "scan", str(FLOOD_S + 2), *rails])
    env = bench_env(1)
    ranks = [
        lab.hosts[f"h{rank}"].spawn(
            bench_command(net.bench, SPEC, rank=rank, ranks=RANKS, root=ROOT, library=net.library), env=env
        )
        for rank in range(RANKS)
    ]
    for rank in ranks:
        until_traffic(rank)
    targets = [target for rank in range(RANKS) for target in udp_sockets(lab, rank)]
    assert len(targets) == RANKS * NICS * 2, "one for the engine, one for acknowledgements"
    flood = stranger.spawn([*HOSTILE, "flood", str(FLOOD_S), str(FLOOD_RATE), *targets])

    ends = []
    for rank in ranks:
        assert rank.stdout is not None
        lines = [json.loads(line) for line in rank.stdout]
        assert rank.wait(60) == 0, rank.stderr_tail(20)
        assert {line["wrong_elements"] for line in lines if line["event"] == "iteration"} == {0}
        # At the end a lane may break before the receiver's Bye is here: frozen and closed, it never went on.
        paths = [line for line in lines if line["event"] == "path"]
        assert [line for line in paths if line["state"] in ("holding", "failed")] == []
        went_on = [line for line in paths if line["state"] == "active" and line["epoch"] > 1]
        assert went_on == [], "one Freeze: the first"
        ends += [line for line in lines if line["event"] == "net_end"]
    assert flood.stdout is not None and scan.stdout is not None
    sent = json.loads(flood.stdout.read())["sent"]
    assert json.loads(scan.stdout.read())["tried"] > 10_000
    assert [(end["failovers"], end["failbacks"]) for end in ends] == [(0, 0)] * RANKS
    # Two in three arrive as they were sent; the flood may outlast the ranks.
    assert sum(end["dropped_by_kernel"] for end in ends) > 5_000 < sent
    for end in ends:
        assert end["dropped"] == end["dropped_by_kernel"]  # not one of them was even read
