"""What an experiment is: the pydantic models of its sections. Loading, and what crosses sections: experiment.py."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

MODES = {"stock": 0, "migrate": 1, "balance": 2, "allreduce": 3}
"""R2CC_MODE of each arm that a bed without RDMA offers; `upstream` and `restart` need more than this lab."""
ARM_NAME = "stock | migrate | balance | allreduce"
MIB = 1024 * 1024

Positive = Annotated[StrictInt, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0, le=3600, strict=True, allow_inf_nan=False)]
Ratio = Annotated[float, Field(ge=0, le=10, strict=True, allow_inf_nan=False)]
Number = Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)]


class Model(BaseModel):
    """Unknown keys are errors: a mistyped limit must not be a limit that is not there."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Workload(Model):
    """The host bench and its size; defaults are the demo's."""

    kind: Literal["bench"] = "bench"
    op: Literal["allreduce", "stream", "alltoall"] = "allreduce"
    bytes: Annotated[StrictInt, Field(ge=4, le=16 * 1024 * MIB, multiple_of=4)] = 64 * MIB
    iterations: Annotated[StrictInt, Field(gt=0, le=1_000_000)] = 40
    warmup: Annotated[StrictInt, Field(ge=0, le=1000)] = 2
    channels: Annotated[StrictInt, Field(gt=0, le=64)] = 4
    chunk_bytes: Annotated[StrictInt, Field(ge=4, le=64 * MIB, multiple_of=4)] = 128 * 1024
    slots: Annotated[StrictInt, Field(gt=0, le=32)] = 8
    connections_per_peer: Annotated[StrictInt, Field(gt=0, le=16)] = 1
    timeout_s: Seconds = 120.0


class At(Model):
    """When a fault strikes: `fraction` into an iteration, or `time_s` after the first measured iteration began."""

    iteration: Annotated[StrictInt, Field(ge=0)] | None = None
    fraction: Annotated[float, Field(ge=0, lt=1, strict=True)] | None = None
    time_s: Annotated[float, Field(ge=0, le=86400, strict=True, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _one_clock(self) -> Self:
        if (self.iteration is None) == (self.time_s is None):
            raise ValueError("give either iteration (with fraction) or time_s, and not both")
        if self.time_s is not None and self.fraction is not None:
            raise ValueError("fraction belongs to iteration, not to time_s")
        return self


class FaultSpec(Model):
    """One entry of the timeline."""

    id: Annotated[StrictStr, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
    kind: Literal["link_down", "black_hole", "flap"]
    host: StrictStr
    nic: StrictStr
    at: At
    duration_s: Seconds | None = None
    times: Annotated[StrictInt, Field(gt=0, le=10_000)] | None = None
    down_s: Seconds | None = None
    up_s: Seconds | None = None
    allow_total_loss: StrictBool = False

    @model_validator(mode="after")
    def _own_times(self) -> Self:
        flap = {"times": self.times, "down_s": self.down_s, "up_s": self.up_s}
        if self.kind == "flap":
            lacking = [name for name, value in flap.items() if value is None]
            if lacking:
                raise ValueError(f"a flap needs {', '.join(lacking)}")
            if self.duration_s is not None:
                raise ValueError("a flap lasts times x (down_s + up_s); duration_s does not belong here")
            return self
        if self.duration_s is None:
            raise ValueError(f"a {self.kind} needs duration_s")
        extra = [name for name, value in flap.items() if value is not None]
        if extra:
            raise ValueError(f"{', '.join(extra)} belong to a flap, not to a {self.kind}")
        return self

    @property
    def cycles(self) -> list[tuple[float, float]]:
        """Each outage as (begins, ends), in seconds after the fault struck."""
        if self.kind != "flap":
            return [(0.0, self.duration_s or 0.0)]
        down_s, period_s = self.down_s or 0.0, (self.down_s or 0.0) + (self.up_s or 0.0)
        return [(cycle * period_s, cycle * period_s + down_s) for cycle in range(self.times or 0)]

    @property
    def lasts_s(self) -> float:
        """From the first outage's start to the last one's end."""
        return self.cycles[-1][1]


class Hypothesis(Model):
    """What should hold. Figures left out are reported, not judged."""

    exact: StrictBool = True
    completes: StrictBool = True
    stall_ms_max: Number | None = None
    iteration_within_bound: Ratio | None = None
    degraded_within_bound: Ratio | None = None
    return_ms_max: Number | None = None
    after_within_healthy: Ratio | None = None
    undisturbed_within: Ratio | None = None
    healthy_ratio_max: Number | None = None
    memory_over_stock_bytes_max: Annotated[StrictInt, Field(ge=0)] | None = None


class Arm(Model):
    """One configuration to compare; `hypothesis` overrides single entries of the experiment's."""

    expect: Literal["holds", "deviates", "any"]
    hypothesis: dict[str, Any] = {}
    env: dict[Annotated[str, Field(pattern=r"^(R2CC|NCCL)_[A-Z0-9_]+$")], StrictStr] = {}


class Experiment(Model):
    """A whole experiment, checked; see docs/experiments.md for the file's form."""

    name: Annotated[StrictStr, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    description: StrictStr = ""
    topology: Any
    """As written in the file: inline mapping, or a path made absolute."""
    workload: Workload
    faults: tuple[FaultSpec, ...] = ()
    hypothesis: Hypothesis = Hypothesis()
    arms: dict[Literal["stock", "migrate", "balance", "allreduce"], Arm]
    repeats: Annotated[StrictInt, Field(gt=0, le=1000)] = 1
    seed: Annotated[StrictInt, Field(ge=0, lt=2**32)] = 1

    def hypothesis_of(self, arm: str) -> Hypothesis:
        """The experiment's hypothesis with what the arm says differently."""
        own = next((spec.hypothesis for name, spec in self.arms.items() if name == arm), {})
        return Hypothesis.model_validate({**self.hypothesis.model_dump(), **own})

    def resolved(self) -> dict[str, Any]:
        """Everything with defaults filled in, as written to a run directory's experiment.yaml."""
        return self.model_dump(mode="json", exclude_none=True)
