"""A simulation's run directory, read. simulation.json is the truth; a damaged one is an error, not half a page."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import schemas
from harness.config import jsons
from harness.config.files import Unreadable, is_there
from harness.config.plain import cleaned
from harness.errors import UsageError

Json = dict[str, Any]
FILE = "simulation.json"
LONGEST = 300
OURS = ("allreduce", "balance", "optcc", "published", "migrate")
"""Our arms; the first that a simulation has is the one that sentences speak of."""
BASELINES = ("stock", "exclusion", "kv_replication", "upstream")


def is_simulation(folder: Path) -> bool:
    return os.path.lexists(folder / FILE)


@dataclass(frozen=True)
class Simulation:
    """What simulation.json says, with ways to find things in it."""

    path: Path
    value: Json

    @property
    def name(self) -> str:
        return str(self.value["name"])

    @property
    def kind(self) -> str:
        return str(self.value["workload"]["kind"])

    @property
    def arms(self) -> list[str]:
        return [str(arm) for arm in self.value["arms"]]

    @property
    def axes(self) -> dict[str, list[Any]]:
        return dict(self.value["axes"])

    def gpus(self, at: Mapping[str, Any]) -> int:
        """Of the whole cluster there."""
        return next(int(point["gpus"]) for point in self.value["points"] if point["at"] == at)

    def ours(self) -> str | None:
        return next((arm for arm in OURS if arm in self.arms), None)

    def baseline(self) -> str | None:
        return next((arm for arm in BASELINES if arm in self.arms), None)

    def points(self) -> list[Mapping[str, Any]]:
        """The places in the axes, each once."""
        found: dict[str, Mapping[str, Any]] = {}
        for point in self.value["points"]:
            found.setdefault(json.dumps(point["at"]), point["at"])
        return list(found.values())

    def as_shipped(self, axis: str) -> list[Mapping[str, Any]]:
        """Of the places those at the last value of an axis; all where there is no such axis."""
        values = self.axes.get(axis)
        return [at for at in self.points() if not values or at.get(axis) == values[-1]]

    def figure(self, at: Mapping[str, Any], arm: str, name: str) -> Json | None:
        """One figure; None when there is none, or it has no value."""
        for point in self.value["points"]:
            if point["arm"] == arm and point["at"] == at:
                found = next((each for each in point["figures"] if each["name"] == name), None)
                return None if found is None or found["value"] is None else found
        return None

    def drawn_arms(self, name: str) -> list[str]:
        """Arms that have the figure somewhere, ratios of two arms left out."""
        has = {point["arm"] for point in self.value["points"] for each in point["figures"] if each["name"] == name}
        return [arm for arm in self.arms if arm in has]

    def ratios(self) -> Iterator[tuple[Mapping[str, Any], str, Json]]:
        """(at, arm/over, figure) of figures that are made of two arms."""
        for point in self.value["points"]:
            if point["arm"] not in self.arms:
                yield from ((point["at"], str(point["arm"]), each) for each in point["figures"])

    def files(self) -> list[str]:
        """Names of what lies in the directory, for links."""
        names = (FILE, "experiment.yaml", "environment.json", "trace.jsonl", "report.md", "figures.csv")
        return [name for name in names if is_there(self.path / name)]


def load(folder: Path) -> Simulation:
    """Raises UsageError when there is no simulation, or one that does not fit its schema."""
    path = folder / FILE
    try:
        value = cleaned(jsons.mapping_of(path, schema=1))
    except Unreadable as error:
        hint = error.hint or "name a directory that `r2cc sim run` made"
        raise UsageError(f"cannot read {folder}: {error.message}", hint) from error
    if wrong := schemas.problems("simulation", value):
        what = f"{path} does not fit its schema: {wrong[0][:LONGEST]}"
        raise UsageError(what, "it was made by another version of r2cc")
    return Simulation(folder, value)


def names_of(points: Sequence[Json]) -> list[str]:
    """All figures' names, in order of appearance."""
    return list(dict.fromkeys(each["name"] for point in points for each in point["figures"]))
