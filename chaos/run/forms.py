"""The JSON of this folder: what its commands print, and what it writes."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from harness.schemas.forms import Count, Forms


class Start(TypedDict):
    host: str
    name: str
    argv: list[str]
    env: dict[str, str]


class Step(TypedDict):
    on: str
    command: str


class Fault(TypedDict):
    id: str
    kind: str
    host: str | None
    nic: str | None
    place: str
    when: str
    outages_s: list[list[float]]
    facts: list[Step]
    inject: list[Step]
    probe: list[Step]
    revert: list[Step]


class Run(TypedDict):
    experiment: str
    arm: str
    mode: Annotated[int, Field(ge=0, le=3)]
    run: Count
    start: list[Start]
    faults: list[Fault]


class RunPlan(TypedDict):
    schema: Literal[1]
    runs: list[Run]


class Experiment(TypedDict):
    name: str
    verdict: Literal["holds", "deviated", "failed", "void"]
    exit_code: Literal[0, 1, 2, 3, 130]
    directory: str
    reasons: list[str]


class Suite(TypedDict):
    schema: Literal[1]
    experiments: list[Experiment]


class File(TypedDict):
    file: str
    errors: list[str]
    name: NotRequired[str]
    faults: NotRequired[Count]
    arms: NotRequired[list[str]]


class Validated(TypedDict):
    schema: Literal[1]
    files: list[File]


SCHEMAS: Forms = {
    "run_plan": ("r2cc chaos run --dry-run: one entry a run of an arm", RunPlan),
    "suite": ("r2cc chaos run FOLDER: one entry an experiment", Suite),
    "validated": ("r2cc chaos validate", Validated),
}
