"""What a campaign file says, and the cells it comes to. Reading it: load.py."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt, StrictStr

from chaos.experiment.model import Experiment
from chaos.faults.spec import Model
from harness.repo import DEFAULT_NCCL
from harness.sites.site import Site

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
LONGEST_NAME = 200
"""Of a cell: its directory's, to which a serial number may be added."""
Minutes = Annotated[float, Field(gt=0, le=1440, allow_inf_nan=False)]
Values = Annotated[list[Any], Field(min_length=1)]


class Header(Model):
    """What the file says beside its cells."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    name: Annotated[StrictStr, Field(pattern=NAME)]
    description: StrictStr = ""
    cells: Annotated[list[Any], Field(min_length=1)]


class Entry(Model):
    """One of the file's `cells`: one cell, or with `matrix` one for each combination."""

    experiment: StrictStr
    name: Annotated[StrictStr, Field(pattern=NAME)] | None = None
    arms: Annotated[tuple[StrictStr, ...], Field(min_length=1)] | None = None
    repeats: Annotated[StrictInt, Field(gt=0, le=1000)] | None = None
    seed: Annotated[StrictInt, Field(ge=0, lt=2**32)] | None = None
    minutes: Minutes | None = None
    inventory: StrictStr = "lab"
    set: dict[StrictStr, Any] = Field(default_factory=dict)
    matrix: dict[StrictStr, Values] = Field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """One experiment of the campaign, as it will run."""

    name: str
    source: Path
    """The experiment's file."""
    experiment: Experiment
    """With everything that the campaign changes in it."""
    arms: Sequence[str]
    site: Site
    topology: Mapping[str, Any]
    """What the experiment's topology comes to, wherever it is written."""
    minutes: float | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    nccl: str | None = None
    """The version; None: the usual one."""

    @cached_property
    def fingerprint(self) -> str:
        """Another one means other results. Of all that is asked for, without defaults, so that new ones change none."""
        asked = self.experiment.model_dump(mode="json", exclude_defaults=True, exclude={"description", "topology"})
        whole = {"experiment": asked, "topology": self.topology, "arms": list(self.arms), "inventory": str(self.site)}
        if self.nccl not in (None, DEFAULT_NCCL):
            whole["nccl"] = self.nccl
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Campaign:
    """A checked campaign file."""

    name: str
    description: str
    file: Path
    cells: Sequence[Cell]
