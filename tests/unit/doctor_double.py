"""Hosts under examination, made of literal facts."""

from __future__ import annotations

from typing import Any

from host_double import FakeHost

from harness.doctor.engine import examine
from harness.doctor.model import WORST_FIRST, Fleet, Patient, Severity
from harness.doctor.registry import chosen
from harness.facts import Fact, Known, NotAvailable, catalogue
from harness.facts.ethtool import Driver, Settings
from harness.facts.ethtool import Nic as EthtoolNic
from harness.facts.iproute import Address, Link
from harness.facts.sysfs import Gid, Nic, PciDevice, RdmaPort
from harness.hosts import Result

UP = frozenset({"UP", "LOWER_UP"})
CLEAN: dict[Fact[Any], object] = {
    **{catalogue.FIRST: {}, catalogue.LAST: {}, catalogue.QDISCS: (), catalogue.SYSCTL: {}, catalogue.RDMA: ()},
    **{catalogue.PING: "", catalogue.WHOLE_PING: "", catalogue.SETTINGS: {}, catalogue.PCI: {}},
}


def link(name: str, mtu: int = 9000, flags: frozenset[str] = UP) -> Link:
    return Link(name, mtu, flags, "", "")


def address(nic: str, text: str, prefix: int = 24) -> Address:
    return Address(nic, "inet", text, prefix)


def shown(name: str, speed_gbit: float | None = 100.0, device: str = "", driver: str = "mlx5_core") -> Nic:
    return Nic(name, speed_gbit, "full", device, driver)


def port(device: str, nic: str, gids: tuple[Gid, ...] = (), state: str = "ACTIVE") -> RdmaPort:
    return RdmaPort(device, 1, state, "LinkUp", "Ethernet", gids or gid_table(nic), "")


def gid_table(nic: str, address_text: str = "10.1.0.1", index: int = 3) -> tuple[Gid, ...]:
    link_local = "fe80:0000:0000:0000:0000:0000:0000:0001"
    mapped = "0000:0000:0000:0000:0000:ffff:0a01:0001"
    return (
        Gid(0, link_local, 1, nic, ""),
        Gid(1, link_local, 2, nic, ""),
        Gid(index - 1, mapped, 1, nic, address_text),
        Gid(index, mapped, 2, nic, address_text),
    )


def pci(address_text: str, kind: int = 0x0200, **changes: Any) -> PciDevice:
    plain: dict[str, Any] = {"speed_gts": 32.0, "most_gts": 32.0, "width": 16, "most_width": 16}
    plain |= {"vendor": 0x15B3, "path": (address_text,), "acs": None} | changes
    return PciDevice(address_text, kind, **plain)


def patient(name: str = "h0", facts: dict[Fact[Any], object] | None = None, nics: int = 2, **changes: Any) -> Patient:
    """A sound host with NICs eth0, eth1... on subnets of their own, and what `facts` adds or replaces."""
    number = int(name[-1]) + 1 if name[-1].isdigit() else 1
    names = [f"eth{index}" for index in range(nics)]
    sound: dict[Fact[Any], object] = {
        **CLEAN,
        catalogue.LINKS: tuple(link(nic) for nic in names),
        catalogue.ADDRESSES: tuple(address(nic, f"10.{index + 1}.0.{number}") for index, nic in enumerate(names)),
        catalogue.NET: {nic: shown(nic, driver="veth") for nic in names},
    }
    values = {fact.name: value for fact, value in {**sound, **(facts or {})}.items()}
    return Patient(name, Known(values), changes.pop("data", tuple(names)), **changes)


def absent(fact: Fact[Any]) -> NotAvailable:
    return NotAvailable(fact.tool, fact.package)


def answering(name: str, outputs: dict[Fact[Any], str], clock: str = "") -> FakeHost:
    """A host on which these commands print that; all other tools are missing."""
    texts = {fact.name: text for fact, text in outputs.items()}

    def answer(argv: tuple[str, ...]) -> Result:
        mark, words = argv[4], argv[6:]
        said = [f"{mark} clock {clock}\n"]
        while words:
            fact_name, count = words[0], int(words[3])
            said.append(f"\n{mark} begin {fact_name}\n")
            told = texts.get(fact_name)
            said.append(f"\n{mark} missing\n" if told is None else f"{told}\n{mark} end \n0\n")
            words = words[4 + count :]
        return Result(argv, 0, "".join(said) + f"\n{mark} clock {clock}\n")

    return FakeHost(name, answers={"sh -c *": answer})


def seen(check: str, *patients: Patient) -> list[tuple[Severity, str, str, str]]:
    """What one check tells; never worse than docs/reference/doctor.md says of it."""
    asked = chosen([check])
    report = examine(Fleet(patients), asked)
    assert all(WORST_FIRST.index(each.severity) >= WORST_FIRST.index(asked[0].worst) for each in report.findings)
    assert report.skipped == [], report.skipped
    return [
        (each.severity, " ".join(each.hosts), each.subject, each.seen)
        for each in report.findings
        if each.check == check
    ]


def ethtool(speed: float | None = 100.0, most: float | None = 100.0, **changes: Any) -> EthtoolNic:
    plain: dict[str, Any] = {"driver": Driver("mlx5_core", "6.8", "28.1"), "features": (), "module": None}
    return EthtoolNic(settings=Settings(speed, most), **(plain | changes))
