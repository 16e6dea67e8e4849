"""What an experiment is: the pydantic models of its sections. Loading, and what crosses sections: experiment.py."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr

from chaos.fault_spec import At, FaultSpec, Model, Seconds

__all__ = ["MODES", "Arm", "At", "Experiment", "FaultSpec", "Hypothesis", "Model", "Workload"]

MODES = {"stock": 0, "migrate": 1, "balance": 2, "allreduce": 3, "upstream": 0}
"""R2CC_MODE of each arm; `restart` needs more than the beds there are."""
ARM_NAME = " | ".join(MODES)
UPSTREAM = "upstream"
"""NCCL's own port failover: inside a virtual NIC merged of a host's NICs, over IB only."""
MIB = 1024 * 1024

Ratio = Annotated[float, Field(ge=0, le=10, strict=True, allow_inf_nan=False)]
Number = Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)]


class Workload(Model):
    """The host bench and its size; defaults are the demo's."""

    kind: Literal["bench"] = "bench"
    op: Literal["allreduce", "stream", "alltoall"] = "allreduce"
    net: Literal["socket", "ib"] = "socket"
    """`ib` needs a bed with RDMA devices: --inventory vm."""
    bytes: Annotated[StrictInt, Field(ge=4, le=16 * 1024 * MIB, multiple_of=4)] = 64 * MIB
    iterations: Annotated[StrictInt, Field(gt=0, le=1_000_000)] = 40
    warmup: Annotated[StrictInt, Field(ge=0, le=1000)] = 2
    channels: Annotated[StrictInt, Field(gt=0, le=64)] = 4
    chunk_bytes: Annotated[StrictInt, Field(ge=4, le=64 * MIB, multiple_of=4)] = 128 * 1024
    slots: Annotated[StrictInt, Field(gt=0, le=32)] = 8
    connections_per_peer: Annotated[StrictInt, Field(gt=0, le=16)] = 1
    timeout_s: Seconds = 120.0
    idle_us: Annotated[StrictInt, Field(ge=0, le=100_000)] = 200
    """How long a rank sleeps when nothing moved; longer for emulated machines."""
    seconds: Annotated[StrictInt, Field(ge=0, le=86400)] = 0
    """Not 0: iterations end after so many seconds, or when `iterations` are done, whichever is first."""
    corrupt_carrier: Annotated[StrictStr, Field(pattern=r"^\d+:[^:/]+:[1-9]\d*$")] | None = None
    """Self-test of tools: RANK:NIC:LOSSES flips one bit once that NIC has lost its carrier so often."""


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
    failovers_max: Annotated[StrictInt, Field(ge=0)] | None = None
    returned: StrictBool | None = None
    error_within_ms: Number | None = None
    error_mentions: tuple[StrictStr, ...] = ()
    healthy_ratio_max: Number | None = None
    memory_over_stock_bytes_max: Annotated[StrictInt, Field(ge=0)] | None = None


class Arm(Model):
    """One configuration to compare; `hypothesis` overrides single entries of the experiment's."""

    expect: Literal["holds", "deviates", "any"]
    hypothesis: dict[str, Any] = Field(default_factory=dict)
    env: dict[Annotated[str, Field(pattern=r"^(R2CC|NCCL)_[A-Z0-9_]+$")], StrictStr] = Field(default_factory=dict)


class Experiment(Model):
    """A whole experiment, checked; see docs/experiments.md for the file's form."""

    name: Annotated[StrictStr, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    description: StrictStr = ""
    topology: Any
    """As written in the file: inline mapping, or a path made absolute."""
    workload: Workload
    faults: tuple[FaultSpec, ...] = ()
    hypothesis: Hypothesis = Hypothesis()
    arms: dict[Literal["stock", "migrate", "balance", "allreduce", "upstream"], Arm]
    repeats: Annotated[StrictInt, Field(gt=0, le=1000)] = 1
    seed: Annotated[StrictInt, Field(ge=0, lt=2**32)] = 1

    def hypothesis_of(self, arm: str) -> Hypothesis:
        """The experiment's hypothesis with what the arm says differently."""
        own = next((spec.hypothesis for name, spec in self.arms.items() if name == arm), {})
        return Hypothesis.model_validate({**self.hypothesis.model_dump(), **own})

    def resolved(self) -> dict[str, Any]:
        """Everything with defaults filled in, as written to a run directory's experiment.yaml."""
        return self.model_dump(mode="json", exclude_none=True)
