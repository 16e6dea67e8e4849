"""One plan, run by the host bench in the lab with some NICs gone: how long iterations took, what the NICs carried."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from harness.build import NetBuild
from harness.errors import R2ccError
from harness.lab.lab import Lab
from harness.workloads.bench import BenchSpec, bench_command, bench_env

ROOT = "10.250.0.1:29611"
LOOK_S = 0.05
Json = dict[str, Any]
Nics = dict[str, dict[str, dict[str, int]]]
"""Bytes by host, NIC and direction (tx, rx)."""


@dataclass(frozen=True)
class Run:
    """What was measured. Bytes are of one iteration, `planned` those that the bench's placement expects."""

    times_ms: list[float]
    wrong_elements: int
    busy: float
    sent: Nics
    planned: Nics
    cpu_s: float

    @property
    def median_ms(self) -> float:
        return median(self.times_ms)

    @property
    def spread(self) -> float:
        """How far the slowest iteration is from the median."""
        return max(self.times_ms) / self.median_ms - 1

    def received(self, host: str) -> int:
        """Bytes of an iteration, over all NICs of a host."""
        return sum(ways["rx"] for ways in self.sent[host].values())

    def nic_error(self) -> float:
        """The largest difference between a NIC's bytes and what was planned for it, relative to the busiest NIC's."""
        pairs = [
            (self.sent[host][nic][way], planned)
            for host, nics in self.planned.items()
            for nic, ways in nics.items()
            for way, planned in ways.items()
        ]
        most = max((planned for _, planned in pairs), default=0)
        return max((abs(sent - planned) for sent, planned in pairs), default=0) / most if most else 0.0


@dataclass
class Cpu:
    """How busy this machine was, from /proc/stat: (monotonic ns, busy and all jiffies so far)."""

    seen: list[tuple[int, int, int]] = field(default_factory=list)

    def look(self) -> None:
        words = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        self.seen.append((time.monotonic_ns(), sum(words) - words[3] - words[4], sum(words)))

    def busy(self, windows: Sequence[tuple[int, int]]) -> float:
        """Over all windows together."""
        busy = everything = 0
        for begin, end in windows:
            inside = [look for look in self.seen if begin - LOOK_S * 1e9 <= look[0] <= end + LOOK_S * 1e9]
            if len(inside) > 1:
                busy += inside[-1][1] - inside[0][1]
                everything += inside[-1][2] - inside[0][2]
        return busy / everything if everything else 0.0


@contextmanager
def watched() -> Iterator[Cpu]:
    cpu, over = Cpu(), threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_S):
            cpu.look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield cpu
    finally:
        over.set()
        thread.join()


def nic_bytes(lab: Lab) -> Nics:
    """What every NIC has carried so far."""
    found: Nics = {}
    for name, host in lab.hosts.items():
        nics = [nic.name for nic in lab.nics if nic.host == name]
        files = [f"/sys/class/net/{nic}/statistics/{way}_bytes" for nic in nics for way in ("tx", "rx")]
        words = iter(host.run(["cat", *files]).stdout.split())
        found[name] = {nic: {way: int(next(words)) for way in ("tx", "rx")} for nic in nics}
    return found


def run_plan(lab: Lab, net: NetBuild, spec: BenchSpec, *, down: Sequence[str] = (), mode: int = 2) -> Run:
    """Every host is a rank; all take `down` (host:nic) for failed. Raises R2ccError unless it completes."""
    extra = {"R2CC_ASSUME_DOWN": ",".join(down)} if down else {}
    before = nic_bytes(lab)
    lines, cpu = play(lab, net, spec, bench_env(mode, topology_file=lab.places_file, extra=extra))
    after = nic_bytes(lab)
    rounds = spec.iterations + spec.warmup
    sent = {
        host: {
            nic: {way: (after[host][nic][way] - n) // rounds for way, n in ways.items()} for nic, ways in nics.items()
        }
        for host, nics in before.items()
    }
    starts = [next(line for line in rank if line["event"] == "bench_start") for rank in lines]
    planned = {host: start.get("nic_bytes", {}) for host, start in zip(lab.hosts, starts, strict=True)}
    spans = [*windows(lines).values()]
    used = sum(line["cpu_s"] for rank in lines for line in rank if line["event"] == "bench_end")
    return Run([(end - begin) / 1e6 for begin, end in spans], wrong(lines), cpu.busy(spans), sent, planned, used)


def play(
    lab: Lab, net: NetBuild, spec: BenchSpec, env: Mapping[str, str], heard: Callable[[int, Json], None] | None = None
) -> tuple[list[list[Json]], Cpu]:
    """Of every host's rank the lines that are needed; `heard` gets each as it comes. R2ccError unless all complete."""
    lines: list[list[Json]] = [[] for _ in lab.hosts]
    with watched() as cpu:
        argvs = [
            bench_command(net.bench, spec, rank=rank, ranks=len(lab.hosts), root=ROOT, library=net.library)
            for rank in range(len(lab.hosts))
        ]
        ranks = [host.spawn(argv, env=env) for host, argv in zip(lab.hosts.values(), argvs, strict=True)]

        def read(rank: int) -> None:  # a full pipe would hold the rank up
            for text in ranks[rank].stdout or ():
                if b'"event":"delivery"' not in text:
                    lines[rank].append(json.loads(text))
                    if heard is not None:
                        heard(rank, lines[rank][-1])

        try:
            with ThreadPoolExecutor(len(ranks)) as pool:
                list(pool.map(read, range(len(ranks))))
            codes = [process.wait(60) for process in ranks]
        finally:
            tails = [process.stderr_tail(3) for process in ranks]
            for process in ranks:
                process.close()
    if any(codes):
        raise R2ccError(f"ranks ended with {codes}: {'; '.join(filter(None, tails))}", "run it alone")
    return lines, cpu


def wrong(lines: Sequence[Sequence[Json]]) -> int:
    return sum(line["wrong_elements"] for rank in lines for line in rank if line["event"] == "iteration")


def windows(lines: Sequence[Sequence[Json]]) -> dict[int, tuple[int, int]]:
    """From the first rank's start to the last one's end, of each measured iteration."""
    times: dict[int, list[tuple[int, int]]] = {}
    for line in (line for rank in lines for line in rank):
        if line["event"] == "iteration" and line["index"] >= 0:
            times.setdefault(line["index"], []).append((line["start_ns"], line["end_ns"]))
    return {index: (min(s for s, _ in each), max(e for _, e in each)) for index, each in sorted(times.items())}
