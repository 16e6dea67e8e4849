"""What a file of another tool comes to: one `Reading` for each measurement in it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from chaos.analysis.model import Metric

Source = Literal["nccl-tests", "megatron"]


@dataclass(frozen=True)
class Reading:
    """One measurement: a run of the store. `metrics` as in a summary (docs/reference/contracts.md)."""

    source: Source
    metrics: list[Metric]
    completed: bool
    iterations: int
    wrong: int | None = None
    """Elements, or sizes where the tool counts no elements; None when nothing was checked."""
    healthy_ms: float | None = None
    doubt: str = ""
    """What the tool itself says against its results, other than wrong elements."""
    why: str = ""
    """Why it did not end."""
    line: int = 1
    """Where it begins in its file."""
    traits: dict[str, str] = field(default_factory=dict)
    """What tells it from the file's other measurements, such as its test and operation."""
    part: str = ""
    """Words for those of them that differ; measurements with the same words are repeats."""

    @property
    def verdict(self) -> Literal["holds", "deviated", "failed"]:
        return "deviated" if self.wrong or self.doubt else "holds" if self.completed else "failed"

    @property
    def reasons(self) -> list[str]:
        """Why it is not simply `holds`."""
        found = [f"{self.wrong} wrong elements" if self.wrong else "", self.doubt]
        ended = "" if self.completed else f"it did not end{f': {self.why}' if self.why else ''}"
        return [reason for reason in (*found, ended) if reason]


@dataclass(frozen=True)
class Content:
    """A whole file. `notes`: lines that could not be read, and why."""

    readings: list[Reading]
    notes: list[str] = field(default_factory=list)


def metric(name: str, unit: str, value: float, size: int | None = None) -> Metric:
    return Metric(name, unit, size, value, None)


def named(readings: list[Reading], *, within: str = "") -> list[Reading]:
    """With their `part`: what differs among those that are alike in the trait `within`, and that one if it differs."""
    return [replace(reading, part="-".join(_words(reading, readings, within))) for reading in readings]


def _words(reading: Reading, readings: list[Reading], within: str) -> list[str]:
    alike = [each for each in readings if each.traits.get(within) == reading.traits.get(within)]
    return [
        value
        for name, value in reading.traits.items()
        if value and len({each.traits.get(name) for each in (readings if name == within else alike)}) > 1
    ]
