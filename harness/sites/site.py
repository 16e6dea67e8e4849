"""What every site can do: the machines that `--inventory` names, before and after they are opened."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

from harness.hosts.base import Host

if TYPE_CHECKING:
    from harness.lab.remote import Inside
    from harness.lab.topology import Topology
    from harness.sites.listing import ListedHost

LAB_ROOT = "10.250.0.1"
"""The management address of the first lab host and of the first guest (docs/reference/contracts.md)."""


class Nic(Protocol):
    """A NIC that carries data."""

    @property
    def host(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def switch_port(self) -> str:
        """Its far end on the switch; empty where the switch is not ours."""


@dataclass(frozen=True)
class PlannedNic:
    """A NIC as its site names it."""

    host: str
    name: str
    address: str
    switch_port: str = ""


@dataclass(frozen=True)
class Planned:
    """What a site has, or will have. `root` is the address at which ranks meet."""

    hosts: Sequence[str]
    nics: Sequence[Nic]
    root: str


@dataclass(frozen=True)
class Opened:
    """A site whose hosts run commands. `switch` is where cables are cut; None where the switch is not ours."""

    hosts: Mapping[str, Host]
    switch: Host | None
    nics: Sequence[Nic]
    places_file: Path | None = None
    """For R2CC_TOPO_FILE, where the machines themselves cannot show how near their NICs are to each other."""
    warnings: Sequence[str] = ()
    breakers: Mapping[str, Host] | None = None
    """Who breaks the NICs of each host, where that is not the host itself."""


class Site(ABC):
    """What one `--inventory` means. It asks nobody until a method needs an answer.

    A context manager: when its block ends, connections that it keeps are closed.
    """

    bed: str
    """What runs on it are filed under."""
    has_switch: ClassVar[bool] = True
    """Faults can act on the switch's side of a cable."""
    machines: ClassVar[bool] = False
    """Hosts have a kernel of their own."""
    may_have_torch: ClassVar[bool] = True
    """Torch may be installed on its hosts."""
    adopts_topology: bool = False
    """It is made as an experiment wants it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        """As the user wrote it."""
        return self.text

    @abstractmethod
    def planned(self) -> Planned:
        """Its hosts and NICs; nothing is made or started. Hosts over SSH are asked, once."""

    @abstractmethod
    def open(self) -> AbstractContextManager[Opened]:
        """What was made for it is removed when the block ends, however it ends.

        Raises, before anything is started: InputErrors for a wrong file, LabError (exit 3) when this machine cannot
        carry a lab, InfraError for hosts that cannot be reached.
        """

    @abstractmethod
    def listing(self) -> list[ListedHost]:
        """One entry a host, as in hosts.schema.json. Nothing is started and nobody is asked."""

    @contextmanager
    def connected(self, *, to_break: bool = False) -> Iterator[Mapping[str, Host]]:
        """The hosts by name, for commands that need no NICs; or who breaks their NICs. Raises as `open`."""
        with self.open() as opened:
            yield opened.hosts

    def shaped(self, topology: Topology) -> Site:
        """The site as an experiment of this topology wants it."""
        return self

    @property
    def topology(self) -> Topology | None:
        """What a lab is made as; None where hosts are what they are."""
        return None

    def gpus(self) -> int | None:
        """How many each host has; None: nobody says. UsageError when the numbers differ."""
        return 1

    def env(self, net: str) -> dict[str, dict[str, str]]:
        """What ranks need in their environment on each host, where hosts' NICs have names of their own."""
        return {}

    def devices(self, net: str) -> dict[tuple[str, str], str]:
        """The RDMA device of each (host, NIC); empty where there are none, or `net` needs none."""
        return {}

    def inside(self, folder: Path) -> Inside | None:
        """What a launcher needs on hosts that only their own kind reaches; None: they are reached from here.
        `folder`: of the lab that is open."""
        return None

    def hardware(self) -> list[tuple[str, int, int]]:
        """CPU model, cores and memory in bytes of each machine; empty where hosts are part of this machine."""
        return []

    def close(self) -> None:  # noqa: B027 - most keep none
        """Closes connections that are kept from one call to the next. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
