"""What an experiment is: the pydantic models of its sections. Loading, and what crosses sections: experiment.py."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr

from chaos.faults.registry import AnyFault
from chaos.faults.spec import Model
from harness.workloads.kinds.registry import AnyWorkload

MODES = {"stock": 0, "migrate": 1, "balance": 2, "allreduce": 3, "upstream": 0, "restart": 0}
"""R2CC_MODE of each arm."""
ARM_NAME = " | ".join(MODES)
UPSTREAM = "upstream"
"""NCCL's own port failover: inside a virtual NIC merged of a host's NICs, over IB only."""
RESTART = "restart"
"""What a job without R2CC does: it ends, starts again on the NICs that work, and goes on from its last checkpoint."""

Ratio = Annotated[float, Field(ge=0, le=10, strict=True, allow_inf_nan=False)]
Number = Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)]


class Hypothesis(Model):
    """What should hold. Figures left out are reported, not judged."""

    exact: StrictBool = True
    completes: StrictBool = True
    stall_ms_max: Number | None = None
    iteration_within_bound: Ratio | None = None
    iteration_beyond_ms_max: Number | None = None
    """Of stock and `restart`, too: beyond what `balance` could do."""
    degraded_within_bound: Ratio | None = None
    return_ms_max: Number | None = None
    after_within_healthy: Ratio | None = None
    undisturbed_within: Ratio | None = None
    failovers_max: Annotated[StrictInt, Field(ge=0)] | None = None
    shared_out_max: Annotated[StrictInt, Field(ge=0)] | None = None
    longest_ms_max: Number | None = None
    """The longest iteration while a fault lasts, and a second more."""
    longest_within_healthy: Ratio | None = None
    """The same, over the healthy median: 0.1 allows 10 % more."""
    returned: StrictBool | None = None
    error_within_ms: Number | None = None
    error_mentions: tuple[StrictStr, ...] = ()
    healthy_ratio_max: Number | None = None
    identical: StrictBool | None = None
    """Every iteration's `result` is bit by bit that of the stock arm, fault or not."""
    results_from: Annotated[StrictInt, Field(ge=1)] | None = None
    """So many ranks at least leave a result (`workload.result.digest`), and all of them the same: those that go on."""
    memory_over_stock_bytes_max: Annotated[StrictInt, Field(ge=0)] | None = None
    failed_requests_max: Annotated[StrictInt, Field(ge=0)] | None = None
    """Of `kind: inference`: requests that got no whole answer. With more than 0, say `completes: false`, too."""
    longest_gap_ms_max: Number | None = None
    """Of servers: the longest time between two tokens of a stream, and without a token of any stream."""
    times: Literal["each", "median"] = "each"
    """Whether each repeat keeps to the limits in ms, or the median of those that are not void: on a machine that is not
    ours alone, a thread waits for a core now and then."""


class Limits(Model):
    """How much may be broken at once on hosts that are not ours alone (docs/internals/dead-man-switch.md)."""

    hosts: Annotated[StrictInt, Field(gt=0)] | None = None
    """None: half of them."""
    nics: Annotated[StrictInt, Field(gt=0)] | None = None
    """Of each host. None: all data NICs but one."""


class Arm(Model):
    """One configuration to compare; `hypothesis` overrides single entries of the experiment's."""

    expect: Literal["holds", "deviates", "any"]
    hypothesis: dict[str, Any] = Field(default_factory=dict)
    env: dict[Annotated[str, Field(pattern=r"^(R2CC|NCCL)_[A-Z0-9_]+$")], StrictStr] = Field(default_factory=dict)


class Experiment(Model):
    """A whole experiment, checked; see docs/reference/experiment.md for the file's form."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    """Of the file: a later one may have another form."""
    name: Annotated[StrictStr, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    description: StrictStr = ""
    topology: Any
    """As written in the file: inline mapping, or a path made absolute."""
    workload: AnyWorkload
    """By its `kind` (harness/workloads/kinds/registry.py)."""
    faults: tuple[AnyFault, ...] = ()
    """Each by its `kind` (chaos/faults/registry.py)."""
    hypothesis: Hypothesis = Hypothesis()
    limits: Limits = Limits()
    arms: dict[Literal["stock", "migrate", "balance", "allreduce", "upstream", "restart"], Arm]
    repeats: Annotated[StrictInt, Field(gt=0, le=1000)] = 1
    seed: Annotated[StrictInt, Field(ge=0, lt=2**32)] = 1

    def hypothesis_of(self, arm: str) -> Hypothesis:
        """The experiment's hypothesis with what the arm says differently."""
        own = next((spec.hypothesis for name, spec in self.arms.items() if name == arm), {})
        return Hypothesis.model_validate({**self.hypothesis.model_dump(), **own})

    def resolved(self) -> dict[str, Any]:
        """Everything with defaults filled in, as written to a run directory's experiment.yaml."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
