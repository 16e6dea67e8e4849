"""Which NCCL and which net plugin a job would load, and which of them a process has really mapped."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.doctor.checks.mark import of_host
from harness.doctor.model import ERROR, NOTE, WARNING, Patient, Seen
from harness.facts import catalogue as facts
from harness.facts.kernel import Mapped
from harness.facts.loading import INNER, Loading
from harness.facts.loading import PLUGIN as PLUGIN_VARIABLE

NCCL = re.compile(r".*/libnccl\.so[.\d]*")
PLUGIN = re.compile(r".*/(libnccl-net[^/]*|libr2cc_[^/]*)\.so[.\d]*")


@of_host("nccl-path", facts.LOADING)
def path(patient: Patient) -> Iterator[Seen]:
    found = patient.known.get(facts.LOADING) or Loading()
    wanted = found.wanted
    if found.in_path:
        yield Seen(NOTE, patient.name, "NCCL", f"R2CC is in the path: {_described(found)}")
        if found.inner is not None and found.net and found.inner[0]:
            why, file = found.inner
            yield Seen(WARNING, patient.name, "NCCL", f"{INNER}: {file} {why}: R2CC uses NCCL's own nets in its place")
    elif wanted and (found.nccl or found.bare or any("r2cc" in name.lower() for name, _ in found.lost)):
        yield Seen(ERROR, patient.name, "NCCL", f"{_wanted(found)}, but it is not in the path: {_described(found)}")
    elif wanted:
        yield Seen(WARNING, patient.name, "NCCL", f"{_wanted(found)}, but this login finds no libnccl.so.2 to load")
    elif found.net:
        unasked = "" if found.setting(PLUGIN_VARIABLE) else "; nobody asked for it"
        yield Seen(NOTE, patient.name, "NCCL", f"would load the net plugin {found.net}{unasked}")


def _wanted(found: Loading) -> str:
    """R2CC_MODE=balance (in /etc/nccl.conf) asks for R2CC."""
    setting = found.wanted
    assert setting is not None
    return f"{setting.name}={setting.value} (in {setting.where}) asks for R2CC"


def _described(found: Loading) -> str:
    """Both libraries, and by what they are found."""
    nccl = f"NCCL is {found.nccl}, by {found.where()}" if found.nccl else "NCCL is whatever the program brings"
    chosen = found.setting(PLUGIN_VARIABLE)
    by = (
        f"{PLUGIN_VARIABLE}={chosen.value} (in {chosen.where})"
        if chosen
        else f"its default name ({PLUGIN_VARIABLE} is not set)"
    )
    lost = "".join(f"; {name!r} {why}" for name, why in found.lost if chosen)
    return f"{nccl}; its net plugin is {found.net or 'none'}, by {by}{lost}{_inner(found)}"


def _inner(found: Loading) -> str:
    """Of the net that R2CC's plugin is laid over."""
    if found.inner is None or found.net not in found.ours or (found.inner[0] and not found.bare):
        return ""
    why, file = found.inner
    passed = f", which {why}, so it is passed through and not protected" if why else ""
    return f"; of {INNER} it takes {file}{passed}"


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
    loaded = patient.known.get(facts.LOADED) or Loading()
    if loaded.counting:
        settings = ", ".join(f"{each.name}={each.value} (in {each.where})" for each in loaded.counting)
        yield Seen(NOTE, patient.name, process, f"set when it started: {settings}")
    if copies and loaded.wanted and not loaded.in_path:
        took = f"{loaded.net} took the net" if loaded.net else "neither NCCL nor a net plugin is R2CC's"
        yield Seen(ERROR, patient.name, process, f"{_wanted(loaded)}, but it is not in the path: {took}")


def _copy(patient: Patient, process: str, each: Mapped) -> Iterator[Seen]:
    storage = patient.known.get(facts.STORAGE)
    ours = storage is not None and each.path.startswith(f"{storage.prefix}/")
    if each.deleted:
        yield Seen(WARNING, patient.name, process, f"uses {each.path}, which was replaced since: restart it")
    elif not ours:
        yield Seen(WARNING, patient.name, process, f"uses {each.path}, which `r2cc deploy` did not put there")
    else:
        yield Seen(NOTE, patient.name, process, f"uses {each.path}")
