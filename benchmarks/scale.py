"""What grows and what does not: many connections a pair, many peers, and a NIC that 512 connections share.

    .venv/bin/python benchmarks/scale.py [--arm migrate] [--cases pair,shared,peers] [--lock FILE] [--json]

A failover lasts from the command that broke the NIC until the last connection was active on another one. The side
channel is counted as the UDP sockets of one host: two a NIC and two for the management interface (what needs the
engine, and acknowledgements), however many connections and peers there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
from common import Figure, Json, Ran, Steps, command, experiment

from chaos.analysis.moves import stream_of
from chaos.faults.parts.pressure import udp_sockets
from chaos.soak.judge import fates
from chaos.testbed.beds import Bed
from harness.errors import R2ccError

FAILOVER_MS = 50.0
SOCKETS = 2  # one that wakes the engine, one for acknowledgements


@dataclass(frozen=True)
class Case:
    """A bed, a traffic, and how many connections share each NIC (both directions counted)."""

    name: str
    hosts: int
    nics: int
    workload: Json
    judged: bool = True

    @property
    def per_nic(self) -> int:
        lanes = self.workload["channels"] * self.workload.get("connections_per_peer", 1)
        peers = self.hosts - 1 if self.workload["op"] == "alltoall" else 1
        return 2 * lanes * peers // self.nics


SMALL = {"chunk_bytes": 8192, "slots": 2}
SEEN_SELDOM = {**SMALL, "idle_us": 10_000}  # 33 ranks that look every 200 us leave two cores time for nothing else
CASES = (
    Case("pair", 2, 4, {"op": "stream", "bytes": 16 << 20, "channels": 4, "connections_per_peer": 16, **SMALL}),
    Case("shared", 2, 2, {"op": "stream", "bytes": 16 << 20, "channels": 32, "connections_per_peer": 16, **SMALL}),
    Case("peers", 33, 2, {"op": "alltoall", "bytes": 33 * 65536, "channels": 2, **SEEN_SELDOM}, judged=False),
)


def failover_ms(ran: Ran, fault_id: str) -> float | None:
    """Until the last sending end that this fault froze was active again; None when nothing moved."""
    fault = next(each for each in ran.data.faults if each.id == fault_id)
    begin, end = fault.onset_ns or 0, fault.reverted_ns or 0
    lines = [line for line in ran.data.by_event.get("path", []) if line.get("direction") == "send"]
    frozen = {stream_of(line) for line in lines if line["state"] == "frozen" and begin <= line["t_ns"] <= end}
    active: dict[Any, int] = {}
    for line in lines:
        if line["state"] == "active" and begin <= line["t_ns"] <= end and stream_of(line) in frozen:
            active.setdefault(stream_of(line), line["t_ns"])
    return (max(active.values()) - begin) / 1e6 if frozen and set(active) == frozen else None


def measure(steps: Steps, *, arm: str, rate_gbit: float, cases: str) -> tuple[list[Figure], Any]:
    figures: list[Figure] = []
    raw: Json = {}
    for case in CASES:
        if case.name not in cases.split(","):
            continue
        try:
            found, raw[case.name] = _case(steps, case, arm, rate_gbit)
        except R2ccError as error:  # the other cases' figures are not lost with it
            click.echo(f"error: {case.name}: {error}", err=True)
            found, raw[case.name] = [Figure(f"{case.name}: failover", None, FAILOVER_MS, "ms")], {"error": str(error)}
        figures += found
    return figures, {"cases": raw}


def _case(steps: Steps, case: Case, arm: str, rate_gbit: float) -> tuple[list[Figure], Json]:
    faults = [
        {"id": f"f{n}", "kind": "link_down", "host": f"h{n % 2}", "nic": f"eth{n % case.nics}", "may_miss": True,
         "at": {"time_s": 4.0 + 5.0 * n}, "duration_s": 2.0}
        for n in range(4)
    ]  # fmt: skip
    topology = {"hosts": case.hosts, "nics": case.nics, "rate_gbit": rate_gbit}
    workload = {**case.workload, "iterations": 1_000_000, "seconds": 24, "timeout_s": 60.0}
    wanted = experiment(f"scale-{case.name}", topology=topology, workload=workload, faults=faults, arms=[arm])
    sockets: list[int] = []

    def look(bed: Bed) -> None:
        sockets.append(len(udp_sockets(bed.hosts["h0"].read_text("/proc/net/udp"))))

    ran = steps.run(wanted, arm, look)
    times = [failover_ms(ran, fault["id"]) for fault in faults]
    known = [value for value in times if value is not None]
    label = f"{case.name} ({case.per_nic} connections a NIC, {case.hosts - 1} peer(s))"
    figures = [
        Figure(f"{label}: failover, worst of {len(known)}", max(known, default=None), FAILOVER_MS, "ms",
               void=ran.void, judged=case.judged),
        Figure(f"{label}: UDP sockets of a host", sockets[0] if sockets else None, SOCKETS * (case.nics + 1), ""),
    ]  # fmt: skip
    moved = [fate.moved for fate in fates(ran.data.lines)]
    memory = max(end["max_rss_bytes"] for end in ran.data.by_event["bench_end"])
    return figures, {"failover_ms": times, "moved": moved, "udp_sockets": sockets, "rank_memory_bytes": memory}


main = command(
    "Cost as it grows",
    measure,
    click.option("--cases", default=",".join(case.name for case in CASES), show_default=True),
)

if __name__ == "__main__":
    main()
