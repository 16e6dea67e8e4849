"""Status files as Prometheus metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.watch.status import Folder, Status, read_folder

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

WHO = ("job_id", "host", "rank", "pid")
"""`job_id`: Prometheus itself gives each sample a `job`."""
CAUSES = {
    "netlink": "link_down",
    "peer": "peer_link_down",
    "probe": "silence",
    "data stands still": "data_stands_still",
}


def registry_of(folder: Path, host: str | None = None) -> CollectorRegistry:
    """Reads the folder anew at each scrape."""
    from prometheus_client.registry import Collector, CollectorRegistry

    class FolderCollector(Collector):
        def collect(self) -> Iterator[Any]:
            return families(read_folder(folder, host))

    registry = CollectorRegistry()
    registry.register(FolderCollector())
    return registry


def text_of(folder: Path, host: str | None = None) -> str:
    """As node-exporter's textfile collector reads it."""
    from prometheus_client import generate_latest

    return generate_latest(registry_of(folder, host)).decode()


def families(folder: Folder) -> Iterator[Any]:
    """Of the processes that live. Counters of a process begin at 0 with it, as Prometheus expects of a new label."""
    yield from _of_nics(folder.live)
    yield from _of_connections(folder.live)
    yield from _of_totals(folder.live)
    yield _gauge("r2cc_processes", "Processes with a fresh status file.", (), [((), len(folder.live))])
    problems = [((), len(folder.problems))]
    yield _gauge("r2cc_status_problems", "Lines of trouble with the folder of status files.", (), problems)


def _of_nics(live: list[Status]) -> Iterator[Any]:
    each = [((*_who(process), nic.name), nic) for process in live for nic in process.nics]
    labels = (*WHO, "nic")
    yield _gauge(
        "r2cc_nic_up",
        "1: the NIC carries data. 0: it is down.",
        labels,
        [(key, nic.state != "down") for key, nic in each],
    )
    states = [
        ((*key, state), nic.state == state) for key, nic in each for state in ("up", "degraded", "down", "draining")
    ]
    yield _gauge("r2cc_nic_state", "1 for the state that the NIC is in.", (*labels, "state"), states)
    ratios = [(key, nic.capacity_percent / 100) for key, nic in each]
    yield _gauge("r2cc_nic_capacity_ratio", "What the NIC carries beside a whole one.", labels, ratios)
    carried = [(key, nic.connections_carried) for key, nic in each]
    yield _gauge("r2cc_nic_connections_carried", "Connections of this NIC that others carry.", labels, carried)
    moved = [
        ((*key, direction), count)
        for key, nic in each
        for direction, count in (("transmit", nic.tx_bytes), ("receive", nic.rx_bytes))
    ]
    yield _counter("r2cc_nic_bytes", "Payload over the NIC.", (*labels, "direction"), moved)


def _of_connections(live: list[Status]) -> Iterator[Any]:
    for name, help_, states in (
        ("connections", "Connections by state.", ("active", "moving", "held", "failed")),
        ("paths", "Paths that the process sends over, by state.", ("up", "suspect", "dead", "probation")),
    ):
        values = [
            ((*_who(process), state), getattr(getattr(process, name), state)) for process in live for state in states
        ]
        yield _gauge(f"r2cc_{name}", help_, (*WHO, "state"), values)
    info = [((*_who(process), process.build, str(process.mode), process.net), 1) for process in live]
    yield _gauge("r2cc_build_info", "What runs.", (*WHO, "build", "mode", "net"), info)


def _of_totals(live: list[Status]) -> Iterator[Any]:
    failovers = [((*_who(p), _cause(cause)), n) for p in live for cause, n in p.totals.failovers.items()]
    yield _counter("r2cc_failovers", "Connections moved off a failure.", (*WHO, "cause"), _summed(failovers))
    for name, help_, key in (
        ("r2cc_nic_failures", "NICs found down, here and at the other ends.", "nic_failures"),
        ("r2cc_failbacks", "Connections that came back home.", "failbacks"),
        ("r2cc_connections_lost", "Connections that failed for good.", "connections_lost"),
        ("r2cc_held_seconds", "Time in which some connection had no path.", "held_s"),
        ("r2cc_stalled_seconds", "Time in which some connection with work stood still.", "stalled_s"),
    ):
        yield _counter(name, help_, WHO, [(_who(p), getattr(p.totals, key)) for p in live])
    dropped = [((*_who(p), reason), n) for p in live for reason, n in p.totals.dropped.items()]
    yield _counter("r2cc_dropped_datagrams", "Datagrams not acted on.", (*WHO, "reason"), dropped)
    yield _histogram(live)


def _histogram(live: list[Status]) -> Any:
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily("r2cc_stall_seconds", "How long a connection stood still.", labels=WHO)
    for process in live:
        stalls, total, buckets = process.totals.stalls, 0, []
        bounds = [*(repr(bound / 1000) for bound in stalls.bounds_ms), "+Inf"]
        for bound, count in zip(bounds, stalls.counts, strict=False):
            total += count
            buckets.append((bound, total))
        family.add_metric(_who(process), buckets, stalls.sum_s)
    return family


def _who(process: Status) -> tuple[str, ...]:
    return process.job, process.host, str(process.rank), str(process.pid)


def _cause(cause: str) -> str:
    return CAUSES.get(cause) or re.sub(r"[^a-z0-9]+", "_", cause.lower()).strip("_")


def _summed(values: list[tuple[tuple[str, ...], int]]) -> list[tuple[tuple[str, ...], int]]:
    found: dict[tuple[str, ...], int] = {}
    for key, count in values:
        found[key] = found.get(key, 0) + count
    return list(found.items())


def _gauge(name: str, help_: str, labels: tuple[str, ...], values: list[Any]) -> Any:
    from prometheus_client.core import GaugeMetricFamily

    return _filled(GaugeMetricFamily(name, help_, labels=labels), values)


def _counter(name: str, help_: str, labels: tuple[str, ...], values: list[Any]) -> Any:
    from prometheus_client.core import CounterMetricFamily

    return _filled(CounterMetricFamily(name, help_, labels=labels), values)


def _filled(family: Any, values: list[Any]) -> Any:
    for key, value in values:
        family.add_metric(key, float(value))
    return family
