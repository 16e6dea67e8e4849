"""A cable is pulled under `r2cc_bench --schedule auto`: all ranks go over to chains, and back to the ring."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.build import build_net
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent
from harness.workloads.bench import BenchSpec

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from schedule_switch import run_switch

pytestmark = [pytest.mark.timed, pytest.mark.lab, pytest.mark.build, pytest.mark.timeout(120)]

PULL, PLUG = 5, 25


def test_a_pulled_cable_is_a_chain_s_tail_until_it_is_plugged_in_again() -> None:
    """Connected when the chains begin, over what is left: connections made ahead are the unit tests'."""
    spec = BenchSpec(
        bytes=2 << 20, iterations=60, warmup=1, channels=2, slots=3, timeout_s=30, schedule="auto", connect="switch"
    )
    net = build_net(progress=silent)
    with Lab.up(Topology(hosts=4, nics=2, rate_gbit=0.2)) as lab:
        run = run_switch(lab, net, spec, pull=PULL, plug=PLUG)
    assert run.wrong_elements == 0
    assert [(each.schedule, each.capacities) for each in run.switches] == [
        ("ring", "capacities"),
        ("chain", "capacities 1:0=0"),
        ("ring", "capacities"),
    ]
    begin, chain, ring = run.switches
    assert begin.index == -1 and PULL < chain.index < PLUG < ring.index
    assert chain.connections > 0 and ring.connections == 0
