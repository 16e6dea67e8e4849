"""One entry of an experiment's timeline: what breaks where, when, and for how long. What it does: faults.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

Positive = Annotated[StrictInt, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0, le=3600, strict=True, allow_inf_nan=False)]
FaultId = Annotated[StrictStr, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
NicName = Annotated[StrictStr, Field(pattern=r"^([^:]+|\*):([^:]+|\*)$")]

Kind = Literal[
    "link_down", "black_hole", "one_way", "loss", "rate", "flap", "rail_down", "address_removed",
    "queue_full", "stop", "kill", "late", "clock_jump", "side_flood", "busy_cores",
    "delay", "corrupt", "nic_gone", "qp_error", "side_channel_lost", "side_channel_late",
    "controller_lost", "tcp_lost", "udp_lost", "big_packets_lost",
]  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """What a kind needs to be told: where (`nics`, `rail`, `rank`, `host`), and which settings of its own."""

    where: Literal["nics", "rail", "rank", "host"]
    settings: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    timed: bool = True
    """False: it has no end (or ends as its settings say)."""


RULES: dict[str, Rule] = {
    "link_down": Rule("nics", (), ("method",)),
    "black_hole": Rule("nics"),
    "one_way": Rule("nics", ("direction",)),
    "loss": Rule("nics", ("percent",)),
    "rate": Rule("nics", ("fraction",), ("rate_gbit", "method")),
    "queue_full": Rule("nics"),
    "flap": Rule("nics", ("times", "down_s", "up_s"), ("method",), timed=False),
    "rail_down": Rule("rail", (), ("method",)),
    "address_removed": Rule("nics"),
    "stop": Rule("rank"),
    "kill": Rule("rank", timed=False),
    "late": Rule("rank"),
    "clock_jump": Rule("rank", ("jump_s",)),
    "side_flood": Rule("host"),
    "busy_cores": Rule("host", (), ("cores",)),
    "delay": Rule("nics", ("delay_ms",)),
    "corrupt": Rule("nics", ("percent",)),
    "nic_gone": Rule("nics", (), ("method",)),
    "qp_error": Rule("nics"),
    "side_channel_lost": Rule("host", (), ("percent",)),
    "side_channel_late": Rule("nics", ("delay_ms",)),
    "controller_lost": Rule("host"),
    "tcp_lost": Rule("nics"),
    "udp_lost": Rule("nics", (), ("management",)),
    "big_packets_lost": Rule("nics", (), ("above_bytes",)),
}
PLACES = ("host", "nic", "nics", "rail", "rank")
SETTINGS = (
    "direction", "percent", "fraction", "times", "down_s", "up_s", "jump_s", "cores", "delay_ms", "rate_gbit", "method",
    "management", "above_bytes",
)  # fmt: skip
METHODS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("link_down", "flap", "rail_down"), ("admin", "port")),
    "rate": ("queue", "vf", "port"),
    "nic_gone": ("pci", "driver"),
}
"""Where a NIC can be broken in several ways on its own host; the first one if nothing is said."""
CUTTING = frozenset(
    {
        *("link_down", "black_hole", "one_way", "flap", "rail_down", "address_removed", "nic_gone"),
        *("tcp_lost", "big_packets_lost"),
    }
)
"""Kinds after which a NIC carries no data, in one direction at least."""
ABOVE_BYTES = 1500
"""Of `big_packets_lost`, where it says nothing else: what passes a switch port that was left at the usual MTU."""


class Model(BaseModel):
    """Unknown keys are errors: a mistyped limit must not be a limit that is not there."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class At(Model):
    """When a fault strikes: one of four clocks.

    `fraction` into an `iteration`; `time_s` after the first measured iteration began; `launch_s` after the ranks were
    started (they may still be connecting); `ms` after another fault was injected or, with `event: reverted`, undone.
    """

    iteration: Annotated[StrictInt, Field(ge=0)] | None = None
    fraction: Annotated[float, Field(ge=0, lt=1, strict=True)] | None = None
    time_s: Annotated[float, Field(ge=0, le=86400, strict=True, allow_inf_nan=False)] | None = None
    launch_s: Annotated[float, Field(ge=0, le=3600, strict=True, allow_inf_nan=False)] | None = None
    after: FaultId | None = None
    event: Literal["injected", "reverted"] = "injected"
    ms: Annotated[float, Field(ge=0, le=3_600_000, strict=True, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _one_clock(self) -> Self:
        given = [name for name in ("iteration", "time_s", "launch_s", "after") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give either iteration (with fraction) or time_s or launch_s or after (with ms), only one")
        if self.iteration is None and self.fraction is not None:
            raise ValueError(f"fraction belongs to iteration, not to {given[0]}")
        if (self.after is None) != (self.ms is None):
            raise ValueError("after and ms belong together")
        return self


class FaultSpec(Model):
    """One entry of the timeline."""

    id: FaultId
    kind: Kind
    host: StrictStr = ""
    nic: StrictStr = ""
    nics: tuple[NicName, ...] = ()
    """Several NICs at once, as `h1:eth2`; `*` stands for all hosts or all NICs."""
    rail: Annotated[StrictInt, Field(ge=0)] | None = None
    rank: Annotated[StrictInt, Field(ge=0)] | None = None
    at: At
    duration_s: Seconds | None = None
    times: Annotated[StrictInt, Field(gt=0, le=10_000)] | None = None
    down_s: Seconds | None = None
    up_s: Seconds | None = None
    percent: Annotated[float, Field(gt=0, le=100, strict=True)] | None = None
    fraction: Annotated[float, Field(gt=0, lt=1, strict=True)] | None = None
    direction: Literal["in", "out"] | None = None
    """`in`: frames to the host are lost; `out`: those from it."""
    jump_s: Annotated[StrictInt, Field(ge=-10_000_000, le=10_000_000)] | None = None
    cores: Annotated[StrictInt, Field(gt=0, le=64)] | None = None
    delay_ms: Annotated[float, Field(gt=0, le=10_000, strict=True, allow_inf_nan=False)] | None = None
    rate_gbit: Annotated[float, Field(gt=0, le=1600, strict=True, allow_inf_nan=False)] | None = None
    """The NIC's full rate, where it does not tell."""
    method: Literal["admin", "port", "queue", "vf", "pci", "driver"] | None = None
    """How, on hosts whose switch nobody lets us into."""
    management: StrictBool | None = None
    """The management network of the same hosts, too."""
    above_bytes: Annotated[StrictInt, Field(ge=576, le=65_000)] | None = None
    """Longer IP packets are lost."""
    allow_total_loss: StrictBool = False
    may_miss: StrictBool = False
    """Right also when no collective was in flight: for long runs that break something all the time."""

    @model_validator(mode="after")
    def _right_words(self) -> Self:
        rule = RULES[self.kind]
        self._check_place(rule)
        lacking = [name for name in rule.settings if getattr(self, name) is None]
        if rule.timed and self.duration_s is None:
            lacking.append("duration_s")
        if lacking:
            raise ValueError(f"a {self.kind} needs {', '.join(lacking)}")
        if not rule.timed and self.duration_s is not None:
            more = ": it lasts times x (down_s + up_s)" if self.kind == "flap" else ""
            raise ValueError(f"duration_s does not belong to a {self.kind}{more}")
        extra = [
            name for name in SETTINGS if getattr(self, name) is not None and name not in rule.settings + rule.optional
        ]
        if extra:
            raise ValueError(f"{', '.join(extra)} do(es) not belong to a {self.kind}")
        if self.method is not None and self.method not in METHODS[self.kind]:
            raise ValueError(f"method of a {self.kind} is one of {', '.join(METHODS[self.kind])}")
        if self.kind == "late" and (self.at.iteration is None or self.at.fraction):
            raise ValueError("a late rank is late at the beginning of an iteration: at: {iteration: n}")
        return self

    def _check_place(self, rule: Rule) -> None:
        given = {name for name in PLACES if getattr(self, name) not in (None, "", ())}
        wanted = {
            "nics": ({"host", "nic"}, {"nics"}),
            "rail": ({"rail"},),
            "rank": ({"rank"},),
            "host": ({"host"},),
        }[rule.where]
        if given not in wanted:
            words = {"nics": "host and nic, or nics", "rail": "rail", "rank": "rank", "host": "host"}[rule.where]
            raise ValueError(f"a {self.kind} needs {words} (and no other place)")

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

    @property
    def forever(self) -> bool:
        """True when nothing undoes it."""
        return self.kind == "kill"

    def targets(self, hosts: dict[str, list[str]]) -> list[tuple[str, str]]:
        """The (host, NIC) pairs it breaks, of those that exist, in order; empty for what breaks no NIC."""
        if self.rail is not None:
            return [(host, nics[self.rail]) for host, nics in hosts.items() if self.rail < len(nics)]
        if RULES[self.kind].where != "nics":
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
