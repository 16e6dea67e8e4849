"""A cable is pulled under `r2cc_bench --schedule auto`: all ranks go over to chains, and back to the ring. Where the
network over which they agree is lost, nobody is harmed, and the switch comes when it is back."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness.build import build_net
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent
from harness.workloads.bench import BenchSpec, bench_env

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from plan_runs import ROOT, play
from schedule_switch import PORT, judged, run_switch

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


SILENCE_S, HOLD_S = 6, 1
"""A connection of the agreement is silent for that long before it is lost; R2CC_HOLD_MS."""
LOST_S = SILENCE_S + HOLD_S + 2
ROOT_PORT = int(ROOT.rpartition(":")[2])


def agreement_port(lab: Lab) -> int:
    """Of rank 0, to which all ranks are connected there: the other one is the bench's own."""
    addresses = lab.hosts["h1"].run(["ss", "-Htn", "state", "established", "dst", ROOT.rpartition(":")[0]]).stdout
    (port,) = {int(line.split()[3].rpartition(":")[2]) for line in addresses.splitlines()} - {ROOT_PORT}
    return port


def lose(lab: Lab, port: int, verdict: str) -> None:
    """What goes to that port of h0, and what comes from it, but for the resets of a verdict."""
    chain = "chain %s { type filter hook %s priority 0; tcp %s %d %s; }\n"
    but_resets = "tcp flags & rst == 0 drop"
    rules = chain % ("in", "input", "dport", port, verdict) + chain % ("out", "output", "sport", port, but_resets)
    lab.hosts["h0"].run(["nft", "-f", "-"], input=f"table inet lost {{\n{rules}}}\n")


@pytest.mark.parametrize("verdict", ["reject with tcp reset", pytest.param("drop", marks=pytest.mark.slow)])
def test_ranks_that_cannot_agree_go_on_and_switch_when_they_can_again(verdict: str) -> None:
    """Issue 34: what the ranks agree over is lost for longer than R2CC_HOLD_MS, and a NIC in that state."""
    spec = BenchSpec(
        bytes=2 << 20, iterations=220, warmup=1, channels=2, slots=3, timeout_s=30, schedule="auto", connect="switch"
    )
    net = build_net(progress=silent)
    lost_at: list[float] = []
    back: list[int] = []
    with Lab.up(Topology(hosts=4, nics=2, rate_gbit=0.2)) as lab:

        def heard(rank: int, line: dict[str, Any]) -> None:
            if rank != 0 or line["event"] != "progress":
                return
            if line["index"] == PULL:
                lose(lab, agreement_port(lab), verdict)
                lost_at.append(time.monotonic())
            elif line["index"] == PULL + 5:
                lab.switch.run(["ip", "link", "set", PORT, "down"])
            elif lost_at and not back and time.monotonic() - lost_at[0] > LOST_S:
                lab.hosts["h0"].run(["nft", "delete", "table", "inet", "lost"])
                back.append(line["index"])

        env = bench_env(3, topology_file=lab.places_file, extra={"R2CC_HOLD_MS": str(1000 * HOLD_S)})
        lines, cpu = play(lab, net, spec, env, heard)
    run = judged(lines, PULL + 5, cpu)
    assert run.wrong_elements == 0
    assert [(each.schedule, each.capacities) for each in run.switches] == [
        ("ring", "capacities"),
        ("chain", "capacities 1:0=0"),
    ]
    assert back, "the run ended before it could agree again"
    assert run.switches[1].index >= back[0] > PULL + 5
