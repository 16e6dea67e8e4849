"""What `r2cc lab` prints."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.lab.lab import Nic
from harness.schemas.form import Count, form, left_out


@form("lab_up", "r2cc lab up")
@dataclass(frozen=True)
class LabUp:
    """A lab that was made."""

    name: str
    ttl_s: float
    hosts: Sequence[str]
    nics: Sequence[Nic]
    warnings: Sequence[str]
    inventory: str | None = left_out()
    """with --ssh: the file"""


@form("lab_down", "r2cc lab down")
@dataclass(frozen=True)
class LabDown:
    """A lab that is no more."""

    lab: str
    was_up: bool


@dataclass(frozen=True)
class LivingLab:
    hosts: Count
    nics: Count
    rate_gbit: float | None
    mtu: int | None
    name: str
    keeper_pid: int
    init_pid: int | None
    owner_pid: int | None
    warnings: Sequence[str]
    kind: Literal["namespace", "vm", "uml"]
    left_s: int | None
    """null: as long as its owner lives"""

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> LivingLab:
        """From the state that its keeper wrote."""
        expires_at = state["expires_at"]
        return cls(
            **{key: state["topology"][key] for key in ("hosts", "nics", "rate_gbit", "mtu")},
            **{key: state[key] for key in ("name", "keeper_pid", "init_pid", "owner_pid", "warnings")},
            kind=state.get("kind", "namespace"),
            left_s=None if expires_at is None else max(0, round(expires_at - time.time())),
        )

    def text(self) -> str:
        what = f"guests x {self.nics} NICs with soft-RoCE"
        if self.kind == "namespace":
            what = f"hosts x {self.nics} NICs x {self.rate_gbit:g} Gbit/s"
        shape = f"{self.name}: {self.hosts} {what}, mtu {self.mtu}, up "
        owner = f"until its owner, pid {self.owner_pid}, ends"
        return shape + (f"for {self.left_s} s more" if self.owner_pid is None else owner)


@form("lab_status", "r2cc lab status")
@dataclass(frozen=True)
class LabStatus:
    """The labs that are up."""

    labs: Sequence[LivingLab]
