"""A small experiment written down by hand: 2 hosts x 2 NICs, 10 iterations, h1's eth1 fails from 1445 ms to 2000 ms.

Every rank receives on r0 (channel 0, eth0) and r1 (channel 1, eth1), 10 chunks of 1000 bytes an iteration, one every
10 ms when healthy, so that a healthy iteration lasts 100 ms. All numbers in tests are computed from this by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chaos.experiment.file import loads
from chaos.experiment.model import Experiment

Line = dict[str, Any]

ONSET_MS, ACTIVE_MS, REVERT_MS = 1445.0, 1455.0, 2000.0

EXPERIMENT = """\
# The smallest experiment: two hosts, two NICs each; docs/examples/journal.jsonl is what it wrote.
schema: 1
name: example
description: One of two NICs of one of two hosts loses its link for half a second.

topology:
  hosts: 2
  nics: 2
  rate_gbit: 1.0

workload:
  op: allreduce
  bytes: 20000
  iterations: 10
  warmup: 0
  channels: 2
  chunk_bytes: 1000

faults:
  - id: cable
    kind: link_down
    host: h1
    nic: eth1
    at: {iteration: 4, fraction: 0.45}
    duration_s: 0.555

hypothesis:
  stall_ms_max: 25.0
  iteration_within_bound: 0.10
  return_ms_max: 1000.0
  healthy_ratio_max: 1.01
  memory_over_stock_bytes_max: 8388608

arms:
  stock: {expect: deviates}
  migrate: {expect: holds}
"""

MIGRATE_MS = [100, 100, 100, 100, 168, 200, 200, 150, 105, 100]
STOCK_MS = [100, 100, 100, 100, 665, 100, 100, 100, 100, 100]
HEALTHY_GAPS = [10.0] * 10
GAPS = {
    ("migrate", "r0"): [10.0] * 5 + [23.6] * 5,
    ("migrate", "r1"): [10.0] * 4 + [30.0] + [19.6] * 5,
    ("stock", "r0"): [10.0] * 10,
    ("stock", "r1"): [10.0] * 4 + [570.0] + [10.0] * 5,
}


def experiment() -> Experiment:
    return loads(EXPERIMENT, Path("experiment.yaml"))


def ns(ms: float) -> int:
    return round(ms * 1e6)


def lines(arm: str, run: int = 0, *, durations: list[int] | None = None, iterations: int = 10) -> list[Line]:
    """The journal of one run of one arm."""
    took = durations or (MIGRATE_MS if arm == "migrate" else STOCK_MS)
    mode = 1 if arm == "migrate" else 0
    found: list[Line] = [{"t_ns": ns(900), "host": "controller", "event": "run_start", "mode": mode, "wall_ns": 1}]
    for rank in range(2):
        found.append(start(rank, mode))
        now = 1000.0
        for index, ms in enumerate(took[:iterations]):
            found += iteration(arm, rank, index, now, ms)
            now += ms
        if iterations == 10:
            rss = 50_000_000 + (3_000_000 if arm == "migrate" else 0) + 1000 * rank
            end = {"completed": 10, "wrong_elements": 0, "max_rss_bytes": rss, "cpu_s": 0.5}
            found.append(at(now + 1, f"h{rank}", "bench_end", rank=rank, **end))
    found += fault() + samples(now) + (failover() if arm == "migrate" else [])
    codes = {"rank0": 0, "rank1": 0}
    found.append(at(now + 5, "controller", "run_end", exit_codes=codes, outcome="finished", reason=None))
    found.sort(key=lambda line: line["t_ns"])
    return [{"schema": 1, "arm": arm, "run": run, **line} for line in found]


def at(ms: float, host: str, event: str, **fields: Any) -> Line:
    return {"t_ns": ns(ms), "host": host, "event": event, **fields}


def start(rank: int, mode: int) -> Line:
    peer = 1 - rank
    ends = [
        {"id": f"{way[0]}{channel}", "peer": peer, "direction": way, "channel": channel, "nic": f"eth{channel}"}
        for way in ("send", "recv")
        for channel in range(2)
    ]
    setup = {"op": "allreduce", "bytes": 20000, "ranks": 2, "channels": 2, "chunk_bytes": 1000, "slots": 8}
    more = {"mode": mode, "nics": ["eth0", "eth1"], "connections": ends}
    return at(990, f"h{rank}", "bench_start", rank=rank, **setup, **more)


def iteration(arm: str, rank: int, index: int, now: float, ms: float) -> list[Line]:
    host, begin = f"h{rank}", ns(now)
    found = [at(now, host, "progress", rank=rank, index=index, start_ns=begin)]
    for connection in ("r0", "r1"):
        gaps = GAPS[arm, connection] if index == 4 else [ms / 10] * 10
        base = {"rank": rank, "connection": connection, "index": index, "start_ns": begin}
        found.append(at(now + ms, host, "delivery", **base, gaps_us=[gap * 1000 for gap in gaps[:6]], part=0))
        found.append(at(now + ms, host, "delivery", **base, gaps_us=[gap * 1000 for gap in gaps[6:]], part=1))
    span = {"start_ns": begin, "end_ns": ns(now + ms)}
    found.append(at(now + ms, host, "iteration", rank=rank, index=index, **span, bytes=20000, wrong_elements=0))
    return found


def fault() -> list[Line]:
    base = {"id": "cable", "kind": "link_down", "nic": "eth1"}
    onset, undo = ns(ONSET_MS), ns(REVERT_MS)
    return [
        at(950, "h1", "fault", **base, phase="armed"),
        at(ONSET_MS + 2, "h1", "fault", **base, phase="injected", before_ns=onset, after_ns=onset + 2_000_000),
        at(ACTIVE_MS, "h1", "fault", **base, phase="active"),
        at(REVERT_MS + 2, "h1", "fault", **base, phase="reverted", before_ns=undo, after_ns=undo + 2_000_000),
        at(REVERT_MS + 4, "h1", "fault", **base, phase="verified"),
    ]


def failover() -> list[Line]:
    """Both ends notice after 3.5 ms, both r1 move to eth0, and return to eth1 40 ms after the undo."""
    found = [
        at(1448.5, "h1", "nic", nic="eth1", state="down", cause="netlink"),
        at(REVERT_MS + 3, "h1", "nic", nic="eth1", state="up", cause="netlink"),
    ]
    for host in ("h0", "h1"):
        base = {"connection": "r1", "direction": "recv", "replayed": 0}
        here = {**base, "nic": "eth1", "peer_nic": "eth1"}
        away = {**base, "nic": "eth0", "peer_nic": "eth0"}
        found.append(at(1449, host, "path", **here, state="frozen", epoch=0, cause="netlink"))
        found.append(at(1452, host, "path", **away, state="active", epoch=1, cause="netlink"))
        found.append(at(REVERT_MS + 40, host, "path", **here, state="active", epoch=2, cause="return"))
    return found


def samples(end_ms: float) -> list[Line]:
    found = []
    for host in ("h0", "h1"):
        for ms, sent in ((995.0, 500), (end_ms, 100_500)):
            nics = {nic: {"tx_bytes": sent, "rx_bytes": 2 * sent} for nic in ("eth0", "eth1")}
            found.append(at(ms, host, "sample", nics=nics))
    return found + [at(1000 + 100 * i, "h0", "cpu", busy=0.5) for i in range(1, 5)]


def journal() -> list[Line]:
    """Both arms, as docs/examples/journal.jsonl has them."""
    return lines("stock") + lines("migrate")
