"""Two neighbours lose different NICs: `r2cc_bench --schedule auto` runs rings in other orders beside chains."""

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

DOWN = ("h1:eth0", "h2:eth3")
NICS = 4
HEALTHY = 2 * 3 / 4 / NICS
"""What each NIC carries of a message in the ring on whole NICs."""
ABOVE = 1.08
"""Headers, acknowledgements and what ranks tell each other, at most."""


@pytest.mark.parametrize(
    ("schedule", "most"),
    [("ring", 2.0), ("reranked", 4 / 3), ("auto", 7 / 6)],
)
def test_nics_carry_what_the_plan_says(schedule: Schedule, most: float) -> None:
    """As NCCL's own ring, balanced; in another order; and with chains beside it. The busiest NIC is counted."""
    net = build_net(progress=silent)
    spec = BenchSpec(bytes=32 << 20, iterations=2, warmup=1, channels=NICS, slots=3, timeout_s=60, schedule=schedule)
    with Lab.up(Topology(hosts=4, nics=NICS, rate_gbit=0.5)) as lab:
        run = run_plan(lab, net, spec, down=DOWN, mode=3)
    assert run.wrong_elements == 0
    busiest = max(ways[way] for nics in run.sent.values() for ways in nics.values() for way in ("tx", "rx"))
    assert busiest / spec.bytes / HEALTHY == pytest.approx(most * (1 + ABOVE) / 2, rel=(ABOVE - 1) / 2)
