"""What the store reads of a run's files, checked (docs/reference/contracts.md). What else is there is passed over."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from harness.config import jsons
from harness.config.files import Missing, Unreadable
from harness.config.plain import printable

LONGEST = 4096
Word = Annotated[str, Field(max_length=LONGEST), AfterValidator(printable)]
Ms = float | None
P = TypeVar("P", bound="Part")


class Part(BaseModel):
    """Types are what they say: neither true nor "1" is a number."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class Metric(Part):
    name: Word
    unit: Word
    size_bytes: int | None = None
    value: float | None = None
    bound: float | None = None


class Healthy(Part):
    median: Ms = None


class FaultTimes(Part):
    detect_ms: Ms = None
    stall_ms: Ms = None
    iteration_ms: Ms = None
    iteration_bound_ms: Ms = None
    longest_ms: Ms = None
    degraded_ms: Ms = None
    degraded_bound_ms: Ms = None
    after_ms: Ms = None
    return_ms: Ms = None


class Moved(Part):
    tx_bytes: int | None = None


class Repeat(Part):
    run: int = 0
    healthy_ms: Healthy = Healthy()
    bytes_per_nic: dict[Word, dict[Word, Moved]] = {}
    faults: list[FaultTimes] = []
    metrics: list[Metric] = []
    void: list[Any] = []
    cut: bool | None = None


class Arm(Part):
    name: Word
    runs: list[Repeat] = []
    metrics: list[Metric] = []


class Hardware(Part):
    fingerprint: Word | None = None


class Summary(Part):
    """summary.json."""

    experiment: Word | None = None
    verdict: Word | None = None
    exit_code: int | None = None
    bed: Word | None = None
    hardware: Hardware | None = None
    build_id: Word | None = None
    seed: int | None = None
    arms: list[Arm] = []


class Build(Part):
    build_id: Word | None = None


class Environment(Part):
    """environment.json."""

    hardware: Hardware | None = None
    build: Build | None = None
    source: Word | None = None


class Tags(Part):
    """tags.json."""

    tags: list[Word]


class Asked(Part):
    """The name in experiment.yaml."""

    name: Word | None = None


class SimFigure(Part):
    name: Word
    unit: Word
    value: float | None


class SimPoint(Part):
    at: dict[str, Any]
    arm: Word
    figures: list[SimFigure]


class Simulation(Part):
    """simulation.json."""

    name: Word | None = None
    verdict: Word | None = None
    exit_code: int | None = None
    seed: int | None = None
    code: Word | None = None
    arms: list[Word] = []
    points: list[SimPoint] = []


class Begun(Part):
    """sweep.json."""

    code: Word | None = None


def read(path: Path, shape: type[P]) -> P:
    """A JSON file of ours. Missing, or Unreadable: another version, or a field of a wrong type."""
    return fitted(jsons.mapping_of(path, schema=1), shape, path.name)


def read_if_there(path: Path, shape: type[P]) -> P | None:
    """The same; None where there is no such file."""
    try:
        return read(path, shape)
    except Missing:
        return None


def asked(path: Path) -> dict[str, Any]:
    """experiment.yaml; {} where there is none. Unreadable for what is none."""
    from harness.config import documents  # YAML takes long to load, and runs that ended need none

    try:
        return documents.mapping_of(path)
    except Missing:
        return {}


def fitted(value: dict[str, Any], shape: type[P], name: str) -> P:
    """Unreadable, naming the first field that does not fit."""
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = printable(".".join(map(str, first["loc"])))
        raise Unreadable(f"{name}: {place}: {first['msg'][:1].lower()}{first['msg'][1:]}") from error
