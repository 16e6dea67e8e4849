"""The JSON of this folder: what its commands print, and what it writes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from harness.schemas.forms import Count, Forms


class IterationMs(TypedDict):
    median: float
    max: float


class Job(TypedDict):
    schema: Literal[1]
    workload: str
    launcher: Literal["ssh", "mpirun", "srun", "torchrun"]
    mode: Annotated[int, Field(ge=0, le=3)]
    hosts: dict[str, Count]
    """ranks of each"""
    exit_code: Literal[0, 1, 2, 3, 130]
    reason: str
    completed: NotRequired[bool]
    iterations: NotRequired[Count]
    wrong_elements: NotRequired[Count]
    iteration_ms: NotRequired[IterationMs | None]
    busbw_GBps: NotRequired[float | None]
    loss: NotRequired[float | None]
    ttft_ms: NotRequired[float | None]


class Command(TypedDict):
    host: str
    """empty: this machine"""
    shown: str
    argv: list[str]
    env: dict[str, str | None]
    """null: a value that may be a secret"""


class JobPlan(TypedDict):
    schema: Literal[1]
    launcher: str
    """empty: the program itself"""
    commands: list[Command]
    files: dict[str, str]


class Row(TypedDict):
    size_bytes: Count
    count: Count
    type: str
    redop: str
    root: int
    time_us: float | None
    algbw_GBps: float | None
    busbw_GBps: float | None
    wrong: int | None
    """null: not looked at"""
    in_place: bool
    times_us: list[float]
    error: NotRequired[float | None]
    """the largest relative deviation, which older programs print instead of `wrong`"""


class NcclTests(TypedDict):
    schema: Literal[1]
    exit_code: Literal[0, 1, 2, 3, 130]
    reason: str
    rows: list[Row]
    complete: NotRequired[bool]
    nccl_version: NotRequired[int | None]
    ranks: NotRequired[Count]
    wrong_rows: NotRequired[int | None]
    config: NotRequired[dict[str, Any]]
    errors: NotRequired[list[str]]


SCHEMAS: Forms = {
    "job": ("r2cc run bench, collectives, ddp, megatron, decode", Job),
    "job_plan": ("r2cc run WORKLOAD --dry-run: what would be started, and the files that it needs", JobPlan),
    "nccl_tests": ("r2cc run nccl-tests", NcclTests),
}
