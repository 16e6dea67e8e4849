"""The JSON of this folder: what its commands print, and what it writes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from harness.schemas.forms import Forms, Share


class Row(TypedDict):
    arm: str
    name: str
    unit: str
    size_bytes: int | None
    before: float | None
    after: float | None
    bound: float | None
    runs: Annotated[list[int], Field(min_length=2, max_length=2)]
    outcome: Literal["better", "worse", "no difference shown", "too few runs", "only one has it"]
    ratio: float | None
    interval: list[float] | None
    p_adjusted: float | None


class Runs(TypedDict):
    before: list[str]
    after: list[str]


class Nic(TypedDict):
    arm: str
    host: str
    nic: str
    before_bytes: int | None
    after_bytes: int | None
    before_share: Share | None
    after_share: Share | None
    share_change: Annotated[float, Field(ge=-1, le=1)] | None


class Comparison(TypedDict):
    before: str
    after: str
    verdict: str
    differs: list[str]
    not_comparable: list[str]
    rows: list[Row]
    grouped_by: list[Literal["experiment", "bed", "hardware", "build", "arms"]]
    """in what the groups differ; empty: each run for itself"""
    runs: Runs
    nics: list[Nic]
    """sent bytes (medians of the runs) and their share of what all NICs of the arm sent"""


class Compare(TypedDict):
    schema: Literal[2]
    comparisons: list[Comparison]


SCHEMAS: Forms = {
    "compare": ("compare", Compare),
}
