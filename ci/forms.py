"""The JSON of this folder: what its commands print, and what it writes."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from ci.policy import Policy
from harness.schemas.forms import Forms
from reports.store.forms import Run


class Baseline(TypedDict):
    schema: Literal[1]
    baseline: str
    runs: list[Run]


class BaselineRecorded(TypedDict):
    schema: Literal[1]
    baseline: str
    runs: list[str]
    """ids"""


class Serie(TypedDict):
    name: str
    outcome: Literal["better", "worse", "no difference shown", "in quarantine", "too short", "no run"]
    text: str
    ratio: float | None
    low: float | None
    high: float | None
    p: float | None


class CiGate(TypedDict):
    schema: Literal[1]
    outcome: Literal["passed", "regressed", "not judged", "recorded"]
    exit_code: Literal[0, 1, 3]
    reasons: list[str]
    series: list[Serie]


SCHEMAS: Forms = {
    "ci_policy": ("A policy of the gate", Policy),
    "baseline": ("r2cc ci baseline show", Baseline),
    "baseline_recorded": ("r2cc ci baseline record", BaselineRecorded),
    "ci_gate": ("ci gate", CiGate),
}
