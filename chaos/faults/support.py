"""Which faults a host can carry, by what it said of itself (needs.py), and which a bed can carry at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.faults.fault import Fault
from chaos.faults.needs import MEANING, Able
from chaos.faults.steps import SWITCH, Command


@dataclass(frozen=True)
class Bed:
    """What holds for a bed on any machine."""

    lacks: frozenset[str] = frozenset()
    """Features that none of its hosts or NICs has."""
    switch: frozenset[str] | None = None
    """Programs that its switch knows; None: those of its kernel."""


BEDS: Mapping[str, Bed] = {
    "lab": Bed(lacks=frozenset({"rdma", "pci", "ssh", "netem"})),
    "vm lab": Bed(lacks=frozenset({"ssh"}), switch=frozenset({"ip", "nft", "tc"})),
    "uml lab": Bed(lacks=frozenset({"ssh", "pci"}), switch=frozenset({"ip", "nft", "tc"})),
    "cluster": Bed(),
}
"""The lab's NICs are veth pairs; soft-RoCE does not go into its namespaces. Below the token bucket of each are the
lab's own queues (harness/lab/network/fairqueue.py), whose place no other may take: what needs netem is refused there.
We are in the hosts of all labs without SSH. The vm lab's switch is a program (harness/vmlab/linux_words.py). NICs of
User Mode Linux are on no bus."""


@dataclass(frozen=True)
class Support:
    """Whether a host can carry a fault."""

    supported: bool
    why: Sequence[str]
    notes: Sequence[str]


def beds(fault: Fault, inside: Fault) -> list[str]:
    """Those that can carry a kind. `fault` acts in the switch if it can; a cluster has it `inside` its hosts."""
    return [name for name, bed in BEDS.items() if _carries(bed, inside if name == "cluster" else fault)]


def _carries(bed: Bed, fault: Fault) -> bool:
    steps = (*fault.facts(), *fault.inject(), *fault.revert(), *fault.probe())
    asked = {step.argv[0] for step in steps if isinstance(step, Command) and step.on == SWITCH}
    return not bed.lacks & set(fault.features) and (bed.switch is None or asked <= bed.switch)


def lacking(fault: Fault, able: Able) -> list[str]:
    """Why this host cannot carry the fault; empty: it can."""
    found = [f"{tool} is not installed" for tool in fault.requires if tool not in able.tools]
    if fault.privilege == "CAP_NET_ADMIN" and not able.net_admin:
        found.append("needs CAP_NET_ADMIN: log in as root; sudo is not used")
    if fault.privilege == "root" and able.uid != 0:
        found.append("needs root: log in as root; sudo is not used")
    return found + [MEANING[feature] for feature in fault.features if not _has(feature, able)]


def _has(feature: str, able: Able) -> bool:
    if feature == "rdma":
        return bool(able.rdma)
    if feature == "pci":
        return "pci_rescan" in able.features and any("/pci" in where for _, _, where in able.nics.values())
    if feature == "nft_netdev" and "nft_inet" in able.features:
        return True  # stands in for it
    return feature in able.features or ("unknown" in able.features and feature != "ssh")


def notes(fault: Fault, able: Able) -> list[str]:
    """What else is to be known of a fault that the host can carry."""
    found = []
    if fault.kernel_path_only and able.hard:
        found.append(f"RDMA ({', '.join(able.hard[:4])}) does not notice")
    if "nft_netdev" in fault.features and not {"nft_egress", "unknown"} & able.features:
        found.append("no egress hook: families inet and arp instead")
    found += fault.notes(able)
    if "unknown" in able.features and fault.features:
        found.append("kernel features could not be tried without root")
    return found


def table(hosts: Mapping[str, Able], kinds: Sequence[Fault]) -> dict[str, dict[str, Support]]:
    """By kind, then by host."""
    return {fault.kind: {host: _support(fault, able) for host, able in hosts.items()} for fault in kinds}


def _support(fault: Fault, able: Able) -> Support:
    why = lacking(fault, able)
    return Support(not why, why, [] if why else notes(fault, able))
