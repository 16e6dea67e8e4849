"""Makes a run directory that looks like the demo's: 2 arms x 40 iterations x 4 hosts x 4 NICs, one NIC fails.

A small model, not a recording: every healthy iteration takes HEALTHY_MS with all NICs at the full rate; the stock arm
stands still while the fault lasts; the migrate arm stalls for `stall_ms` and then runs at half speed, one surviving
NIC carrying two shares. The summary is what chaos computes from the lines. Run as a script: `synthetic_run.py DIR`.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HOSTS = ["h0", "h1", "h2", "h3"]
NICS = ["eth0", "eth1", "eth2", "eth3"]
HEALTHY_MS = 212.0
DEGRADED_MS = 423.0
STOCK_STALL_MS = 4118.0
OUTAGE_MS = 4000.0
FAULT_ITERATION = 8
BYTES = 64 << 20
RATE_BYTES_PER_MS = 119_500.0
VICTIM = ("h1", "eth2")
SPARE = ("h1", "eth3")
T0_NS = 5_000_000_000
Line = dict[str, Any]
WALL_NS = 1_790_000_000_000_000_000
MODES = {"stock": 0, "migrate": 1}
RANKS = len(HOSTS)


@dataclass(frozen=True)
class Options:
    """What to vary. `abort_at` cuts the journal of the last arm at that iteration and leaves no summary."""

    iterations: int = 40
    repeats: int = 1
    kind: str = "link_down"
    fault: bool = True
    chunks: int = 48
    stall_ms: float = 4.2
    cpu_busy: float = 0.52
    abort_at: int | None = None
    hostile: str = ""
    sample_ms: int = 10
    seed: int = 1

    def stall_of(self, arm: str) -> float:
        """How long data stands still in an arm."""
        return STOCK_STALL_MS if arm == "stock" else self.stall_ms


@dataclass
class Phase:
    """A stretch of time with one rate per kind of NIC, as a fraction of the line rate."""

    start_ms: float
    end_ms: float
    victim: float
    spare: float
    others: float


def make(path: Path, options: Options | None = None) -> Path:
    """Write a whole run directory and return it."""
    (path / "raw").mkdir(parents=True, exist_ok=True)
    for name, text in _files(options or Options()).items():
        (path / name).write_text(text, encoding="utf-8")
    return path


@cache
def _files(opts: Options) -> dict[str, str]:
    """Its files. Tests make the same ones again and again."""
    lines: list[Line] = []
    start_ms = T0_NS / 1e6
    arms = ["stock", "migrate"]
    for run in range(opts.repeats):
        for arm in arms:
            start_ms = _run(lines, arm, run, start_ms, opts) + 800
    if opts.abort_at is not None:
        lines = _cut(lines, opts.abort_at)
    return _texts(lines, opts)


def timeline(arm: str, start_ms: float, opts: Options) -> tuple[list[tuple[float, float]], float]:
    """Start and end of every iteration, and the moment of the fault (in the middle of iteration 8)."""
    spans: list[tuple[float, float]] = []
    fault_ms = start_ms + HEALTHY_MS * (FAULT_ITERATION + 0.5)
    now = start_ms
    for index in range(opts.iterations):
        spans.append((now, now + _duration(arm, index, now, fault_ms, opts)))
        now = spans[-1][1]
    return spans, fault_ms


def _duration(arm: str, index: int, now: float, fault_ms: float, opts: Options) -> float:
    wobble = 1.0 + 0.006 * ((index * 7) % 5 - 2) / 2
    if not opts.fault:
        return HEALTHY_MS * wobble
    if arm == "stock":
        return HEALTHY_MS * wobble + (STOCK_STALL_MS if index == FAULT_ITERATION else 0.0)
    if index == FAULT_ITERATION:
        return HEALTHY_MS / 2 + opts.stall_ms + DEGRADED_MS / 2
    return (DEGRADED_MS if fault_ms < now < fault_ms + OUTAGE_MS else HEALTHY_MS) * wobble


def phases(arm: str, fault_ms: float, start_ms: float, end_ms: float, opts: Options) -> list[Phase]:
    """The NICs' rates over time."""
    stall_end = fault_ms + opts.stall_of(arm)
    full, half, idle = (1.0, 1.0, 1.0), (0.0, 1.0, 0.5), (0.0, 0.0, 0.0)
    if not opts.fault:
        return [Phase(start_ms, end_ms, *full)]
    parts = [(start_ms, fault_ms, full), (fault_ms, stall_end, idle)]
    if arm == "stock":
        parts.append((stall_end, end_ms, full))
    else:
        back = fault_ms + OUTAGE_MS + 60
        parts += [(stall_end, back, half), (back, end_ms, full)]
    return [Phase(a, b, *rates) for a, b, rates in parts]


@dataclass
class Plan:
    """When everything happens in one repeat of one arm."""

    arm: str
    spans: list[tuple[float, float]]
    fault_ms: float
    opts: Options


def _run(lines: list[Line], arm: str, run: int, start_ms: float, opts: Options) -> float:
    spans, fault_ms = timeline(arm, start_ms, opts)
    end_ms = spans[-1][1]
    plan = Plan(arm, spans, fault_ms, opts)
    rng = random.Random(f"{opts.seed}-{arm}-{run}")
    mine = [_line("run_start", start_ms - 300, mode=MODES[arm], wall_ns=WALL_NS)]
    for rank, host in enumerate(HOSTS):
        _bench(mine, host, rank, plan)
        _samples(mine, host, phases(arm, fault_ms, start_ms, end_ms, opts), opts, rng)
    if opts.fault:
        _fault(mine, fault_ms, opts.kind)
    if opts.fault and arm == "migrate":
        _failover(mine, fault_ms)
    if opts.hostile:
        for line in mine:
            line["host"] = opts.hostile if line["host"] == HOSTS[-1] else line["host"]
        mine.append(_line("log", fault_ms + 1, host=opts.hostile, message=opts.hostile))
    codes = dict.fromkeys(HOSTS, 0)
    mine.append(_line("run_end", end_ms + 200, exit_codes=codes, outcome="finished", reason=None))
    mine.sort(key=lambda line: int(line["t_ns"]))
    lines.extend({"schema": 1, "arm": arm, "run": run, **line} for line in mine)
    return end_ms


def _line(event: str, at_ms: float, *, host: str = "controller", **fields: Any) -> Line:
    return {"event": event, "host": host, "t_ns": _ns(at_ms), **fields}


def _bench(out: list[Line], host: str, rank: int, plan: Plan) -> None:
    base = {"host": host, "rank": rank}
    setup = {"op": "allreduce", "bytes": BYTES, "ranks": RANKS, "channels": 4, "chunk_bytes": 1 << 17, "slots": 8}
    wired = {"mode": MODES[plan.arm], "nics": NICS, "connections": _connections(rank)}
    out.append(_line("bench_start", plan.spans[0][0] - 50, **base, **setup, **wired))
    for index, (start, end) in enumerate(plan.spans):
        hit = plan.fault_ms if plan.opts.fault and index == FAULT_ITERATION else None
        common = {**base, "index": index, "start_ns": _ns(start)}
        out.append(_line("progress", start, **common))
        out.append(_line("iteration", end, **common, end_ns=_ns(end), bytes=BYTES, wrong_elements=0))
        for channel in range(len(NICS)):
            gaps = _gaps(start, end, hit, plan.opts.stall_of(plan.arm), plan.opts.chunks)
            out.append(_line("delivery", end, **common, connection=f"recv-{channel}", gaps_us=gaps))
    done = {"completed": len(plan.spans), "wrong_elements": 0}
    out.append(_line("bench_end", plan.spans[-1][1] + 20, **base, **done, **_usage(plan.arm)))


def _connections(rank: int) -> list[dict[str, Any]]:
    """A ring: every channel sends to the next rank and receives from the one before, channel c on NIC c."""
    peers = {"send": (rank + 1) % RANKS, "recv": (rank - 1) % RANKS}
    return [
        {"id": f"{way}-{c}", "peer": peer, "direction": way, "channel": c, "nic": nic}
        for way, peer in peers.items()
        for c, nic in enumerate(NICS)
    ]


def _usage(arm: str) -> dict[str, Any]:
    return {"max_rss_bytes": (212 << 20) + (0 if arm == "stock" else 5 << 20), "cpu_s": 3.1}


def _gaps(start: float, end: float, fault_ms: float | None, stall_ms: float, chunks: int) -> list[float]:
    """`chunks` gaps in microseconds that add up to the iteration; the one around the fault is longer by the stall."""
    moving = end - start - (stall_ms if fault_ms is not None else 0.0)
    share = [1 + 0.2 * ((i * 13) % 7 - 3) / 3 for i in range(chunks)]
    gaps = [moving * s / sum(share) for s in share]
    if fault_ms is not None:
        now, hit = start, 0
        while hit < chunks - 1 and now + gaps[hit] < fault_ms:
            now, hit = now + gaps[hit], hit + 1
        gaps[hit] += stall_ms
    return [round(gap * 1000, 1) for gap in gaps]


def _samples(out: list[Line], host: str, parts: list[Phase], opts: Options, rng: random.Random) -> None:
    step_ms = opts.sample_ms
    sent = {nic: 1_000_000.0 * (i + 1) for i, nic in enumerate(NICS)}
    now = parts[0].start_ms - 40
    first = {nic: {"tx_bytes": int(v), "rx_bytes": int(v)} for nic, v in sent.items()}
    out.append({"event": "sample", "host": host, "nics": first, "t_ns": _ns(now)})
    while now < parts[-1].end_ms:
        now += step_ms
        phase = next((p for p in parts if p.start_ms <= now < p.end_ms), None)
        changed = {}
        for nic in NICS if phase else []:
            grown = _rate(phase, host, nic) * RATE_BYTES_PER_MS * step_ms * rng.uniform(0.93, 1.03)
            if grown > 0:
                sent[nic] += grown
                changed[nic] = {"tx_bytes": int(sent[nic]), "rx_bytes": int(sent[nic] * 0.998)}
        if changed:
            out.append({"event": "sample", "host": host, "nics": changed, "t_ns": _ns(now)})
        if host == HOSTS[0] and int(now) // step_ms % 10 == 0:
            out.append({"event": "cpu", "host": host, "busy": opts.cpu_busy, "t_ns": _ns(now)})
    last = {nic: {"tx_bytes": int(v), "rx_bytes": int(v * 0.998)} for nic, v in sent.items()}
    out.append({"event": "sample", "host": host, "nics": last, "t_ns": _ns(now + step_ms)})


def _rate(phase: Phase | None, host: str, nic: str) -> float:
    if phase is None:
        return 0.0
    if (host, nic) == VICTIM:
        return phase.victim
    return phase.spare if (host, nic) == SPARE else phase.others


def _fault(out: list[Line], fault_ms: float, kind: str) -> None:
    at = {"armed": -120.0, "injected": 0.0, "active": 3.1, "reverted": OUTAGE_MS, "verified": OUTAGE_MS + 6}
    for phase, offset in at.items():
        fault = {"event": "fault", "id": "cable", "kind": kind, "host": VICTIM[0], "nic": VICTIM[1], "phase": phase}
        out.append({**fault, "t_ns": _ns(fault_ms + offset)})
    for offset, up in ((3.0, False), (OUTAGE_MS + 3.2, True)):
        out.append({"event": "link", "host": VICTIM[0], "nic": VICTIM[1], "up": up, "t_ns": _ns(fault_ms + offset)})


def _failover(out: list[Line], fault_ms: float) -> None:
    """The connections on the victim move to the spare: the one it receives on, and the one it sends on."""
    back = OUTAGE_MS + 9
    steps = [
        ("frozen", 3.2, 1),
        ("exchanging", 4.0, 1),
        ("active", 5.9, 2),
        ("connecting", back, 2),
        ("active", back + 22, 3),
    ]
    _nic(out, fault_ms + 3.05, "down")
    for host, peer in (("h1", "h0"), ("h2", "h1")):
        for way, end in (("recv", host), ("send", peer)):
            for state, offset, epoch in steps:
                nics = {"nic": VICTIM[1], "peer_nic": VICTIM[1]}
                if state == "active" and epoch == 2:
                    nics["nic" if end == VICTIM[0] else "peer_nic"] = SPARE[1]
                line = {
                    "event": "path",
                    "host": end,
                    "rank": int(end[1]),
                    "connection": f"{way}-2",
                    "direction": way,
                    **nics,
                }
                replayed = 6 if (state, epoch, way) == ("active", 2, "send") else 0
                detail = {"state": state, "epoch": epoch, "cause": "netlink", "replayed": replayed}
                out.append({**line, **detail, "t_ns": _ns(fault_ms + offset + 0.1 * int(end[1]))})
    _nic(out, fault_ms + OUTAGE_MS + 3.3, "up")


def _nic(out: list[Line], at_ms: float, state: str) -> None:
    line = {"event": "nic", "host": VICTIM[0], "rank": 1, "nic": VICTIM[1], "state": state, "cause": "netlink"}
    out.append({**line, "t_ns": _ns(at_ms)})


def _cut(lines: list[Line], iteration: int) -> list[Line]:
    last_arm = lines[-1]["arm"]
    for number, line in enumerate(lines):
        if line["arm"] == last_arm and line["event"] == "progress" and line["index"] == iteration:
            return lines[:number]
    return lines


def _texts(lines: list[Line], opts: Options) -> dict[str, str]:
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    cut = '{"schema":1,"ev' if opts.abort_at is not None else ""
    environment = {"kernel": "6.18.5", "cpu": {"model": "x86_64", "cores": 2}, "note": opts.hostile or "synthetic"}
    found = {
        "journal.jsonl": text + cut,
        "experiment.yaml": json.dumps(experiment(opts)),
        "environment.json": json.dumps(environment),
        "raw/h0.stderr": "a line\n",
    }
    return found if opts.abort_at is not None else {**found, "summary.json": json.dumps(summary(lines, opts), indent=1)}


def experiment(opts: Options) -> dict[str, Any]:
    """The resolved experiment, as chaos writes it."""
    fault = {"id": "cable", "kind": opts.kind, "host": VICTIM[0], "nic": VICTIM[1], "duration_s": OUTAGE_MS / 1000}
    limits = {"stall_ms_max": 10.0, "iteration_within_bound": 0.1, "healthy_ratio_max": 1.01}
    return {
        "name": "nic_down",
        "description": opts.hostile or "One NIC of one host loses its link in the middle of an AllReduce",
        "topology": "demo",
        "workload": {"bytes": BYTES, "iterations": opts.iterations},
        "faults": [{**fault, "at": {"iteration": FAULT_ITERATION, "fraction": 0.5}}] if opts.fault else [],
        "hypothesis": {**limits, "memory_over_stock_bytes_max": 8 << 20},
        "arms": {"stock": {"expect": "deviates" if opts.fault else "holds"}, "migrate": {"expect": "holds"}},
        "repeats": opts.repeats,
        "seed": opts.seed,
    }


def summary(lines: list[Line], opts: Options) -> dict[str, Any]:
    """The summary that chaos computes from these lines."""
    from chaos.analysis.summary import summarize
    from chaos.experiment.model import Experiment
    from harness.facts.environment import Hardware
    from harness.schemas import plain

    hardware = Hardware("a1b2c3d4", "EPYC 9J14", 2, 8 << 30)
    whole = summarize(
        lines,
        Experiment.model_validate(experiment(opts)),
        ["stock", "migrate"],
        bed="lab",
        hardware=hardware,
        build_id="2.29.7-1-r2cc-5f3c1d9a",
    )
    return plain(whole)


def _ns(ms: float) -> int:
    return round(ms * 1e6)


if __name__ == "__main__":
    print(make(Path(sys.argv[1])))
