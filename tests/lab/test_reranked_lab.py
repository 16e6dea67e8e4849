"""Hosts lose NICs: `r2cc_bench --schedule auto` runs rings in other orders beside chains."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.build import build_net
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent
from harness.workloads.bench import BenchSpec, Schedule

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from plan_runs import run_plan

pytestmark = [pytest.mark.lab, pytest.mark.build, pytest.mark.timeout(180)]

ABOVE = 1.08
"""Headers, acknowledgements and what ranks tell each other, at most."""
NEIGHBOURS = ("h1:eth0", "h2:eth3")


@pytest.mark.parametrize(
    ("nics", "down", "schedule", "one_subnet", "most"),
    [
        pytest.param(4, NEIGHBOURS, "ring", False, 2.0, id="ring"),
        pytest.param(4, NEIGHBOURS, "reranked", False, 4 / 3, id="reranked"),
        pytest.param(4, NEIGHBOURS, "auto", False, 8 / 7, id="auto"),
        pytest.param(3, ("h0:eth0",), "auto", False, 12 / 11, id="one-of-three"),
        pytest.param(3, ("h0:eth0",), "auto", True, 12 / 11, id="one-of-three-in-one-subnet"),
    ],
)
def test_nics_carry_what_the_plan_says(
    nics: int, down: tuple[str, ...], schedule: Schedule, one_subnet: bool, most: float
) -> None:
    """As NCCL's own ring, balanced; in another order; with chains beside it; each connection over one other NIC. The
    busiest NIC is counted, of what each carries in the ring on whole NICs. All with `auto` are the bounds."""
    net = build_net(progress=silent)
    spec = BenchSpec(bytes=32 << 20, iterations=2, warmup=1, channels=nics, slots=3, timeout_s=60, schedule=schedule)
    with Lab.up(Topology(hosts=4, nics=nics, rate_gbit=0.5, one_subnet=one_subnet)) as lab:
        if one_subnet:  # until all neighbours know whose an address is, frames arrive at other NICs
            run_plan(lab, net, spec, down=down, mode=3)
        run = run_plan(lab, net, spec, down=down, mode=3)
    assert run.wrong_elements == 0
    busiest = max(ways[way] for host in run.sent.values() for ways in host.values() for way in ("tx", "rx"))
    healthy = 2 * 3 / 4 / nics
    assert busiest / spec.bytes / healthy == pytest.approx(most * (1 + ABOVE) / 2, rel=(ABOVE - 1) / 2)
