"""All checks, in the order in which they are told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.doctor.checks import backups, gpus, hosts, nccl, nics, paths, rdma
from harness.doctor.model import ERROR, WARNING, Check, Fleet, Patient, Seen, on_each
from harness.errors import UsageError
from harness.facts import FactError, NotAvailable, catalogue

SSH = "ssh"


def unreadable(patient: Patient) -> Iterator[Seen]:
    for name, value in patient.known.values.items():
        if isinstance(value, FactError):
            yield Seen(WARNING, patient.name, name, value.message)


def without_tools(patient: Patient) -> Iterator[Seen]:
    """What a run itself needs there; that a check could not be made for want of a tool is told with that check."""
    why = patient.known.why(catalogue.LINKS)
    if isinstance(why, NotAvailable):
        yield Seen(ERROR, patient.name, "", str(why))


def _none(_fleet: Fleet) -> Iterator[Seen]:
    """Hosts that do not answer are no patients: the examination tells of them (harness/doctor/examination.py)."""
    yield from ()


CHECKS: tuple[Check, ...] = (
    Check(
        SSH,
        ERROR,
        "The host could not be examined, and no run can use it.",
        "r2cc hosts check; docs/howto/cluster.md says what each kind of error means",
        (),
        _none,
    ),
    Check(
        "tools",
        ERROR,
        "A run asks `ip` for the host's NICs and addresses before it starts.",
        "install iproute2",
        (),
        on_each(without_tools),
    ),
    Check(
        "facts",
        WARNING,
        "A tool on the host prints what r2cc does not know: checks that need it were not made.",
        "please report it with the tool's output and version",
        (),
        on_each(unreadable),
    ),
    *nics.CHECKS,
    *paths.CHECKS,
    *backups.CHECKS,
    *rdma.CHECKS,
    *gpus.CHECKS,
    *hosts.CHECKS,
    *nccl.CHECKS,
)


def chosen(ids: Sequence[str]) -> tuple[Check, ...]:
    """Those of these names; all when none is named. UsageError for a name that does not exist."""
    known = {check.id: check for check in CHECKS}
    wrong = [name for name in ids if name not in known]
    if wrong:
        raise UsageError(f"no check '{wrong[0]}'", f"one of: {', '.join(known)}")
    return tuple(check for check in CHECKS if not ids or check.id in ids)
