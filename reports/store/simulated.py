"""What the index says of a simulation: each figure at each place of its axes, by arm."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reports.store import entry as entries
from reports.store.entry import UNFINISHED, Entry, Figure

BED = "simulation"


def read(folder: Path) -> Entry:
    """The simulation in `folder`; what cannot be read there is as if it were not."""
    value = entries.json_of(folder / entries.SIMULATION)
    asked = entries.asked(folder)
    stamp = entries.STAMP.match(folder.name)
    arms = value.get("arms") or asked.get("arms") or []
    seed = value.get("seed", asked.get("seed"))
    code = value.get("code") or entries.json_of(folder / entries.SWEEP).get("code") or ""
    return Entry(
        id=folder.name,
        made=datetime.strptime(stamp[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC) if stamp else _written(folder),
        experiment=str(value.get("name") or asked.get("name") or folder.name),
        verdict=str(value.get("verdict") or UNFINISHED),
        exit_code=value.get("exit_code") if isinstance(value.get("exit_code"), int) else None,
        bed=BED,
        fingerprint=_settings(asked),
        build_id=str(code),
        seed=seed if isinstance(seed, int) else None,
        arms=tuple(map(str, arms)) if isinstance(arms, list) else (),
        source="r2cc sim",
        tags=entries.read_tags(folder),
        figures=tuple(_figures(value)),
    )


def _settings(asked: Mapping[str, Any]) -> str:
    """Names what was asked for, but for the seed: simulations are on no hardware."""
    text = json.dumps({key: value for key, value in asked.items() if key != "seed"}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _written(folder: Path) -> datetime | None:
    """Directories of sweeps are named by their users."""
    for name in (entries.SIMULATION, entries.SWEEP):
        if (folder / name).is_file():
            return datetime.fromtimestamp(int((folder / name).stat().st_mtime), UTC)
    return None


def _figures(value: Mapping[str, Any]) -> Iterator[Figure]:
    for point in value.get("points", []):
        place = ",".join(f"{key.rpartition('.')[2]}={each}" for key, each in point["at"].items())
        for figure in point["figures"]:
            if figure["value"] is not None:
                name = f"{figure['name']}{{{place}}}" if place else str(figure["name"])
                yield Figure(str(point["arm"]), -1, name, str(figure["unit"]), None, float(figure["value"]))
