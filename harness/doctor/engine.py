"""From hosts' facts to one report: every check on every host that it can be made on, equal findings as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from harness.doctor.checks.gpus import is_gpu
from harness.doctor.fold import fold
from harness.doctor.model import ERROR, OK, WORST_FIRST, Check, Finding, Fleet, Patient, Report, Seen, Skipped
from harness.doctor.registry import CHECKS, SSH
from harness.errors import R2ccError
from harness.facts import catalogue


def examine(fleet: Fleet, checks: Sequence[Check]) -> Report:
    findings: list[Finding] = []
    skipped: list[Skipped] = []
    passed: dict[str, tuple[str, ...]] = {}
    for check in checks:
        if check.on_demand and not any(patient.pid for patient in fleet.patients):
            continue
        able = fleet.having(check.needs)
        skipped += _skipped(check, fleet, able)
        seen = list(check.examine(able))
        findings += grouped(check, seen)
        bad = {each.host for each in seen if each.severity is not OK}
        passed[check.id] = tuple(patient.name for patient in able.patients if patient.name not in bad)
    return Report(sorted(findings, key=lambda each: WORST_FIRST.index(each.severity)), skipped, passed)


def grouped(check: Check, seen: Iterable[Seen]) -> list[Finding]:
    """The same sight on many hosts is one finding; so are NICs of which the same is seen on the same hosts."""
    hosts: dict[tuple[Seen, str], list[str]] = {}
    for each in seen:
        alike = Seen(each.severity, "", each.subject, each.text, each.remedy)
        hosts.setdefault((alike, each.subject), []).append(each.host)
    subjects: dict[tuple[object, ...], list[str]] = {}
    for (each, subject), names in hosts.items():
        key = (each.severity, each.text, each.remedy, tuple(dict.fromkeys(names)))
        subjects.setdefault(key, []).append(subject)
    return [
        Finding(check.id, severity, names, fold(those), text, check.meaning, remedy or check.remedy)  # type: ignore[arg-type]
        for (severity, text, remedy, names), those in subjects.items()
    ]


def _skipped(check: Check, fleet: Fleet, able: Fleet) -> list[Skipped]:
    can = {patient.name for patient in able.patients}
    why: dict[str, list[str]] = {}
    for patient in fleet.patients:
        if patient.name not in can and applies(check, patient):
            reasons = [told for fact in check.needs if (told := patient.known.why(fact)) is not None]
            why.setdefault("; ".join(dict.fromkeys(_short(each) for each in reasons)), []).append(patient.name)
    return [Skipped(check.id, tuple(names), reason) for reason, names in why.items()]


def applies(check: Check, patient: Patient) -> bool:
    """False: the host has nothing that this check is about, so that nobody misses the tool it needs."""
    devices, ports = patient.known.get(catalogue.PCI), patient.known.get(catalogue.RDMA)
    if {catalogue.GPUS, catalogue.TOPOLOGY} & set(check.needs) and devices is not None:
        return any(is_gpu(device) for device in devices.values())
    if {catalogue.IBV, catalogue.RDMA_NETNS} & set(check.needs):
        return ports is None or bool(ports)
    return True


def _short(reason: object) -> str:
    return str(reason).splitlines()[0]


def grouped_failures(report: Report, failed: Mapping[str, R2ccError]) -> Report:
    """With the hosts that could not be examined as findings, first of all."""
    check = next(each for each in CHECKS if each.id == SSH)
    seen = [
        Seen(ERROR, name, "", error.message.removeprefix(f"{name}: "), error.hint or "")
        for name, error in failed.items()
    ]
    return replace(report, findings=[*grouped(check, seen), *report.findings])
