"""How much this machine can carry. An experiment whose topology names no rate gets the highest one at which the CPU
keeps time to react; bytes and chunks shrink with it, so that everything takes as long as at the full rate."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.analysis.rundata import read_run
from chaos.analysis.void import cpu_busy
from chaos.experiment.model import MODES, Experiment
from chaos.record.journal import Journal, Line, read
from chaos.record.live import Display
from chaos.run import runner
from chaos.run.arm import ArmRun
from chaos.testbed.beds import open_bed, topology_of
from chaos.testbed.launch import Benches
from harness import interrupts
from harness.lab.topology import Topology
from harness.sites.lab import LabSite
from harness.workloads.kinds.bench import Bench

FULL_GBIT: float = Topology.model_fields["rate_gbit"].default
RATES = tuple(FULL_GBIT * part for part in (1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.09, 0.06, 0.04))
"""Few, so that runs of one machine stay comparable."""
BUSY_WANTED, BUSY_MOST = 0.50, 0.58
"""Shares of all cores; `chaos/analysis/void.py` says from where on figures are void."""
PROBE_S, MOST_PROBES = 1, 4
OTHERS_S, OTHERS_MOST = 0.3, 0.3
GRAIN = 4096


@dataclass(frozen=True)
class Probe:
    """What was seen at one rate."""

    rate_gbit: float
    busy: float
    """Share of all cores."""
    carried_gbit: float
    """By the busiest NIC, while iterations ran."""
    others: float = 0.0
    """What of it was busy before we began."""

    @property
    def fits(self) -> bool:
        return self.busy <= BUSY_MOST

    def next_rate(self) -> float:
        """The highest rate of RATES that should fit, below this one. What others do stays as it is."""
        wanted = self.carried_gbit * (BUSY_WANTED - self.others) / max(self.busy - self.others, 0.01)
        lower = [rate for rate in RATES if rate < self.rate_gbit]
        return next((rate for rate in lower if rate <= wanted), lower[-1])


def names_no_rate(experiment: Experiment) -> bool:
    """True where the rate is ours to choose."""
    topology = topology_of(experiment)
    return isinstance(experiment.workload, Bench) and not {"rate_gbit", "overrides"} & topology.model_fields_set


def at_rate(experiment: Experiment, rate_gbit: float) -> Experiment:
    """The experiment on NICs of `rate_gbit`, its sizes in proportion."""
    workload = experiment.workload
    assert isinstance(workload, Bench)
    sizes = {"bytes": _scaled(workload.bytes, rate_gbit), "chunk_bytes": _scaled(workload.chunk_bytes, rate_gbit)}
    topology = topology_of(experiment).model_copy(update={"rate_gbit": rate_gbit})
    written = topology.model_dump(mode="json", by_alias=True, exclude_defaults=True) | {"rate_gbit": rate_gbit}
    return experiment.model_copy(update={"topology": written, "workload": workload.model_copy(update=sizes)})


def _scaled(size: int, rate_gbit: float) -> int:
    """In whole pages where it has one; `size` itself at the full rate."""
    part = size * rate_gbit / FULL_GBIT
    return size if rate_gbit == FULL_GBIT else max(4, round(part / GRAIN) * GRAIN or round(part / 4) * 4)


def fitted(experiment: Experiment, arms: Sequence[str], bench: Benches, say: Callable[[str], None]) -> Experiment:
    """`experiment` at the highest rate that leaves this machine's CPU time to react. Takes a second or two a probe.

    Raises what a run raises: LabError, InfraError.
    """
    say("measuring what this machine can carry ...")
    others = _others()
    if others > OTHERS_MOST:
        say(f"r2cc: warning: other programs keep {others:.0%} of this machine's CPU busy; times may come out void")
    costliest = max(arms, key=lambda arm: MODES[arm])
    rate = FULL_GBIT
    with interrupts.terminable():
        for _ in range(MOST_PROBES):
            probe = replace(_probed(experiment, rate, costliest, bench), others=min(others, OTHERS_MOST))
            say(f"  at {rate:g} Gbit/s a NIC its CPU is {probe.busy:.0%} busy")
            if probe.fits or rate == RATES[-1]:
                break
            rate = probe.next_rate()
    say(f"NICs of {rate:g} Gbit/s; bytes and chunks in proportion")
    return at_rate(experiment, rate)


def _others() -> float:
    import psutil

    return psutil.cpu_percent(interval=OTHERS_S) / 100


def _probed(experiment: Experiment, rate_gbit: float, arm: str, bench: Benches) -> Probe:
    """The workload for a second, without a fault."""
    changed = at_rate(experiment, rate_gbit)
    short = changed.workload.model_copy(update={"seconds": PROBE_S, "iterations": 1000, "warmup": 1})
    changed = changed.model_copy(update={"workload": short, "faults": (), "repeats": 1})
    with tempfile.TemporaryDirectory(prefix="r2cc-fit-") as raw, open_bed(LabSite(), changed) as bed:
        with Journal(Path(raw) / "journal.jsonl") as journal:
            journal.enter(arm, 0)
            for plan in runner.plans(changed, [arm], bed, bench):
                ArmRun(plan, bed, journal, Path(raw), Display()).run()
        return _seen(rate_gbit, list(read(journal.path)))


def _seen(rate_gbit: float, lines: list[Line]) -> Probe:
    data = read_run(lines)
    busy = cpu_busy(data)
    # Not one iteration in a second: far too much.
    return Probe(rate_gbit, 1.0, rate_gbit / 4) if busy is None else Probe(rate_gbit, busy, _carried_gbit(lines))


def _carried_gbit(lines: list[Line]) -> float:
    spans = [line for line in lines if line["event"] == "iteration" and line["rank"] == 0]
    took_ns: int = sum(line["end_ns"] - line["start_ns"] for line in spans)
    sent: dict[tuple[str, str], list[int]] = {}
    for line in lines:
        for nic, counters in line["nics"].items() if line["event"] == "sample" else ():
            sent.setdefault((line["host"], nic), []).append(counters["tx_bytes"])
    return max(counts[-1] - counts[0] for counts in sent.values()) * 8 / took_ns
