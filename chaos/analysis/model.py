"""What a journal comes to: figures, checks and verdicts, of a repeat, an arm and an experiment.

`Summary` is summary.json, key by key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from chaos.record.lines import Counters
from harness.facts.environment import Hardware
from harness.schemas.form import Count, Mode, Share, form, growing, hidden, left_out, newer

if TYPE_CHECKING:
    from pydantic import TypeAdapter

HOLDS: Final = "holds"
DEVIATED: Final = "deviated"
FAILED: Final = "failed"
VOID: Final = "void"
Outcome = Literal["holds", "deviated", "void"]
Verdict = Literal["holds", "deviated", "failed", "void"]
Ms = float | None
"""None: could not be measured."""


@dataclass(frozen=True)
class Metric:
    """A figure that no single fault owns, with the bound on it where there is one."""

    name: str
    unit: str
    size_bytes: int | None
    value: float | None
    bound: float | None


@dataclass(frozen=True)
class Check:
    """A figure held against what the hypothesis says of it."""

    name: str
    outcome: Outcome
    value: float | bool | None
    bound: float | bool | None
    unit: str


@growing
@dataclass(frozen=True)
class Healthy:
    """Of the iterations before any fault."""

    median: Ms
    p99: Ms


@dataclass(frozen=True, kw_only=True)
class FaultFigures:
    """What one fault did to the run."""

    id: str
    kind: str
    host: str
    nic: str
    at_iteration: int | None
    """the iteration it really hit; null: none"""
    hit: bool
    onset_ns: int | None = newer()
    reverted_ns: int | None = newer()
    detect_ms: Ms
    stall_ms: Ms
    iteration_ms: Ms
    iteration_bound_ms: Ms
    beyond_ms: Ms = newer()
    """iteration_ms less its bound; of modes without one, less what balance could do"""
    longest_ms: Ms = None
    """the longest iteration from the onset until the fault was over, and a second more"""
    degraded_ms: Ms
    degraded_bound_ms: Ms
    after_ms: Ms
    return_ms: Ms
    stolen: Share | None = newer()
    """share of the CPU that a hypervisor gave to others around the onset"""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One repeat of one arm."""

    run: Count
    completed: bool
    iterations: Count
    """finished by every rank, warm-up not counted"""
    wrong_elements: Count
    healthy_ms: Healthy
    bytes_per_nic: dict[str, dict[str, Counters]]
    faults: list[FaultFigures]
    metrics: list[Metric]
    void: list[str]
    """why its figures say nothing; empty when they do"""
    errors: list[str]
    checks: list[Check]
    verdict: Verdict
    checked: bool | None = left_out()
    """false: nobody compared the elements of its results, so that none was wrong says nothing"""
    heard: bool | None = left_out()
    """false: a program that is not ours ran, and R2CC's library said nothing: it may not have been in the path"""
    cut: bool | None = left_out()
    """true: it was interrupted, or its controller was killed, and its figures are of a part alone"""
    results: dict[str, str] = hidden(dict)
    """What each iteration of each rank came to, where the workload says so: `rank/index` -> text. Not in the file."""

    def metric(self, name: str) -> float | None:
        """The value of that name; None where there is none, or it could not be measured."""
        return next((metric.value for metric in self.metrics if metric.name == name), None)


@dataclass(frozen=True)
class Arm:
    """All repeats of one arm, and what they come to."""

    name: str
    mode: Mode
    expect: Literal["holds", "deviates", "any"]
    verdict: Verdict
    as_expected: bool | None
    """null: void or failed, could not be judged"""
    runs: list[Run]
    metrics: list[Metric]
    checks: list[Check]
    """judged over all runs of the arm"""


@form("summary", "summary.json of a run directory")
@dataclass(frozen=True)
class Summary:
    """A whole experiment."""

    verdict: Verdict
    exit_code: Literal[0, 1, 3, 130]
    experiment: str
    bed: str
    hardware: Hardware
    build_id: str | None
    seed: int
    reasons: Sequence[str]
    """why it is not simply `holds`, for people"""
    arms: list[Arm]


def summary_of(value: Mapping[str, Any]) -> Summary:
    """From the JSON of a summary.json. ValueError when it is none."""
    return _reader().validate_python(value)


@cache
def _reader() -> TypeAdapter[Summary]:
    from pydantic import TypeAdapter

    return TypeAdapter(Summary)
