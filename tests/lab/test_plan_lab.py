"""A plan on real sockets: the host that lost a NIC is an end of a chain, and sends what the model says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.build import NetBuild, build_net
from harness.errors import R2ccError
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent
from harness.schedules.planner import Nic, Node, Request, plan_json
from harness.schemas import dumped
from harness.workloads.bench import BenchSpec

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from plan_runs import run_plan

pytestmark = [pytest.mark.alone, pytest.mark.lab, pytest.mark.build, pytest.mark.timeout(120)]

HOSTS, NICS, RATE_GBIT, BYTES = 4, 2, 0.5, 4_000_004
DOWN = "h1:eth0"


@pytest.fixture(scope="module")
def net() -> NetBuild:
    return build_net(progress=silent)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.up(Topology(hosts=HOSTS, nics=NICS, rate_gbit=RATE_GBIT)) as made:
        yield made


def chain_plan(folder: Path) -> BenchSpec:
    def nic(host: int, nic: int) -> Nic:
        return Nic(f"eth{nic}", RATE_GBIT, 0.0 if f"h{host}:eth{nic}" == DOWN else 1.0)

    nodes = tuple(Node(f"h{host}", (host,), tuple(nic(host, n) for n in range(NICS))) for host in range(HOSTS))
    path = folder / "plan.json"
    path.write_text(plan_json(dumped(Request(nodes, BYTES, schedule="chain_fixed"))))
    return BenchSpec(bytes=BYTES, iterations=4, warmup=1, channels=2, plan=path, timeout_s=30)


@pytest.mark.parametrize("really", [True, False])
def test_a_degraded_host_at_the_end_sends_its_data_once(lab: Lab, net: NetBuild, tmp_path: Path, really: bool) -> None:
    """`really`: its cable is pulled; else all ranks take it for failed (R2CC_ASSUME_DOWN)."""
    spec = chain_plan(tmp_path)
    if really:
        lab.switch.run(["ip", "link", "set", "h1-eth0", "down"])
    try:
        run = run_plan(lab, net, spec, down=() if really else [DOWN], mode=1)
    finally:
        lab.switch.run(["ip", "link", "set", "h1-eth0", "up"])
    assert run.wrong_elements == 0
    end = run.sent["h1"]
    for way in ("tx", "rx"):
        assert end["eth0"][way] < 0.02 * BYTES
        assert BYTES <= end["eth1"][way] < 1.25 * BYTES  # with headers; a ring sends 1.5 times as much
        assert run.planned["h1"]["eth0"][way] == 0
    inner = run.sent["h3"]
    assert 2 * BYTES <= inner["eth0"]["tx"] + inner["eth1"]["tx"] < 2.4 * BYTES
    assert run.nic_error() < 0.15


def test_what_is_no_list_of_nics_is_refused_with_its_reason(lab: Lab, net: NetBuild, tmp_path: Path) -> None:
    spec = chain_plan(tmp_path)
    for bad, why in (("h1-eth0", "takes host:nic"), ("h1:eth7", "has no NIC eth7")):
        with pytest.raises(R2ccError, match=why):
            run_plan(lab, net, spec, down=[bad], mode=1)
