"""One entry of an experiment's timeline, as all kinds of fault have it: what breaks where, when, and for how long.

What a kind adds is in its class (chaos/faults/kinds), as `Settings`; registry.py finds the kind of an entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

from harness.workloads.kinds.workload import SIZE_IN_WORDS, sized

Seconds = Annotated[float, Field(gt=0, le=3600, strict=True, allow_inf_nan=False)]
Percent = Annotated[float, Field(gt=0, le=100, strict=True)]
Milliseconds = Annotated[float, Field(gt=0, le=10_000, strict=True, allow_inf_nan=False)]
FaultId = Annotated[StrictStr, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
NicName = Annotated[StrictStr, Field(pattern=r"^([^:]+|\*):([^:]+|\*)$")]
Where = Literal["nics", "rail", "rank", "host"]
PLACES = ("host", "nic", "nics", "rail", "rank")
PLACE_WORDS: Mapping[Where, str] = {"nics": "host and nic, or nics", "rail": "rail", "rank": "rank", "host": "host"}


CLOCKS = ("iteration", "time_s", "launch_s", "bytes", "collective", "after")
Counted = Annotated[StrictInt, Field(gt=0)]
Sized = Annotated[
    Counted, BeforeValidator(sized, json_schema_input_type=Counted | Annotated[str, Field(pattern=SIZE_IN_WORDS)])
]


class Model(BaseModel):
    """Unknown keys are errors: a mistyped limit must not be a limit that is not there."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class At(Model):
    """When a fault strikes: one of six clocks.

    `fraction` into an `iteration`. Or `time_s` after the first measured iteration began. Or `launch_s` after the ranks
    were started; they may still be connecting. Or once a rank has
    moved so many `bytes`, or begun so many collectives (`collective`): NCCL's profiler interface counts them. Or `ms`
    after another fault was injected or, with `event: reverted`,
    undone.
    """

    iteration: Annotated[StrictInt, Field(ge=0)] | None = None
    fraction: Annotated[float, Field(ge=0, lt=1, strict=True)] | None = None
    time_s: Annotated[float, Field(ge=0, le=86400, strict=True, allow_inf_nan=False)] | None = None
    launch_s: Annotated[float, Field(ge=0, le=3600, strict=True, allow_inf_nan=False)] | None = None
    bytes: Sized | None = None
    collective: Annotated[StrictInt, Field(gt=0)] | None = None
    after: FaultId | None = None
    event: Literal["injected", "reverted"] = "injected"
    ms: Annotated[float, Field(ge=0, le=3_600_000, strict=True, allow_inf_nan=False)] | None = None

    @property
    def counted(self) -> bool:
        """It waits for what NCCL's profiler interface counts."""
        return self.bytes is not None or self.collective is not None

    @model_validator(mode="after")
    def _one_clock(self) -> Self:
        given = [name for name in CLOCKS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                "give one of iteration (with fraction), time_s, launch_s, bytes, collective or after (with ms)"
            )
        if self.iteration is None and self.fraction is not None:
            raise ValueError(f"fraction belongs to iteration, not to {given[0]}")
        if (self.after is None) != (self.ms is None):
            raise ValueError("after and ms belong together")
        return self


class FaultSpec(Model):
    """One entry of the timeline. A kind's `Settings` add fields of their own, and say what differs from this."""

    where: ClassVar[Where] = "nics"
    """What it breaks: NICs (`host` and `nic`, or `nics`), all NICs of a `rail`, a `rank`, or a `host`."""
    timed: ClassVar[bool] = True
    """It needs `duration_s`. False: it has no end, or ends as its settings say."""
    forever: ClassVar[bool] = False
    """Nothing undoes it."""
    repeated: ClassVar[bool] = False
    """It may have several outages (`cycles`)."""
    by_workload: ClassVar[bool] = False
    """The workload does it by itself, and says when (`late` lines)."""
    cuts: ClassVar[bool] = False
    """A NIC carries no data while it lasts, in one direction at least."""
    slows: ClassVar[bool] = False
    """A NIC carries the part `fraction` of its data while it lasts."""

    id: FaultId
    kind: StrictStr
    host: StrictStr = ""
    nic: StrictStr = ""
    nics: tuple[NicName, ...] = ()
    """Several NICs at once, as `h1:eth2`; `*` stands for all hosts or all NICs."""
    rail: Annotated[StrictInt, Field(ge=0)] | None = None
    rank: Annotated[StrictInt, Field(ge=0)] | None = None
    at: At
    duration_s: Seconds | None = None
    allow_total_loss: StrictBool = False
    may_miss: StrictBool = False
    """Right also when no collective was in flight: for long runs that break something all the time."""

    @model_validator(mode="after")
    def _right_words(self) -> Self:
        given = {name for name in PLACES if getattr(self, name) not in (None, "", ())}
        if given not in ({"host", "nic"}, {"nics"}) if self.where == "nics" else given != {self.where}:
            raise ValueError(f"a {self.kind} needs {PLACE_WORDS[self.where]} (and no other place)")
        if self.timed and self.duration_s is None:
            raise ValueError(f"a {self.kind} needs duration_s")
        if not self.timed and self.duration_s is not None:
            more = ": it lasts times x (down_s + up_s)" if self.repeated else ""
            raise ValueError(f"duration_s does not belong to a {self.kind}{more}")
        self.check()
        return self

    def check(self) -> None:
        """What else its own kind asks for. ValueError, which says so."""

    def rank_env(self, rank: int) -> dict[str, str]:
        """What a rank must have in its environment from its start, so that this fault can strike later."""
        return {}

    def libraries(self, rank: int) -> tuple[str, ...]:
        """Which libraries must be preloaded into it from its start: names of files that lie beside the bench."""
        return ()

    def journaled(self) -> dict[str, Any]:
        """What lines of the journal say of it besides its place."""
        return {}

    @property
    def cycles(self) -> list[tuple[float, float]]:
        """Each outage as (begins, ends), in seconds after the fault struck."""
        return [(0.0, self.duration_s or 0.0)]

    @property
    def lasts_s(self) -> float:
        """From the first outage's start to the last one's end."""
        return self.cycles[-1][1]

    def targets(self, hosts: dict[str, list[str]]) -> list[tuple[str, str]]:
        """The (host, NIC) pairs it breaks, of those that exist, in order; empty for what breaks no NIC."""
        if self.rail is not None:
            return [(host, nics[self.rail]) for host, nics in hosts.items() if self.rail < len(nics)]
        if self.where != "nics":
            return []
        wanted = [tuple(name.split(":")) for name in self.nics] or [(self.host, self.nic)]
        found = [
            (host, nic)
            for their_host, their_nic in wanted
            for host in (hosts if their_host == "*" else [their_host])
            for nic in hosts.get(host, ())
            if their_nic in ("*", nic)
        ]
        return list(dict.fromkeys(found))
