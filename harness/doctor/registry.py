"""All checks, in the order in which they are told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.doctor.checks import backups, gpus, hosts, nccl, nics, paths, rdma  # noqa: F401 - they have checks
from harness.doctor.checks.mark import MADE, of_fleet, of_host, words
from harness.doctor.model import ERROR, WARNING, Check, Fleet, Patient, Seen
from harness.errors import UsageError
from harness.facts import FactError, NotAvailable, catalogue

SSH = "ssh"


@of_host("facts")
def unreadable(patient: Patient) -> Iterator[Seen]:
    for name, value in patient.known.values.items():
        if isinstance(value, FactError):
            yield Seen(WARNING, patient.name, name, value.message)


@of_host("tools")
def without_tools(patient: Patient) -> Iterator[Seen]:
    """What a run itself needs there; that a check could not be made for want of a tool is told with that check."""
    why = patient.known.why(catalogue.LINKS)
    if isinstance(why, NotAvailable):
        yield Seen(ERROR, patient.name, "", str(why))


@of_fleet(SSH)
def _none(_fleet: Fleet) -> Iterator[Seen]:
    """Hosts that do not answer are no patients: the examination tells of them (harness/doctor/examination.py)."""
    yield from ()


CHECKS = tuple(MADE[name] for name in words())


def chosen(ids: Sequence[str]) -> tuple[Check, ...]:
    """Those of these names; all when none is named. UsageError for a name that does not exist."""
    known = {check.id: check for check in CHECKS}
    wrong = [name for name in ids if name not in known]
    if wrong:
        raise UsageError(f"no check '{wrong[0]}'", f"one of: {', '.join(known)}")
    return tuple(check for check in CHECKS if not ids or check.id in ids)
