"""What the index says of one run directory. Pure but for reading it; tags are a file of the directory itself."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from harness.schemas import dumped

Json = dict[str, Any]
STAMP = re.compile(r"^(\d{8}T\d{6}Z)-(.+)$")
TAGS = "tags.json"
SIMULATION, SWEEP = "simulation.json", "sweep.json"
UNFINISHED = "unfinished"
"""The verdict of a run that is still running, or was killed."""
OF_FAULTS = ("detect_ms", "stall_ms", "iteration_ms", "degraded_ms", "after_ms", "return_ms")
BOUNDS = {"iteration_ms": "iteration_bound_ms", "degraded_ms": "degraded_bound_ms"}


@dataclass(frozen=True)
class Figure:
    """One number of a run; `series` by name, arm and message size."""

    arm: str
    repeat: int
    name: str
    unit: str
    size_bytes: int | None
    value: float
    bound: float | None = None


@dataclass(frozen=True)
class Traffic:
    """What one NIC sent in one repeat."""

    arm: str
    repeat: int
    host: str
    nic: str
    tx_bytes: int


@dataclass(frozen=True)
class Entry:
    """A run as `r2cc runs list` knows it; `traffic` is not in the index, only read from the directory."""

    id: str
    made: datetime | None
    experiment: str
    verdict: str
    exit_code: int | None
    bed: str
    fingerprint: str
    build_id: str
    seed: int | None
    arms: tuple[str, ...]
    source: str
    tags: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    traffic: tuple[Traffic, ...] = ()

    def as_json(self) -> Json:
        return {
            "id": self.id,
            "made": self.made.isoformat() if self.made else None,
            **{name: getattr(self, name) for name in ("experiment", "verdict", "exit_code", "bed", "fingerprint")},
            **{name: getattr(self, name) for name in ("build_id", "seed", "source")},
            "arms": list(self.arms),
            "tags": list(self.tags),
        }


def is_run(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("journal.jsonl", "summary.json", SIMULATION, SWEEP))


def is_simulated(folder: Path) -> bool:
    """What `r2cc sim` makes, finished or not."""
    return (folder / SIMULATION).is_file() or (folder / SWEEP).is_file()


def changed_ns(folder: str) -> int | None:
    """When what the index knows of a run last changed, 0 while it has no result; None for what is no run.

    A run that still writes its journal is read when it has ended. Two to five system calls: it is asked of every run.
    """
    result = _modified_ns(f"{folder}/summary.json") or _modified_ns(f"{folder}/{SIMULATION}")
    if result is None and all(_modified_ns(f"{folder}/{begun}") is None for begun in ("journal.jsonl", SWEEP)):
        return None
    return max(result or 0, _modified_ns(f"{folder}/{TAGS}") or 0)


def _modified_ns(path: str) -> int | None:
    """None for what is no file."""
    try:
        found = os.stat(path)  # noqa: PTH116 (a Path of each of 10,000 runs takes longer than all the rest)
    except OSError:
        return None
    return found.st_mtime_ns if stat.S_ISREG(found.st_mode) else None


def read(folder: Path) -> Entry:
    """The run in `folder`; what cannot be read there is as if it were not."""
    if is_simulated(folder):
        from reports.store import simulated

        return simulated.read(folder)
    summary = json_of(folder / "summary.json")
    environment = json_of(folder / "environment.json")
    stamp = STAMP.match(folder.name)
    hardware = summary.get("hardware") or environment.get("hardware") or {}
    return Entry(
        id=folder.name,
        made=datetime.strptime(stamp[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC) if stamp else None,
        experiment=str(summary.get("experiment") or asked(folder).get("name") or (stamp[2] if stamp else folder.name)),
        verdict=str(summary.get("verdict") or UNFINISHED),
        exit_code=_integer(summary.get("exit_code")),
        bed=str(summary.get("bed") or ""),
        fingerprint=str(_mapping(hardware).get("fingerprint") or ""),
        build_id=str(summary.get("build_id") or _mapping(environment.get("build")).get("build_id") or ""),
        seed=_integer(summary.get("seed")),
        arms=tuple(str(arm.get("name")) for arm in _list(summary.get("arms"))),
        source=str(environment.get("source") or "r2cc"),
        tags=read_tags(folder),
        figures=tuple(figures(summary)),
        traffic=tuple(traffic(summary)),
    )


def read_tags(folder: Path) -> tuple[str, ...]:
    return tuple(sorted({str(tag) for tag in json_of(folder / TAGS).get("tags", [])}))


def write_tags(folder: Path, tags: set[str]) -> None:
    """Whole or not at all."""
    part = folder / f".{TAGS}.part"
    part.write_text(dumped("tags", {"schema": 1, "tags": sorted(tags)}) + "\n", encoding="utf-8")
    part.replace(folder / TAGS)


def figures(summary: Mapping[str, Any]) -> Iterator[Figure]:
    """All numbers of a summary (docs/contracts.md)."""
    for arm in _list(summary.get("arms")):
        name = str(arm.get("name"))
        for metric in _list(arm.get("metrics")):
            yield from _metric(name, -1, metric)
        for run in _list(arm.get("runs")):
            repeat = _integer(run.get("run")) or 0
            found = [{"name": "healthy_ms", "unit": "ms", "value": _mapping(run.get("healthy_ms")).get("median")}]
            for fault in _list(run.get("faults")):
                times = {key: (fault.get(key), fault.get(BOUNDS.get(key, ""))) for key in OF_FAULTS}
                found += [{"name": key, "unit": "ms", "value": v, "bound": bound} for key, (v, bound) in times.items()]
            for metric in [*found, *_list(run.get("metrics"))]:
                yield from _metric(name, repeat, metric)


def traffic(summary: Mapping[str, Any]) -> Iterator[Traffic]:
    """Sent bytes of every NIC, arm and repeat."""
    for arm in _list(summary.get("arms")):
        for run in _list(arm.get("runs")):
            for host, nics in _mapping(run.get("bytes_per_nic")).items():
                for nic, moved in _mapping(nics).items():
                    sent = _integer(_mapping(moved).get("tx_bytes"))
                    if sent is not None:
                        yield Traffic(str(arm.get("name")), _integer(run.get("run")) or 0, str(host), str(nic), sent)


def _metric(arm: str, repeat: int, metric: Mapping[str, Any]) -> Iterator[Figure]:
    size = _integer(metric.get("size_bytes"))
    value, bound = _real(metric.get("value")), _real(metric.get("bound"))
    if value is not None:
        yield Figure(arm, repeat, str(metric.get("name")), str(metric.get("unit")), size, value, bound)


def asked(folder: Path) -> Mapping[str, Any]:
    """What was asked for: a run that was killed has nothing else."""
    try:
        value = yaml.safe_load((folder / "experiment.yaml").read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return _mapping(value)


def json_of(path: Path) -> Json:
    """{} for what is no mapping, or cannot be read."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _real(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
