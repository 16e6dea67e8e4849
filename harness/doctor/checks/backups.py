"""Which NICs have no backup: a NIC whose loss leaves its host no independent way to its peers."""

from __future__ import annotations

from collections.abc import Iterator

from harness.doctor.checks.mark import of_host
from harness.doctor.model import WARNING, Patient, Seen
from harness.facts import catalogue as facts


def card(patient: Patient, nic: str) -> str:
    """The PCI device without its function: both ports of a card fail together. Empty: it has none, or unknown."""
    shown = (patient.known.get(facts.NET) or {}).get(nic)
    return shown.pci.rpartition(".")[0] if shown is not None else ""


def without_backup(patient: Patient, nic: str) -> str:
    """Why; empty: it has one."""
    others = [other for other in patient.data if other != nic]
    if not others:
        return "it is the only data NIC"
    reasons = {other: _no_backup(patient, nic, other) for other in others}
    if not all(reasons.values()):
        return ""
    return "; ".join(f"{other} {reason}" for other, reason in reasons.items())


def _no_backup(patient: Patient, nic: str, other: str) -> str:
    """Why `other` cannot take over for `nic`; empty: it can."""
    if not patient.is_lit(other):
        return "is down or not there"
    if not patient.global_address(other):
        return "has no address"
    if card(patient, nic) and card(patient, nic) == card(patient, other):
        return f"is on the same card ({card(patient, nic)})"
    tried = [path for path in patient.paths if path.nic == other and path.small is not None]
    if tried and not any(path.small for path in tried):
        return "reaches no peer"
    if any(path.nic == other and path.route == nic for path in patient.paths):
        return f"sends by {nic}"
    return ""


@of_host("backup", facts.LINKS, facts.ADDRESSES, tries_paths=True)
def backups(patient: Patient) -> Iterator[Seen]:
    for nic in patient.data:
        why = without_backup(patient, nic)
        if why:
            yield Seen(WARNING, patient.name, nic, f"no backup: {why}")
