"""What a simulation's file may hold: the pydantic models of its sections. Reading it: experiment.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

from chaos.simulate.faults.trace import Kind, What
from chaos.simulate.serving import llms, load
from chaos.simulate.training import models
from harness.errors import UsageError

LEAST_BLOCK, MOST_CELLS = 10, 64


def _one_of(look: Callable[[str], object]) -> AfterValidator:
    """A name that `look` knows."""

    def check(name: str) -> str:
        try:
            look(name)
        except UsageError as error:
            raise ValueError(str(error).replace("\n  try: ", "; ")) from error
        return name

    return AfterValidator(check)


Real = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[StrictInt, Field(gt=0)]
Name = Annotated[StrictStr, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
ArmName = Literal[
    "stock", "upstream", "exclusion", "kv_replication", "migrate", "balance", "allreduce", "optcc", "published"
]
Trained = Annotated[StrictStr, _one_of(models.model)]
Served = Annotated[StrictStr, _one_of(llms.llm)]
Mix = Annotated[StrictStr, _one_of(load.mix)]
At = dict[StrictStr, Any]


class Section(BaseModel):
    """Strict about keys, so that a typo is an error and not a default."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Collective(Section):
    """One collective, over and over. `hit`: a fault in the middle of it, instead of one that was there before."""

    kind: Literal["collective"] = "collective"
    op: Literal["allreduce", "reducescatter", "allgather"] = "allreduce"
    bytes: Count
    ranks_per_node: Count = 1
    groups: Count = 1
    hit_at: Share | None = None


class LayoutSection(Section):
    """Of a model over GPUs. Left out: the model's own published layout; `dp` is whatever the others leave."""

    tp: Count | None = None
    pp: Count | None = None
    dp: Count | None = None
    batch: Count | None = None
    micro_batch: Count = 1
    interleave: Count | None = None


class Training(Section):
    """Iterations of one model."""

    kind: Literal["training"] = "training"
    model: Trained
    layout: LayoutSection = LayoutSection()
    sync: Literal["allreduce", "sharded"] = "allreduce"


class Job(Section):
    """The same for days, with checkpoints. `spares`: hosts that stand in for broken ones."""

    kind: Literal["job"] = "job"
    model: Trained
    layout: LayoutSection = LayoutSection()
    spares: Annotated[StrictInt, Field(ge=0)] = 2
    checkpoint_interval_s: Positive | None = None
    checkpoint_write_s: Annotated[float, Field(ge=0)] | None = None


class LengthSection(Section):
    """Tokens: log-normal, from 1 to `most`."""

    median: Positive
    sigma: Annotated[float, Field(ge=0, le=5)] = 0.0
    most: Count = 8192


class Serving(Section):
    """Requests to copies of a model. `mix`: published lengths of prompts and outputs, unless these are given."""

    kind: Literal["serving"] = "serving"
    model: Served
    tp: Count = 8
    pp: Count = 1
    instances: Count = 1
    prefills: Annotated[StrictInt, Field(ge=0)] = 0
    requests: Count = 10_000
    rate: Positive = 1.0
    """Requests a second, all instances together."""
    mix: Mix = "conversation"
    prompt: LengthSection | None = None
    output: LengthSection | None = None
    max_batch: Count = 256
    budget: Count = 2048
    queue: Count | None = None
    slo_ttft_ms: Positive = 2000.0
    slo_tpot_ms: Positive = 100.0


class FaultEntry(Section):
    """One fault of a list; its fields are those of a trace's lines."""

    t_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    duration_s: Positive | None = None
    """None: until the end."""
    kind: Kind = "cut"
    what: What = "nic"
    where: tuple[Annotated[StrictInt, Field(ge=0)], ...]
    factor: Annotated[float, Field(ge=0, lt=1)] = 0.0
    silent: StrictBool = False
    """Nobody is told, as with a black hole."""


class Faults(Section):
    """At most one of `rates`, `trace`, `list` and `failed_nics`; none of them: nothing fails."""

    rates: Literal["published"] | dict[StrictStr, Any] | None = None
    trace: StrictStr | None = None
    listed: Annotated[tuple[FaultEntry, ...] | None, Field(alias="list")] = None
    failed_nics: Annotated[StrictInt, Field(ge=0)] | None = None
    spread: Literal["any", "hosts", "one_host"] = "any"
    """Of `failed_nics`: anywhere, each on a host of its own, or all on one."""
    days: Positive = 30.0
    traces: Annotated[StrictInt, Field(gt=0, le=1_000_000)] = 1
    block: Count | None = None
    """Traces of a cell. None: a 64th of them, but ten at least."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        named = {"rates": self.rates, "trace": self.trace, "list": self.listed, "failed_nics": self.failed_nics}
        given = [name for name, value in named.items() if value is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} exclude each other")
        if self.traces > 1 and given in ([], ["trace"], ["list"]):
            raise ValueError("traces differ only where they are drawn: with rates or failed_nics")
        return self

    @property
    def block_size(self) -> int:
        return self.block or max(LEAST_BLOCK, -(-self.traces // MOST_CELLS))


class Reference(Section):
    """A published figure to show ours beside. With `within`, ours must be as close as that (a share of it)."""

    at: At = Field(default_factory=dict)
    arm: StrictStr
    figure: StrictStr
    value: Real
    source: StrictStr
    relation: Literal["equals", "at_most", "at_least"] = "equals"
    within: Annotated[float, Field(ge=0)] | None = None
    note: StrictStr = ""


class Expect(Section):
    """What must hold of a figure, at every point that `at` fits."""

    at: At = Field(default_factory=dict)
    arm: StrictStr
    figure: StrictStr
    min: Real | None = None
    max: Real | None = None

    @model_validator(mode="after")
    def _a_limit(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("min or max is needed")
        return self


class Ratio(Section):
    """A figure made of two arms' figures: `figure` of `arm` over that of `over`."""

    name: Name
    figure: StrictStr
    arm: ArmName
    over: ArmName


class Header(Section):
    """The keys of a file, but for what others check: topology, workload and axes."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    name: Name
    title: StrictStr = ""
    topology: Any
    workload: Any
    faults: Faults = Faults()
    arms: Annotated[tuple[ArmName, ...], Field(min_length=1)]
    axes: dict[StrictStr, Any] = Field(default_factory=dict)
    params: dict[StrictStr, Any] = Field(default_factory=dict)
    seed: Annotated[StrictInt, Field(ge=0, lt=2**32)] = 1
    keep_traces: StrictBool = False
    """Write the traces into the run directory, too."""
    ratios: tuple[Ratio, ...] = ()
    references: tuple[Reference, ...] = ()
    expect: tuple[Expect, ...] = ()
    draw: tuple[StrictStr, ...] = ()
    """Which figures the report draws; those of the workload's own choice when empty."""
