"""Which NCCL a process has really mapped."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.doctor.checks.mark import of_host
from harness.doctor.model import ERROR, NOTE, WARNING, Patient, Seen
from harness.facts import catalogue as facts
from harness.facts.kernel import Mapped

NCCL = re.compile(r".*/libnccl\.so[.\d]*")
PLUGIN = re.compile(r".*/(libnccl-net[^/]*|libr2cc_[^/]*)\.so[.\d]*")


@of_host("nccl-mapped", facts.MAPPED, on_demand=True)
def mapped(patient: Patient) -> Iterator[Seen]:
    found = patient.known.get(facts.MAPPED) or ()
    process = f"pid {patient.pid}"
    copies = [each for each in found if NCCL.fullmatch(each.path)]
    if not copies:
        yield Seen(ERROR, patient.name, process, "has no libnccl.so mapped: none yet, or linked into the program")
    if len({each.path for each in copies}) > 1:
        paths = ", ".join(each.path for each in copies)
        yield Seen(ERROR, patient.name, process, f"has several NCCLs mapped: {paths}")
    for each in copies:
        yield from _copy(patient, process, each)
    for each in found:
        if PLUGIN.fullmatch(each.path):
            yield Seen(NOTE, patient.name, process, f"with {each.path}")


def _copy(patient: Patient, process: str, each: Mapped) -> Iterator[Seen]:
    storage = patient.known.get(facts.STORAGE)
    ours = storage is not None and each.path.startswith(f"{storage.prefix}/")
    if each.deleted:
        yield Seen(WARNING, patient.name, process, f"uses {each.path}, which was replaced since: restart it")
    elif not ours:
        yield Seen(WARNING, patient.name, process, f"uses {each.path}, which `r2cc deploy` did not put there")
    else:
        yield Seen(NOTE, patient.name, process, f"uses {each.path}")
