"""TCP connections that fail from inside the process: for sockets, where nothing of the network may be broken."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, StrictInt, StrictStr

from chaos.faults.fault import NicLike
from chaos.faults.parts.shim import LIBRARY, ShimFault, ShimSpec, line
from chaos.faults.steps import Answer

Port = Annotated[StrictInt, Field(ge=1, le=65535)]
OWN_SETTING = {"slow": "rate_mbit", "short_reads": "bytes"}
DRAWN: tuple[Mapping[str, Any], ...] = (
    {"action": "reset"},
    {"action": "reset", "times": 1},
    {"action": "silent"},
    {"action": "silent", "times": 1},
    *({"action": "slow", "rate_mbit": rate} for rate in (100.0, 10.0, 1.0)),
    *({"action": "short_reads", "bytes": count} for count in (10_000, 1000, 100)),
)
"""What the soak draws from: of a NIC all connections, or one of each rank."""


@dataclass(frozen=True)
class SocketError(ShimFault):
    """Connections of a NIC, all of them or those with a peer or a port, by what the process itself can do to them."""

    class Settings(ShimSpec):
        action: Literal["reset", "silent", "slow", "short_reads"]
        """`reset`: both ends get an RST, new connections, too. `silent`: nothing that comes is taken, acknowledgements
        included, so that sending stands still; it goes on afterwards. `slow`: each connection sends no more than
        `rate_mbit`. `short_reads`: a call moves no more than `bytes`."""
        peer: StrictStr | None = None
        """Only connections with this address at the other end."""
        ports: tuple[Port, Port] | None = None
        """Only connections with a port from the first to the second, at either end."""
        times: Annotated[StrictInt, Field(ge=1, le=1_000_000)] | None = None
        """At most so many connections of each rank."""
        rate_mbit: Annotated[float, Field(ge=0.001, le=1_000_000, strict=True)] | None = None
        bytes: Annotated[StrictInt, Field(ge=1, le=1 << 30)] | None = None

        def check(self) -> None:
            for action, setting in OWN_SETTING.items():
                if (self.action == action) != (getattr(self, setting) is not None):
                    word = "needs" if self.action == action else "has no"
                    raise ValueError(f"a socket_error with action: {self.action} {word} {setting}")
            if self.peer is not None:
                ipaddress.ip_address(self.peer)
            if self.ports is not None and self.ports[0] > self.ports[1]:
                raise ValueError("ports are the lowest and the highest")

        def journaled(self) -> dict[str, Any]:
            return {"action": self.action}

    spec: Settings
    kind = "socket_error"
    noun = "socket error"
    does = f"breaks TCP connections of the NIC inside the ranks, without root ({LIBRARY})"
    peer_sees = "reset: connections reset; silent, slow: silence or a low rate, while UDP passes; RDMA: nothing at all"
    example: ClassVar[Mapping[str, Any]] = {"action": "reset"}
    kernel_path_only = True
    drawn = 6
    drawn_over_rdma = 0
    undrawn = "over RDMA no data is in a TCP connection: it would strike nothing"

    @classmethod
    def draw(cls, rng: Random) -> dict[str, Any]:
        return {**super().draw(rng), **rng.choice(DRAWN)}

    def knowing(self, answers: Sequence[Answer]) -> Self:
        for nic in self.nics:
            if not nic.address:
                raise ValueError(f"{nic.host} {nic.name} has no address, by which its connections are known")
        return self

    def known_as(self, nic: NicLike) -> str:
        return nic.address

    def rule(self, nic: NicLike) -> str:
        spec = self.spec
        settings = {
            "peer": spec.peer,
            "ports": None if spec.ports is None else f"{spec.ports[0]}-{spec.ports[1]}",
            "times": spec.times,
            "rate_Bps": None if spec.rate_mbit is None else round(spec.rate_mbit * 1e6 / 8),
            "bytes": spec.bytes,
        }
        return line("socket", self.known_as(nic), spec.action, settings)
