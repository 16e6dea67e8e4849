"""One arm's one repeat, as the journal tells it: what every figure and table of a report is drawn from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reports.reading.counters import Counters, Sample
from reports.reading.gpus import GpuLoad

Json = dict[str, Any]
EVENT_KINDS = frozenset({"fault", "link", "nic", "path", "error", "log", "probe", "verdict", "run_start", "run_end"})
LONGEST_GAP_US = 1e14


@dataclass(frozen=True, order=True)
class NicId:
    """A NIC of a host. Sorts by name, so that eth2 comes before eth10 only when names are padded; hosts are few."""

    host: str
    nic: str

    def __str__(self) -> str:
        return f"{self.host} {self.nic}"


@dataclass(frozen=True, order=True)
class GpuId:
    """A GPU of a host, by the number that NVML gives it."""

    host: str
    gpu: int

    def __str__(self) -> str:
        return f"{self.host} gpu{self.gpu}"


@dataclass(frozen=True)
class Delivery:
    """The gaps between chunks that one connection delivered during one iteration, first gap from `start_ns`."""

    start_ns: int
    gaps_us: list[float]


@dataclass(frozen=True)
class Window:
    """From a fault's injection to its revert; `end_ns` is None when the journal ends before the revert."""

    id: str
    kind: str
    target: NicId
    start_ns: int
    end_ns: int | None


@dataclass
class Trace:
    """Everything the journal holds about one (arm, repeat)."""

    arm: str
    run: int
    samples: dict[NicId, Counters] = field(default_factory=dict)
    gpus: dict[GpuId, GpuLoad] = field(default_factory=dict)
    iterations: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    """Index to the bytes that an iteration moved on each rank."""
    wrong: dict[int, int] = field(default_factory=dict)
    """Index to wrong elements, over all ranks."""
    op: str = ""
    ranks: int = 0
    deliveries: dict[str, list[Delivery]] = field(default_factory=dict)
    events: list[Json] = field(default_factory=list)
    commands: list[Json] = field(default_factory=list)
    cpu_busy: list[float] = field(default_factory=list)
    ended: bool = False
    began_ns: int | None = None
    """The start of the first measured iteration."""

    def all_deliveries(self) -> list[Delivery]:
        """Of all connections."""
        return [delivery for per in self.deliveries.values() for delivery in per]

    def add(self, line: Json) -> None:
        """Take one journal line in. Kinds that no figure needs are ignored, so that newer journals still render."""
        event = line["event"]
        if event in EVENT_KINDS:
            self.events.append(line)
        if event == "run_end":
            self.ended = True
        handler = _HANDLERS.get(event)
        if handler:
            handler(self, line)

    def origin_ns(self) -> int:
        """The start of the first measured iteration; of the first thing seen when there was none."""
        if self.began_ns is not None:
            return self.began_ns
        seen = [s.ends()[0].t_ns for s in self.samples.values() if s] + [int(e["t_ns"]) for e in self.events]
        return min(seen, default=0)

    def end_ns(self) -> int:
        """The last moment worth drawing: the end of the last iteration or revert, else the last sample."""
        ends = [end for spans in self.iterations.values() for _, end in spans]
        ends += [w.end_ns for w in self.windows() if w.end_ns is not None]
        ends = ends or [s.ends()[1].t_ns for s in self.samples.values() if s]
        return max(ends, default=self.origin_ns())

    def iteration_ms(self) -> dict[int, float]:
        """Index to duration of the slowest rank, for iterations that every rank finished
        (as chaos.analysis.rundata counts)."""
        return {
            index: max(end - start for start, end in spans) / 1e6
            for index, spans in sorted(self.iterations.items())
            if len(spans) >= self.ranks
        }

    def windows(self) -> list[Window]:
        """Every time a fault was on, in order; a flap has several."""
        opened: dict[str, Json] = {}
        found: list[Window] = []
        for line in self.events:
            if line["event"] != "fault":
                continue
            key = str(line.get("id", "fault"))
            if line.get("phase") == "injected":
                opened.setdefault(key, line)
            elif line.get("phase") == "reverted" and key in opened:
                found.append(_window(opened.pop(key), moment_ns(line)))
        found.extend(_window(line, None) for line in opened.values())
        return sorted(found, key=lambda w: w.start_ns)


def target_of(line: Json) -> NicId:
    """The NIC that a line is about; `nic` may itself name the host, as `h1/eth2` or `h1:eth2`."""
    nic = str(line.get("nic", ""))
    for separator in ("/", ":"):
        if separator in nic:
            host, _, name = nic.partition(separator)
            return NicId(host, name)
    return NicId(str(line.get("target_host", line.get("host", ""))), nic)


def moment_ns(line: Json) -> int:
    """When it happened: for a fault when its command was issued, because its line is written after that returned."""
    return int(line["before_ns"] if "before_ns" in line else line["t_ns"])


def _window(line: Json, end_ns: int | None) -> Window:
    fault = str(line.get("id", "fault"))
    return Window(fault, str(line.get("kind", "fault")), target_of(line), moment_ns(line), end_ns)


def _add_sample(trace: Trace, line: Json) -> None:
    for nic, counters in line.get("nics", {}).items():
        sample = Sample(int(line["t_ns"]), int(counters["tx_bytes"]), int(counters["rx_bytes"]))
        trace.samples.setdefault(NicId(str(line["host"]), nic), Counters()).add(sample)


def _add_iteration(trace: Trace, line: Json) -> None:
    index = int(line["index"])
    if index >= 0:
        start_ns = int(line["start_ns"])
        trace.iterations.setdefault(index, []).append((start_ns, int(line["end_ns"])))
        trace.began_ns = start_ns if trace.began_ns is None else min(trace.began_ns, start_ns)
        trace.sizes[index] = int(line.get("bytes", 0))
        trace.wrong[index] = trace.wrong.get(index, 0) + int(line.get("wrong_elements", 0))


def _add_gpu(trace: Trace, line: Json) -> None:
    trace.gpus.setdefault(GpuId(str(line["host"]), int(line["gpu"])), GpuLoad()).add(line)


def _add_delivery(trace: Trace, line: Json) -> None:
    if int(line["index"]) < 0 or int(line.get("part", 0)) > 0:
        _extend_delivery(trace, line)
        return
    key = _connection(line)
    delivery = Delivery(int(line["start_ns"]), _gaps_us(line))
    trace.deliveries.setdefault(key, []).append(delivery)


def _extend_delivery(trace: Trace, line: Json) -> None:
    known = trace.deliveries.get(_connection(line))
    if int(line["index"]) >= 0 and known:
        known[-1].gaps_us.extend(_gaps_us(line))


def _gaps_us(line: Json) -> list[float]:
    """ValueError for what is no time between two chunks: negative, or years."""
    found = [float(gap) for gap in line["gaps_us"]]
    if found and not 0.0 <= min(found) <= max(found) < LONGEST_GAP_US:
        raise ValueError("a gap between two chunks is negative, or longer than any run")
    return found


def _connection(line: Json) -> str:
    return f"{line['host']} {line.get('rank', '')} {line['connection']}"


def _add_start(trace: Trace, line: Json) -> None:
    trace.ranks = max(trace.ranks, int(line["ranks"]))
    trace.op = str(line.get("op", ""))


def _add_cpu(trace: Trace, line: Json) -> None:
    trace.cpu_busy.append(float(line["busy"]))


def _add_command(trace: Trace, line: Json) -> None:
    trace.commands.append(line)


_HANDLERS = {
    "bench_start": _add_start,
    "sample": _add_sample,
    "gpu": _add_gpu,
    "iteration": _add_iteration,
    "delivery": _add_delivery,
    "cpu": _add_cpu,
    "command": _add_command,
}
