"""The doctor's words: a host under examination, a check, what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from ipaddress import ip_address
from typing import Any

from harness.doctor.rdma_nics import by_nic
from harness.facts import Fact, Known, catalogue
from harness.facts.collect import ClockOffset
from harness.facts.iproute import Address, Link
from harness.facts.sysfs import RdmaPort
from harness.schemas.form import Some


class Severity(StrEnum):
    """`error`: it would break a run. `warning`: a run works, but slowly, or a fault would stop it."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


OK, NOTE, WARNING, ERROR = Severity.OK, Severity.NOTE, Severity.WARNING, Severity.ERROR
WORST_FIRST = (ERROR, WARNING, NOTE, OK)


@dataclass(frozen=True)
class Path:
    """From one data NIC to a peer's NIC of the same rail, as it was tried. None: it could not be tried."""

    nic: str
    peer: str
    peer_nic: str
    peer_address: str
    route: str | None = None
    """The NIC by which the kernel sends there from this NIC's address."""
    small: bool | None = None
    """Whether a small packet came back."""
    whole: bool | None = None
    """Whether a packet as long as this NIC's MTU came back, that nobody might cut into pieces."""
    size: int = 0


@dataclass(frozen=True)
class Datagram:
    """UDP from one NIC to a peer's, as it was tried: data NICs of one rail, or management. None: one did not try."""

    nic: str
    peer: str
    peer_nic: str
    source: str
    target: str
    came: bool | None = None


@dataclass(frozen=True)
class Patient:
    """A host and what is known of it. `data`: its data NICs in the order of their rails."""

    name: str
    known: Known
    data: tuple[str, ...]
    clock: ClockOffset | None = None
    paths: tuple[Path, ...] = ()
    datagrams: tuple[Datagram, ...] = ()
    pid: int | None = None
    guessed: bool = False
    """Nobody said which NICs carry data."""
    gpus: int | None = None
    """How many the inventory says there are."""

    @property
    def links(self) -> Mapping[str, Link]:
        return {link.name: link for link in self.known.get(catalogue.LINKS) or ()}

    def address(self, nic: str) -> str:
        """Its first IPv4 address; empty: none."""
        found = self.known.get(catalogue.ADDRESSES) or ()
        return next((each.address for each in found if each.nic == nic and each.family == "inet"), "")

    def global_address(self, nic: str) -> str:
        """The first of either family; link-local ones are none. Empty: none."""
        return next((each.address for each in self.known.get(catalogue.ADDRESSES) or () if _is_global(each, nic)), "")

    def is_lit(self, nic: str) -> bool:
        """Whether it is there, up, and has a signal."""
        link = self.links.get(nic)
        return link is not None and link.up and link.carrier

    def works(self, nic: str) -> bool:
        """Whether it is lit and has an IPv4 address, as our own tries of ways to peers need it."""
        return self.is_lit(nic) and bool(self.address(nic))

    def ports(self) -> Mapping[str, RdmaPort]:
        """RDMA ports by the data NIC that they belong to."""
        found = by_nic(self.known)
        return {nic: found[nic] for nic in self.data if nic in found}


@dataclass(frozen=True)
class Fleet:
    """All hosts that answered."""

    patients: tuple[Patient, ...]
    bed: str = "cluster"

    def having(self, needs: Iterable[Fact[Any]]) -> Fleet:
        """Those of which all these facts are known."""
        wanted = tuple(needs)
        kept = [each for each in self.patients if all(each.known.why(fact) is None for fact in wanted)]
        return replace(self, patients=tuple(kept))

    def rails(self) -> dict[int, list[tuple[Patient, str]]]:
        """Data NICs by their place on their host."""
        found: dict[int, list[tuple[Patient, str]]] = {}
        for patient in self.patients:
            for rail, nic in enumerate(patient.data):
                found.setdefault(rail, []).append((patient, nic))
        return found


@dataclass(frozen=True)
class Seen:
    """What a check saw on one host. `remedy` empty: the check's own."""

    severity: Severity
    host: str
    subject: str
    """The NIC, GPU or device that it is about; empty: the host."""
    text: str
    remedy: str = ""


Examine = Callable[[Fleet], Iterator[Seen]]
ExamineOne = Callable[[Patient], Iterator[Seen]]


@dataclass(frozen=True)
class Check:
    """`worst` is the worst that it can find. It is given only hosts of which all `needs` are known."""

    id: str
    worst: Severity
    meaning: str
    remedy: str
    needs: tuple[Fact[Any], ...]
    examine: Examine
    on_demand: bool = False
    """Only where a process is named."""
    tries_paths: bool = False
    """It looks at `Patient.paths`."""
    sends: bool = False
    """It looks at `Patient.datagrams`."""


@dataclass(frozen=True)
class Finding:
    """The same sight on one or many hosts."""

    check: str
    severity: Severity
    hosts: Some[str]
    subject: str
    """NIC, GPU or the like; a range; empty: the host."""
    seen: str
    meaning: str
    remedy: str


@dataclass(frozen=True)
class Skipped:
    """A check that could not be made, and why."""

    check: str
    hosts: Some[str]
    why: str


@dataclass(frozen=True)
class Report:
    findings: Sequence[Finding]
    skipped: Sequence[Skipped]
    passed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By check: the hosts on which it found nothing."""

    @property
    def breaks(self) -> bool:
        return any(finding.severity is ERROR for finding in self.findings)


def _is_global(address: Address, nic: str) -> bool:
    return address.nic == nic and not ip_address(address.address).is_link_local


def odd_ones(values: Mapping[Any, Any]) -> dict[Any, Any]:
    """Those that differ from what most have; on a draw, from the first. Empty: all are alike."""
    counts: dict[Any, int] = {}
    for value in values.values():
        counts[value] = counts.get(value, 0) + 1
    if len(counts) < 2:
        return {}
    usual = max(counts, key=lambda value: counts[value])
    return {key: value for key, value in values.items() if value != usual}


def usual(values: Iterable[Any]) -> Any:
    """What most have; on a draw the first."""
    found = list(values)
    return max(dict.fromkeys(found), key=found.count)
