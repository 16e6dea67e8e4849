"""What a fault is: a class that says what it does and needs, how it is undone and proved. Nothing runs here.

Classes are in chaos/faults/kinds, or in a plug-in (docs/howto/add-a-fault.md). A fault on NICs acts in the switch, so
that the host under test keeps its addresses and routes, as it does when a cable is pulled or a switch drops silently;
where nobody lets us into the switch, `inside` names the class that does the same inside the host. One fault takes all
its NICs in one command.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal, Protocol, Self

from chaos.faults.needs import Able
from chaos.faults.spec import FaultSpec
from chaos.faults.steps import Answer, Step

SHORT_S = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.8, 1.2)
Privilege = Literal["root", "CAP_NET_ADMIN", "none"]


class NicLike(Protocol):
    """A NIC of a testbed (docs/reference/contracts.md, Nic)."""

    @property
    def host(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def switch_port(self) -> str: ...


@dataclass(frozen=True)
class Fault(ABC):
    """One reversible way to break something. All its steps are taken at once, each takes milliseconds."""

    Settings: ClassVar[type[FaultSpec]] = FaultSpec
    """An entry of a timeline with this kind."""
    spec: FaultSpec
    nics: tuple[NicLike, ...] = ()
    host: str = ""
    """Where it happens: a rank's host, or the first NIC's."""

    kind: ClassVar[str] = ""
    noun: ClassVar[str] = ""
    """As reports call it: `the ... cost 8 ms`."""
    does: ClassVar[str] = ""
    """In one line, for `r2cc chaos faults`."""
    peer_sees: ClassVar[str] = ""
    example: ClassVar[Mapping[str, Any]] = {}
    """What an entry needs besides its place and, if it is timed, a second."""
    requires: ClassVar[tuple[str, ...]] = ()
    """Programs needed where its commands run."""
    privilege: ClassVar[Privilege] = "CAP_NET_ADMIN"
    """`none`: that of whoever runs the ranks is enough."""
    features: ClassVar[tuple[str, ...]] = ()
    """What else a host must have (chaos/faults/needs.py)."""
    kernel_path_only: ClassVar[bool] = False
    """RDMA does not notice: its packets never pass the kernel."""
    rdma_only: ClassVar[bool] = False
    """Data over sockets does not notice."""
    needs_deadman: ClassVar[bool] = False
    """Never without a dead-man switch that is armed on the host: we cannot undo it ourselves."""
    confirm_s: ClassVar[float] = 0.0
    """How long it may take to take effect, and to be gone, after its command; 0: no longer than any fault."""
    inside_ranks: ClassVar[bool] = False
    """Ranks do it to themselves, when they see that they should: not while they are stopped."""
    stops_ranks: ClassVar[bool] = False
    """While it lasts a rank does nothing at all."""
    drawn: ClassVar[int] = 0
    """How often the soak draws it on a bed that carries it, beside the other kinds; 0: never."""
    drawn_over_rdma: ClassVar[int | None] = None
    """The same over RDMA, where that differs."""
    undrawn: ClassVar[str] = ""
    """Why the soak does not draw it, where a bed carries it and it is not drawn there."""
    drawn_s: ClassVar[tuple[float, ...]] = SHORT_S
    """How long one that the soak draws lasts, in seconds: one of these."""

    @classmethod
    def draw(cls, rng: Random) -> dict[str, Any]:
        """How long, and how bad: what an entry that the soak draws says besides its place and its second."""
        return {**cls.example, **({"duration_s": rng.choice(cls.drawn_s)} if cls.Settings.timed else {})}

    @classmethod
    def inside(cls, spec: Any) -> type[Fault]:
        """The class for NICs without a port of a switch that lets us in. `spec` is one of the kind's Settings."""
        return cls

    @classmethod
    def notes(cls, able: Able) -> list[str]:
        """What is to be known of it on such a host, which can carry it."""
        return []

    def as_example(self) -> Self:
        """As if `facts` had been asked, where commands show what they found."""
        return self

    def facts(self) -> list[Step]:
        """What has to be known before, to be put back exactly as it was."""
        return []

    def knowing(self, answers: Sequence[Answer]) -> Self:
        """The same fault with what `facts` found. Raises ValueError when it cannot be put back."""
        return self

    @abstractmethod
    def inject(self) -> list[Step]: ...

    @abstractmethod
    def revert(self) -> list[Step]:
        """Safe to take any number of times, also when nothing was injected."""

    @abstractmethod
    def probe(self) -> list[Step]: ...

    @abstractmethod
    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        """Whether the fault is in effect; None while some of it is and some is not.

        Raises ValueError when the probe proves nothing.
        """

    def why_not(self, answers: Sequence[Answer]) -> str:
        """What keeps it from taking effect, where the probe can say; for the error."""
        return ""

    def seen(self, answers: Sequence[Answer]) -> Mapping[str, Any]:
        """What else the probe of an active fault found, for the journal."""
        return {}

    @property
    def ports(self) -> list[str]:
        """The switch's; empty names where nobody lets us in."""
        return [nic.switch_port for nic in self.nics]

    @property
    def by_host(self) -> dict[str, list[str]]:
        """NIC names by host, in order."""
        return by_host(self.nics)


def by_host(nics: Sequence[NicLike]) -> dict[str, list[str]]:
    """NIC names by host, in their order."""
    found: dict[str, list[str]] = {}
    for nic in nics:
        found.setdefault(nic.host, []).append(nic.name)
    return found


def agreed(answers: Sequence[bool]) -> bool | None:
    """What all say; None when they differ."""
    return answers[0] if len(set(answers)) == 1 else None


def link_flags(answer: Answer, names: Sequence[str], of: str = "") -> list[Sequence[str]]:
    """Flags of each of these interfaces by `ip -j link`; `of` says whose they are. ValueError: one is missing."""
    links = json_list(answer.stdout) if answer.exit_code == 0 else []
    flags = {link.get("ifname"): link["flags"] for link in links if "flags" in link}
    if missing := [name for name in names if name not in flags]:
        raise ValueError(f"`ip -j link` said nothing about {of}{', '.join(missing)}")
    return [flags[name] for name in names]


def json_list(text: str) -> list[dict[str, Any]]:
    value = json.loads(text or "[]")
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
