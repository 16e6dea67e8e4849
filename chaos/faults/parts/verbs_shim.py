"""Faults of RDMA devices from inside the ranks: what their rules have in common, whatever they do."""

from __future__ import annotations

import ipaddress
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, StrictInt, StrictStr

from chaos.faults.fault import NicLike
from chaos.faults.parts import rdma
from chaos.faults.parts.shim import ShimFault, ShimSpec, line
from chaos.faults.steps import Answer, Step

Count = Annotated[StrictInt, Field(ge=1, le=1_000_000_000)]


class CompletionSpec(ShimSpec):
    """Which completions of the device's queue pairs, or which calls for them."""

    qp: Annotated[StrictInt, Field(ge=0, le=0xFFFFFF)] | None = None
    """Only the queue pair of this number."""
    peer: StrictStr | None = None
    """Only queue pairs whose other end has this address (RoCE) or GID."""
    opcode: Literal["send", "rdma_write", "rdma_read", "recv", "recv_rdma_with_imm"] | None = None
    """Only completions of this kind. NCCL's data is sent by `rdma_write` and received by `recv_rdma_with_imm`."""
    skip: Count | None = None
    """So many in each rank that match are left alone first."""
    times: Count | None = None
    """At most so many in each rank."""

    def check(self) -> None:
        if self.peer is not None:
            ipaddress.ip_address(self.peer)

    def choice(self) -> dict[str, object]:
        """The same as settings of a rule."""
        return {name: getattr(self, name) for name in ("qp", "peer", "opcode", "skip", "times")}


@dataclass(frozen=True)
class VerbsFault(ShimFault):
    """A NIC is known by its RDMA device, which its host is asked for."""

    spec: Any
    devices: tuple[tuple[str, tuple[str, ...]], ...] = ()
    features = ("rdma",)
    rdma_only = True
    action: ClassVar[str] = ""
    draws: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    """What the soak draws from, over RDMA alone."""

    @classmethod
    def draw(cls, rng: Random) -> dict[str, Any]:
        return {"duration_s": rng.choice(cls.drawn_s), **rng.choice(cls.draws)}

    def facts(self) -> list[Step]:
        return rdma.questions(self.by_host)

    def knowing(self, answers: Sequence[Answer]) -> Self:
        return replace(self, devices=tuple(rdma.devices(self.by_host, answers).items()))

    def known_as(self, nic: NicLike) -> str:
        found = dict(self.devices).get(nic.host)
        return found[self.by_host[nic.host].index(nic.name)] if found else "DEVICE"

    def rule(self, nic: NicLike) -> str:
        return line("verbs", self.known_as(nic), self.rule_action(), self.rule_settings())

    def rule_action(self) -> str:
        return self.action

    @abstractmethod
    def rule_settings(self) -> Mapping[str, object]:
        """What stands behind the action."""
