"""A report as lines for people and as JSON for programs (harness/schemas/doctor.schema.json)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.doctor.examination import Examined
from harness.doctor.fold import fold
from harness.doctor.model import ERROR, NOTE, WARNING, WORST_FIRST, Finding, Patient, Report, Skipped
from harness.hosts.check import kind_of
from harness.schemas.form import Amount, Count, Some, form

BACKUP = "backup"
IN_WORDS = {"command": "a command failed there", "no_ssh": "no SSH server answers", "auth": "no key is let in"}
"""Kinds of errors (docs/howto/cluster.md) whose names say too little."""
COLOURS = {ERROR: "red", WARNING: "yellow", NOTE: "blue"}


def lines(report: Report, examined: Examined, inventory: str) -> Iterator[tuple[str, str | None]]:
    """Lines with their colours. What is a note has no lines of its own on what it means."""
    told = [finding for finding in report.findings if finding.check != BACKUP]
    for finding, after in zip(told, [*told[1:], None], strict=False):
        yield from _finding(finding)
        if after is None or (finding.check, finding.remedy) != (after.check, after.remedy):
            yield from _advice(finding)
    yield from _backups(report, examined)
    yield from _skipped(report)
    if examined.fleet.patients or not examined.failed:
        yield _sum(report, examined), None
    else:
        yield f"nothing was checked: no host could be examined: {_missing(examined)}", COLOURS[ERROR]
        yield f"  try: mend what is said above, then r2cc hosts check --inventory {shlex.quote(inventory)}", None


def _finding(finding: Finding) -> Iterator[tuple[str, str | None]]:
    where = " ".join(part for part in (fold(finding.hosts), finding.subject) if part)
    first, *rest = finding.seen.splitlines()
    yield f"{finding.severity:<8} {finding.check:<14} {where}: {first}", COLOURS.get(finding.severity)
    yield from ((f"         {line.strip()}", None) for line in rest)


def _advice(finding: Finding) -> Iterator[tuple[str, str | None]]:
    """Once below all findings that it is for."""
    if finding.severity in (ERROR, WARNING):
        yield f"         {finding.meaning}", "dim"
        yield f"         try: {finding.remedy}", None


def _backups(report: Report, examined: Examined) -> Iterator[tuple[str, str | None]]:
    """Always told, also when all have one."""
    found = [finding for finding in report.findings if finding.check == BACKUP]
    looked_at = {*report.passed.get(BACKUP, ()), *(host for finding in found for host in finding.hosts)}
    total = sum(len(patient.data) for patient in examined.fleet.patients if patient.name in looked_at)
    if not looked_at:
        return
    if not found:
        yield f"NICs without a backup: none of {total}", "green" if total else None
        return
    yield "NICs without a backup:", COLOURS[WARNING]
    for finding in found:
        yield f"  {fold(finding.hosts)} {finding.subject}: {finding.seen.removeprefix('no backup: ')}", None
    yield f"  {found[0].meaning}", "dim"
    yield f"  try: {found[0].remedy}", None


def _skipped(report: Report) -> Iterator[tuple[str, str | None]]:
    alike: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for each in report.skipped:
        alike.setdefault((each.hosts, each.why), []).append(each.check)
    for (hosts, why), checks in alike.items():
        yield f"not checked: {', '.join(checks)} on {fold(hosts)}: {why}", "dim"


def _sum(report: Report, examined: Examined) -> str:
    counts = {severity: sum(each.severity is severity for each in report.findings) for severity in WORST_FIRST[:3]}
    told = ", ".join(_many(count, severity) for severity, count in counts.items())
    hosts = len(examined.fleet.patients)
    missing = f"; not examined: {_missing(examined)}" if examined.failed else ""
    verdict = "something would break a run" if report.breaks else "nothing found that would break a run"
    return f"{_many(len(report.passed), 'check')} on {_many(hosts, 'host')}{missing}: {told}: {verdict}"


def _missing(examined: Examined) -> str:
    """Which hosts could not be examined, and why in a word: `node[1-2] (unreachable), node4 (auth)`."""
    kinds: dict[str, list[str]] = {}
    for name, error in examined.failed.items():
        kinds.setdefault(IN_WORDS.get(kind := kind_of(error), kind.replace("_", " ")), []).append(name)
    return ", ".join(f"{fold(sorted(names))} ({kind})" for kind, names in kinds.items())


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"


@dataclass(frozen=True)
class TriedPath:
    nic: str
    peer: str
    peer_nic: str
    route: str | None
    reached: bool | None
    whole: bool | None
    size_bytes: Count


@dataclass(frozen=True)
class DoctorHost:
    name: str
    data_nics: Sequence[str]
    clock_offset_s: float | None
    """How far its clock is ahead of that of the machine that asks."""
    clock_error_s: Amount | None
    paths: Sequence[TriedPath]


@dataclass(frozen=True)
class FailedHost:
    name: str
    kind: str
    message: str
    hint: str | None


@dataclass(frozen=True)
class WithoutBackup:
    hosts: Some[str]
    nics: str
    why: str


@form("doctor", "r2cc doctor")
@dataclass(frozen=True)
class Doctor:
    """What the doctor found."""

    inventory: str
    breaks: bool
    """Whether something would break a run."""
    hosts: Sequence[DoctorHost]
    failed: Sequence[FailedHost]
    """Hosts that could not be examined; the kinds are those of hosts_check."""
    findings: Sequence[Finding]
    without_backup: Sequence[WithoutBackup]
    passed: Mapping[str, Sequence[str]]
    not_checked: Sequence[Skipped]


def whole(report: Report, examined: Examined, inventory: str) -> Doctor:
    """What `r2cc doctor --json` prints."""
    bare = [(each.hosts, each.subject, each.seen) for each in report.findings if each.check == BACKUP]
    return Doctor(
        inventory=inventory,
        breaks=report.breaks,
        hosts=[_host(patient) for patient in examined.fleet.patients],
        failed=[FailedHost(name, kind_of(each), each.message, each.hint) for name, each in examined.failed.items()],
        findings=report.findings,
        without_backup=[WithoutBackup(hosts, nics, seen.removeprefix("no backup: ")) for hosts, nics, seen in bare],
        passed=report.passed,
        not_checked=report.skipped,
    )


def _host(patient: Patient) -> DoctorHost:
    clock = patient.clock
    return DoctorHost(
        name=patient.name,
        data_nics=patient.data,
        clock_offset_s=None if clock is None else round(clock.offset_s, 6),
        clock_error_s=None if clock is None else round(clock.error_s, 6),
        paths=[
            TriedPath(path.nic, path.peer, path.peer_nic, path.route, path.small, path.whole, path.size)
            for path in patient.paths
        ],
    )
