"""Tables of docs/results/simulated-serving.md: layouts, faults, arms, one failure's cost, its causes, speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import fmean
from typing import Any

from sim_tables import HOST, Tables, head, printing, ranged, row, solver, values
from sim_tables import percent as shown
from simulated import recovery

from chaos.simulate.assumed import RESTARTS, span, variants
from chaos.simulate.cluster import topology_files
from chaos.simulate.faults.timeline import timeline
from chaos.simulate.faults.trace import Fault, Trace
from chaos.simulate.serving.llms import llm
from chaos.simulate.serving.load import mix
from chaos.simulate.serving.pace import Paces
from chaos.simulate.serving.result import ServingResult
from chaos.simulate.serving.service import Service
from chaos.simulate.serving.simulation import simulate

ARMS = ("stock", "kv_replication", "exclusion", "migrate", "balance", "allreduce")
RATIO_ARMS = ("stock", "kv_replication", "migrate", "balance", "allreduce")
HALF_HOUR = 1800.0
ONSET_S = 60.0
SPREAD_SEEDS, FEW_SEEDS = range(1, 6), range(1, 4)
NOISE = 5e-4
"""Overheads below this are what other batches make of the same work: no ratio is told."""

LAYOUTS: Mapping[str, Mapping[str, Any]] = {
    "405B, tp 16 over two hosts": {"llm": llm("llama-3.1-405b"), "tp": 16, "rate": 1.0},
    "405B, tp 8, pp 2": {"llm": llm("llama-3.1-405b"), "tp": 8, "pp": 2, "rate": 1.0},
    "70B, tp 16 over two hosts": {"llm": llm("llama-3.1-70b"), "tp": 16, "rate": 4.0},
    "70B, two prefill, two decode": {"llm": llm("llama-3.1-70b"), "instances": 4, "prefills": 2, "rate": 10.0},
    "OPT-66B, tp 16 over two hosts": {"llm": llm("opt-66b"), "tp": 16, "rate": 1.0},
    "OPT-66B, tp 8, pp 2": {"llm": llm("opt-66b"), "tp": 8, "pp": 2, "rate": 1.0},
}
SHOWN = ("405B, tp 16 over two hosts", "405B, tp 8, pp 2", "70B, two prefill, two decode")
ACROSS = "405B, tp 16 over two hosts"
LOST: Mapping[str, Sequence[tuple[str, float, float]]] = {
    "1 NIC cut": [("cut", inf, 0.0)],
    "2 NICs cut": [("cut", inf, 0.0)] * 2,
    "4 NICs cut": [("cut", inf, 0.0)] * 4,
    "1 NIC at half rate": [("degraded", inf, 0.5)],
    "1 NIC gone for 2 s": [("flap", 2.0, 0.0)],
    "1 NIC gone for 60 s": [("cut", 60.0, 0.0)],
}
WEIGHTS = (
    "worker_start_s", "weight_load_GBps", "worker_detect_s", "stock_tolerance_s", "kv_stream_overhead",
    "stall_ms", "healthy_overhead", "hop_us", "local_hop_us", "serving_mbu", "serving_mfu",
)  # fmt: skip


def service(name: str, lengths: str = "conversation", *, hosts: int = 4, share: float = 1.0) -> Service:
    """Half an hour of requests. No host more than is used would be a spare: 4 hosts have 2 of them."""
    known, shape = mix(lengths), LAYOUTS[name]
    rate = float(shape["rate"]) * share
    load = {"rate": rate, "requests": round(rate * HALF_HOUR), "prompt": known.prompt, "output": known.output}
    topology = topology_files.load({"name": f"hosts-{hosts}", "hosts": hosts, **HOST})
    return Service(**{"topology": topology, **shape, **load})


def faults(of: Service, kinds: Sequence[tuple[str, float, float]]) -> Any:
    days = 1.0
    listed = tuple(
        Fault(ONSET_S, min(lasts_s, days * 86400 - ONSET_S), kind, "nic", (0, nic), factor, "bench")
        for nic, (kind, lasts_s, factor) in enumerate(kinds)
    )
    return timeline(Trace(0, days, of.topology.name, listed), of.topology)


def restarts(of: Service) -> list[Paces]:
    """A service as shipped, and with restarts of a third and of three times the time."""
    shipped = values()
    machines = solver(of.topology, shipped)  # how long restarts take changes no collective
    return [Paces(of, machines, values(changes)) for changes in ({}, *variants(shipped, RESTARTS))]


def layouts_table() -> Iterator[str]:
    """With everything whole, and with one NIC of the first host gone for good after a minute. No spares."""
    yield from head(("layout", "arm", "TTFT p50, p90", "p99", "TPOT p50, p90, p99", "longest gap", "in SLO", "outage"))
    for name in SHOWN:
        of = service(name, hosts=4 if "prefill" in name else 2)
        made = restarts(of)
        for arm, intervals in (("nothing fails", ()), *((arm, faults(of, LOST["1 NIC cut"])) for arm in ARMS)):
            told = "stock" if arm == "nothing fails" else arm
            found = [
                simulate(of, told, intervals, paces.solver, paces.params, seed=seed, paces=paces)
                for paces in made
                for seed in FEW_SEEDS
            ]
            yield row((name, arm, *cells(found)))


def cells(found: Sequence[ServingResult]) -> tuple[str, ...]:
    """Of the first, with the ranges over all."""
    ttft, tpot = found[0].ttft_ms, found[0].tpot_ms

    def cell(measure: Callable[[ServingResult], float], show: Callable[[float], str]) -> str:
        each = [measure(one) for one in found]
        return ranged(span(each[0], each[1:]), show)

    return (
        ", ".join(seconds(value) for value in (ttft.p50, ttft.p90)),
        cell(lambda one: one.ttft_ms.p99, seconds),
        ", ".join(f"{value:.1f}" for value in (tpot.p50, tpot.p90, tpot.p99)) + " ms",
        cell(lambda one: one.gap_ms.most, seconds),
        cell(lambda one: one.slo, lambda share: f"{share:.1%}".replace("%", " %")),
        cell(lambda one: max(one.outages_s, default=0.0) * 1e3, seconds),
    )


def seconds(value_ms: float) -> str:
    if value_ms == 0:
        return "-"
    return f"{value_ms:.0f} ms" if value_ms < 1000 else f"{value_ms / 1000:.1f} s"


def faults_table() -> Iterator[str]:
    """Overhead of a request's time, mean of five seeds; in brackets, of single seeds and of other restarts."""
    of = service(ACROSS, hosts=2)
    made = restarts(of)
    yield from head(("fault", *ARMS))
    for name, kinds in LOST.items():
        found = Overheads.of(made, ARMS, faults(of, kinds))
        yield row((name, *(found.cell(arm) for arm in ARMS)))


@dataclass(frozen=True)
class Overheads:
    """Of each arm the mean over seeds as shipped, and one for each seed and each time of a restart."""

    mean: Mapping[str, float]
    each: Sequence[Mapping[str, float]]

    @classmethod
    def of(cls, made: Sequence[Paces], arms: Sequence[str], intervals: Any) -> Overheads:
        """`made`: as shipped first."""
        found = [[recovery.overheads(paces, arms, intervals, seed=seed) for seed in SPREAD_SEEDS] for paces in made]
        mean = {arm: fmean(one[arm] for one in found[0]) for arm in arms}
        return cls(mean, [one for seeds in found for one in seeds])

    def cell(self, arm: str) -> str:
        return ranged(span(self.mean[arm], [one[arm] for one in self.each]), shown)

    def ratio(self, over: str) -> str:
        """KV replication's over an arm's. Where that is noise, the ratio is more than what is told."""
        ratios = [_times(one["kv_replication"], one[over]) for one in (self.mean, *self.each)]
        told = ranged(span(ratios[0], ratios[1:]), lambda value: f"{value:.0f}")
        return told if self.mean[over] >= NOISE else f"over {told}"


def _times(theirs: float, ours: float) -> float:
    return theirs / max(ours, NOISE)


def ratio_table() -> Iterator[str]:
    """One NIC gone for good after a minute, half an hour of requests, mean of five seeds."""
    yield from head(("layout, lengths", *RATIO_ARMS, "KV replication / balance", "KV replication / allreduce"))
    for name in LAYOUTS:
        for lengths, share in (("conversation", 1.0), ("fixed-500-1500", 0.25)):
            of = service(name, lengths, hosts=4 if "prefill" in name else 2, share=share)
            found = Overheads.of(restarts(of), RATIO_ARMS, faults(of, LOST["1 NIC cut"]))
            ratios = [found.ratio(arm) for arm in ("balance", "allreduce")]
            yield row((f"{name}, {lengths}", *(found.cell(arm) for arm in RATIO_ARMS), *ratios))


def load_table() -> Iterator[str]:
    """The same ratio by how long the failure is looked at, and by the load."""
    yield from head(("requests a second", "looked at for", "stock", "KV replication", "balance", "ratio"))
    for rate in (0.25, 0.5, 1.0, 1.5):
        for lasts_s in (600.0, 1800.0, 7200.0):
            of = replace(service(ACROSS, hosts=2), rate=rate, requests=round(rate * lasts_s))
            arms = ("stock", "kv_replication", "balance")
            found = Overheads.of(restarts(of), arms, faults(of, LOST["1 NIC cut"]))
            yield row((rate, f"{lasts_s / 60:.0f} min", *map(found.cell, arms), found.ratio("balance")))


def weights_table() -> Iterator[str]:
    of = service(ACROSS, hosts=2)
    made = recovery.weights(of, lambda changed: solver(of.topology, changed), values(), WEIGHTS, seed=1)
    yield from head(("parameter", "ratio with half of it", "with twice"))
    for each in made:
        yield row((f"`{each.name}`", f"{each.halved:.1f}", f"{each.doubled:.1f}"))


def dejavu_table() -> Iterator[str]:
    yield from head(("a new worker starts in", "failure at", "starting anew", "KV replication", "anew / replication"))
    for start_s in (values().worker_start_s.value, 0.0):
        for share in (0.25, 0.5, 0.75, 0.9):
            anew, kept = recovery.one_batch(solver, values({"worker_start_s": start_s}), share)
            yield row((f"{start_s:g} s", f"{share:.0%} of the run", f"{anew:.2f}", f"{kept:.2f}", f"{anew / kept:.2f}"))
    both = recovery.DEJAVU_RESTART / recovery.DEJAVU
    yield row(("published", "not told", recovery.DEJAVU_RESTART, recovery.DEJAVU, f"{both:.2f}"))


def speed_table() -> Iterator[str]:
    yield from head(("layout", "requests", "time", "a token at a time"))
    cases = (
        (ACROSS, "conversation", 1.0),
        (ACROSS, "fixed-500-1500", 0.1),
        ("70B, two prefill, two decode", "conversation", 1.0),
    )
    for name, lengths, share in cases:
        took = []
        for fast, count in ((True, 100_000), (False, 10_000)):
            of, shipped = replace(service(name, lengths, share=share), requests=count), values()
            paces = Paces(of, solver(of.topology, shipped), shipped)
            begun = time.perf_counter()
            simulate(of, "balance", (), paces.solver, shipped, seed=1, paces=paces, fast=fast)
            took.append((time.perf_counter() - begun) * 100_000 / count)
        yield row((f"{name}, {lengths}", "100,000", f"{took[0]:.1f} s", f"{took[1]:.1f} s (ten times 10,000)"))


TABLES: Tables = {
    "layouts": layouts_table, "faults": faults_table, "ratio": ratio_table, "load": load_table,
    "weights": weights_table, "dejavu": dejavu_table, "speed": speed_table,
}  # fmt: skip
main = printing(TABLES, plain=("speed",))

if __name__ == "__main__":
    main()
