"""What the index says of a simulation: each figure at each place of its axes, by arm."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.config.plain import printable
from reports.store import names, shapes
from reports.store.entry import UNFINISHED, Entry, Figure
from reports.store.folders import SIMULATION, SWEEP
from reports.store.tags import read_tags

BED = "simulation"


def read(folder: Path) -> Entry:
    """The simulation in `folder`. Unreadable for one that is damaged, or of another version."""
    value = shapes.read_if_there(folder / SIMULATION, shapes.Simulation) or shapes.Simulation()
    begun = shapes.read_if_there(folder / SWEEP, shapes.Begun) or shapes.Begun()
    asked = shapes.asked(folder / "experiment.yaml")
    return Entry(
        id=names.id_of(folder.name),
        made=names.made_of(folder.name) or _written(folder),
        experiment=value.name or printable(str(asked.get("name") or folder.name)),
        verdict=value.verdict or UNFINISHED,
        exit_code=value.exit_code,
        bed=BED,
        fingerprint=_settings(asked),
        build_id=value.code or begun.code or "",
        seed=value.seed if value.seed is not None else _whole(asked.get("seed")),
        arms=tuple(value.arms) or _words(asked.get("arms")),
        source="r2cc sim",
        tags=read_tags(folder),
        figures=tuple(_figures(value)),
    )


def _settings(asked: Mapping[str, Any]) -> str:
    """Names what was asked for, but for the seed: simulations are on no hardware."""
    text = json.dumps({key: value for key, value in asked.items() if key != "seed"}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _words(value: object) -> tuple[str, ...]:
    return tuple(printable(str(each)) for each in value) if isinstance(value, list) else ()


def _written(folder: Path) -> datetime | None:
    """Directories of sweeps are named by their users."""
    for name in (SIMULATION, SWEEP):
        if (folder / name).is_file():
            return datetime.fromtimestamp(int((folder / name).stat().st_mtime), UTC)
    return None


def _figures(value: shapes.Simulation) -> Iterator[Figure]:
    for point in value.points:
        place = ",".join(f"{key.rpartition('.')[2]}={each}" for key, each in point.at.items())
        for figure in point.figures:
            if figure.value is not None:
                name = printable(f"{figure.name}{{{place}}}" if place else figure.name)
                yield Figure(point.arm, -1, name, figure.unit, None, figure.value)
