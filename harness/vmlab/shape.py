"""How many guests and NICs, and what everything is called and numbered. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self, get_args

from harness.errors import UsageError

MGMT_NIC = "mgmt0"
MGMT_NET = 250
SSH_NIC = "ssh0"
SSH_NET = 251
"""A network of QEMU's own, one for each guest: nothing but our connections to its sshd passes."""
DEVICE_PREFIX = "nic-"
MAX_CPUS = 4
"""Processors of a guest, at most: emulation gains nothing from more than the threads of a rank and its kernel's."""

Engine = Literal["vm", "uml"]
"""What runs a guest: QEMU, which emulates a machine, or User Mode Linux, a kernel that is a process."""
ENGINES: tuple[Engine, ...] = get_args(Engine)


@dataclass(frozen=True)
class Shape:
    """What a vm lab is asked to be."""

    hosts: int = 2
    nics: int = 4
    mtu: int = 9000
    memory_mb: int = 1024
    cpus: int = 1
    ssh: bool = False
    """Whether guests have an SSH server that this machine reaches."""
    engine: Engine = "vm"

    def __post_init__(self) -> None:
        if self.engine == "uml" and self.ssh:
            raise UsageError("guests of User Mode Linux have no network to this machine for SSH", "use --kind vm --ssh")

    @classmethod
    def fitting(cls, cores: int, *, hosts: int = 2, nics: int = 4, engine: Engine = "vm", ssh: bool = False) -> Self:
        """On a machine of `cores`: all but the wire's are shared out to the guests, at least one to each. A guest of
        User Mode Linux has one. UsageError for what that kind of guest has not."""
        cpus = 1 if engine == "uml" else max(1, min(MAX_CPUS, (cores - 1) // hosts))
        return cls(hosts=hosts, nics=nics, cpus=cpus, engine=engine, ssh=ssh)

    def host_names(self) -> list[str]:
        return [f"h{index}" for index in range(self.hosts)]

    def ports(self) -> list[WirePort]:
        """Every NIC of every guest, a guest's management NIC last, as QEMU gets them."""
        return [port for index in range(self.hosts) for port in self.ports_of(index)]

    def ports_of(self, index: int) -> list[WirePort]:
        data = [WirePort(index, f"eth{rail}", rail, f"10.{rail + 1}.0.{index + 1}") for rail in range(self.nics)]
        return [*data, WirePort(index, MGMT_NIC, MGMT_NET, f"10.{MGMT_NET}.0.{index + 1}")]

    def cables(self) -> list[WirePort]:
        """Everything that can be plugged out: the wire's ports, and how guests are reached over SSH."""
        return [*self.ports(), *(self.ssh_port(index) for index in range(self.hosts) if self.ssh)]

    def ssh_port(self, index: int) -> WirePort:
        return WirePort(index, SSH_NIC, SSH_NET, f"10.{SSH_NET}.0.{index + 1}")


@dataclass(frozen=True)
class WirePort:
    """A guest's NIC and its port on the rail's switch; names and addresses are those of docs/reference/contracts.md."""

    index: int
    nic: str
    rail: int
    address: str

    @property
    def host(self) -> str:
        return f"h{self.index}"

    @property
    def name(self) -> str:
        return f"{self.host}-{self.nic}"

    @property
    def mac(self) -> str:
        """Locally administered, from rail and host."""
        return f"52:54:00:00:{self.rail:02x}:{self.index + 1:02x}"

    @property
    def device(self) -> str:
        """What QEMU calls the NIC; its monitor takes the link down by this name."""
        return f"{DEVICE_PREFIX}{self.nic}"
