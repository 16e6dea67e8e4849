"""How long the report of a long run takes, how large it is, and whether what lasted one sample can be seen in it.

The run is made, not measured: an hour of one arm, 16 NICs with a sample each 10 ms, a NIC that fails for a minute. One
NIC sends nothing for one sample and another twice its rate for one; both must be in the page, where one point of a
line stands for a thousand samples.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TextIO

import click
from common import R2CC, Benchmark, Figure, Json, finish, json_option

from harness import progress

BOUND_S = 10.0
BOUND_BYTES = 1_000_000
BOUND_RSS_MIB = 2048
NICS = 4
SAMPLE_MS, CPU_MS, ITERATION_MS = 10, 20, 2000
CHUNKS = 16
BYTES_PER_MS = 119_500.0
VICTIM, SPARE = ("h1", "eth2"), ("h1", "eth3")
DIP, BURST = ("h0", "eth0"), ("h2", "eth1")
DIP_AT, BURST_AT, FAULT_AT, FAULT_FOR = 0.25, 0.7, 0.5, 1 / 60
"""Shares of the run."""
T0_MS = 5_000_000


@dataclass(frozen=True)
class Shape:
    """How long the run is, in steps of one sample."""

    seconds: int
    hosts: int = 4

    @property
    def ticks(self) -> int:
        return self.seconds * 1000 // SAMPLE_MS

    @property
    def samples(self) -> int:
        return self.ticks * self.hosts * NICS

    def tick(self, share: float) -> int:
        """The sample at a share of the run; odd ones lie in no iteration's edge."""
        return int(self.ticks * share) // 2 * 2 + 1


def make(folder: Path, shape: Shape, *, seed: int = 1) -> Path:
    """A run directory."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "journal.jsonl").open("w", encoding="utf-8") as file:
        _write(file, "controller", T0_MS - 300, event="run_start", mode=1, wall_ns=1_790_000_000_000_000_000)
        for rank in range(shape.hosts):
            _write(file, f"h{rank}", T0_MS - 50, event="bench_start", rank=rank, **_setup(rank, shape.hosts))
        for line in _moments(shape, Random(seed)):
            file.write(line)
        _ending(file, shape)
    at = {"iteration": int(shape.seconds * 1000 * FAULT_AT / ITERATION_MS), "fraction": 0.5}
    fault = {"id": "cable", "kind": "link_down", "host": VICTIM[0], "nic": VICTIM[1], "at": at}
    asked = {
        "name": "long_run",
        "topology": "demo",
        "workload": {"bytes": 64 << 20, "iterations": shape.seconds * 1000 // ITERATION_MS},
        "faults": [{**fault, "duration_s": shape.seconds * FAULT_FOR}],
        "arms": {"migrate": {"expect": "any"}},
        "seed": 1,
    }
    (folder / "experiment.yaml").write_text(json.dumps(asked), encoding="utf-8")
    (folder / "environment.json").write_text(json.dumps({"kernel": "6.18", "note": "synthetic"}), encoding="utf-8")
    return folder


def _write(file: TextIO, host: str, at_ms: float, **fields: Any) -> None:
    file.write(_line(host, at_ms, fields))


def _line(host: str, at_ms: float, fields: Json) -> str:
    whole = {"schema": 1, "host": host, "arm": "migrate", "run": 0, "t_ns": round(at_ms * 1e6), **fields}
    return json.dumps(whole, separators=(",", ":")) + "\n"


def _setup(rank: int, ranks: int) -> Json:
    peers = {"send": (rank + 1) % ranks, "recv": (rank - 1) % ranks}
    ends = [
        {"id": f"{way}-{c}", "peer": peer, "direction": way, "channel": c, "nic": f"eth{c}"}
        for way, peer in peers.items()
        for c in range(NICS)
    ]
    work = {"op": "allreduce", "bytes": 64 << 20, "ranks": ranks, "channels": NICS, "chunk_bytes": 1 << 17, "slots": 8}
    return {**work, "mode": 1, "nics": [f"eth{c}" for c in range(NICS)], "connections": ends}


def _moments(shape: Shape, random: Random) -> Iterator[str]:
    """Everything between the start and the end, in the order of time."""
    sent = {f"h{host}": [1_000_000] * NICS for host in range(shape.hosts)}
    fault = range(shape.tick(FAULT_AT), shape.tick(FAULT_AT + FAULT_FOR))
    for tick in range(shape.ticks + 1):
        at_ms = T0_MS + tick * SAMPLE_MS
        for host, counters in sent.items():
            for nic in range(NICS):
                share = _share(shape, tick, (host, f"eth{nic}"), tick in fault)
                counters[nic] += int(BYTES_PER_MS * SAMPLE_MS * share * random.uniform(0.97, 1.03))
            yield _sample(host, at_ms, counters)
        if at_ms % CPU_MS == 0:
            yield _line("h0", at_ms, {"event": "cpu", "busy": 0.5, "stolen": 0.0})
        if tick and tick * SAMPLE_MS % ITERATION_MS == 0:
            yield from _iteration(tick * SAMPLE_MS // ITERATION_MS - 1, shape.hosts)
        yield from _fault(tick, at_ms, fault)


def _share(shape: Shape, tick: int, nic: tuple[str, str], faulty: bool) -> float:
    """Of the healthy rate."""
    if (nic == DIP and tick == shape.tick(DIP_AT)) or (nic == VICTIM and faulty):
        return 0.0
    return 2.0 if (nic == BURST and tick == shape.tick(BURST_AT)) or (nic == SPARE and faulty) else 1.0


def _sample(host: str, at_ms: float, counters: list[int]) -> str:
    """As the journal writes it, but several times as fast."""
    nics = ",".join(f'"eth{n}":{{"tx_bytes":{v},"rx_bytes":{v}}}' for n, v in enumerate(counters))
    head = f'{{"schema":1,"host":"{host}","arm":"migrate","run":0,"t_ns":{round(at_ms * 1e6)}'
    return f'{head},"event":"sample","nics":{{{nics}}}}}\n'


def _iteration(index: int, ranks: int) -> Iterator[str]:
    start = T0_MS + index * ITERATION_MS
    for rank in range(ranks):
        about = {"rank": rank, "index": index, "start_ns": round(start * 1e6)}
        end = start + ITERATION_MS - 1 - 0.1 * rank
        done = {"end_ns": round(end * 1e6), "bytes": 64 << 20, "wrong_elements": 0}
        yield _line(f"h{rank}", end, {"event": "iteration", **about, **done})
        gaps = [round((ITERATION_MS - 2) * 1000 / CHUNKS, 1)] * CHUNKS
        for channel in range(NICS):
            told = {"connection": f"recv-{channel}", "gaps_us": gaps}
            yield _line(f"h{rank}", end, {"event": "delivery", **about, **told})


def _fault(tick: int, at_ms: float, fault: range) -> Iterator[str]:
    phases = {fault.start: ("injected", "active"), fault.stop: ("reverted", "verified")}
    for number, phase in enumerate(phases.get(tick, ())):
        about = {"event": "fault", "id": "cable", "kind": "link_down", "nic": VICTIM[1], "phase": phase}
        yield _line(VICTIM[0], at_ms + 3 * number, about)


def _ending(file: TextIO, shape: Shape) -> None:
    end, done = T0_MS + shape.seconds * 1000, shape.seconds * 1000 // ITERATION_MS
    for rank in range(shape.hosts):
        used = {"completed": done, "wrong_elements": 0, "max_rss_bytes": 212 << 20, "cpu_s": 3.1}
        _write(file, f"h{rank}", end + 20, event="bench_end", rank=rank, **used)
    codes = {f"h{rank}": 0 for rank in range(shape.hosts)}
    _write(file, "controller", end + 200, event="run_end", exit_codes=codes, outcome="finished", reason=None)


@dataclass(frozen=True)
class Drawn:
    """The band of one NIC in a page: heights over the strip's base line, left to right."""

    low: list[float]
    high: list[float]


def drawn(page: str, nic: tuple[str, str]) -> Drawn:
    """From the page's own SVG, the host's strips being those behind the fold."""
    label = f"{nic[0]} {nic[1].removeprefix('eth')}"
    strip = rf'<path d="([^"]+)" class="area-nic"/><path d="([^"]+)" class="band"/><text[^>]*>{label}</text>'
    found = re.search(strip, page)
    if found is None:
        raise click.ClickException(f"the page has no strip of {label}")
    base = _points(found[1])[0][1]
    heights = [base - y for _, y in _points(found[2])]
    half = len(heights) // 2
    return Drawn(heights[: half - 1 : -1], heights[:half])


def _points(path: str) -> list[tuple[float, float]]:
    x = y = 0.0
    points = []
    for command, numbers in re.findall(r"([Mlhv])([-0-9. ]+)", path):
        values = [float(number) for number in numbers.split()]
        dx, dy = {"h": (values[0], 0.0), "v": (0.0, values[0])}.get(command, (values[0], values[-1]))
        x, y = x + dx, y + dy
        points.append((x, y))
    return points


def kept(page: str) -> tuple[float, float]:
    """How deep the dip is and how high the burst, as shares of the rate around them: 1 and 2 where all is kept."""
    dip, burst = drawn(page, DIP), drawn(page, BURST)
    usual = sorted(dip.low)[len(dip.low) // 2]
    return 1 - min(dip.low[2:-4]) / usual, max(burst.high) / sorted(burst.high)[len(burst.high) // 2]


def report(folder: Path) -> tuple[float, float]:
    """Seconds of the whole command, and the most memory that it had, in MiB."""
    start = time.perf_counter()
    process = subprocess.Popen([str(R2CC), "report", str(folder), "--format", "html", "--quiet"])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise click.ClickException(f"r2cc report ended with {process.returncode}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


@click.command(cls=Benchmark)
@click.option("--seconds", type=click.IntRange(20), default=3600, show_default=True, help="Length of the run.")
@click.option("--hosts", type=click.IntRange(4, 1024), default=4, show_default=True)
@click.option("--times", type=click.IntRange(1), default=3, show_default=True, help="Rendered; the fastest counts.")
@json_option
def main(*, seconds: int, hosts: int, times: int, as_json: bool) -> None:
    """Make the run in a temporary folder and render it; exit code 1 if a figure is over its bound."""
    shape = Shape(seconds, hosts)
    with tempfile.TemporaryDirectory(prefix="r2cc-report-") as folder:
        with progress.show(f"making a run of {seconds} s, {shape.samples} samples"):
            run = make(Path(folder) / "run", shape)
        took = [report(run) for _ in range(times)]
        page = (run / "report.html").read_text(encoding="utf-8")
        journal = (run / "journal.jsonl").stat().st_size
    depth, height = kept(page)
    found = [
        Figure("whole command", min(seconds for seconds, _ in took), BOUND_S, "s"),
        Figure("HTML", float(len(page.encode())), float(BOUND_BYTES), "B"),
        Figure("most memory", max(rss for _, rss in took), float(BOUND_RSS_MIB), "MiB"),
        Figure("depth of a dip of 10 ms", depth, 0.95, "of the rate", at_least=True),
        Figure("height of a burst of 10 ms", height, 1.8, "of the rate", at_least=True),
    ]
    title = f"{shape.samples / 1e6:.2f} M samples, journal of {journal / 2**20:.0f} MiB"
    finish(title, found, as_json=as_json, samples=shape.samples)


if __name__ == "__main__":
    main()
