"""One repeat of one arm, before it starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from chaos.experiment.model import Limits
from chaos.experiment.planned import PlannedFault
from chaos.testbed.launch import DIRECT, Launch
from harness.hosts.clock import Offset
from harness.launch.job import Job
from harness.workloads.reading.lines import JsonLines, LineReader


@dataclass(frozen=True)
class Foreign:
    """What is to be known of a program that is not ours. `token`: by which its processes and its folder are found."""

    token: str
    start_s: float
    digest: str | None = None


def json_lines(_rank: int) -> LineReader:
    return JsonLines()


@dataclass(frozen=True)
class Plan:
    """Everything of one repeat that is known before it starts."""

    arm: str
    run: int
    ranks: Sequence[Launch]
    samplers: Sequence[Launch]
    faults: Sequence[PlannedFault]
    clocks: Mapping[str, Offset] = field(default_factory=dict)
    """Of hosts whose clock is not ours."""
    limits: Limits = field(default_factory=Limits)
    launcher: str = DIRECT
    job: Job | None = None
    """The ranks as a launcher starts them; None: each is started by us."""
    reader: Callable[[int], LineReader] = json_lines
    """What reads the lines of a rank."""
    foreign: Foreign | None = None
    """Of a program that is not ours."""
