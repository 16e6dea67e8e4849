"""A report as lines for people and as JSON for programs (harness/schemas/doctor.schema.json)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.doctor.examination import Examined
from harness.doctor.fold import fold
from harness.doctor.model import ERROR, NOTE, WARNING, WORST_FIRST, Finding, Report
from harness.errors import R2ccError, SshError

BACKUP = "backup"
COLOURS = {ERROR: "red", WARNING: "yellow", NOTE: "blue"}


def lines(report: Report, examined: Examined) -> Iterator[tuple[str, str | None]]:
    """Lines with their colours. What is a note has no lines of its own on what it means."""
    told = [finding for finding in report.findings if finding.check != BACKUP]
    for finding, after in zip(told, [*told[1:], None], strict=False):
        yield from _finding(finding)
        if after is None or (finding.check, finding.remedy) != (after.check, after.remedy):
            yield from _advice(finding)
    yield from _backups(report, examined)
    yield from _skipped(report)
    yield _sum(report, examined), None


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
    hosts, failed = len(examined.fleet.patients), len(examined.failed)
    missing = f"; {failed} could not be examined" if failed else ""
    verdict = "something would break a run" if report.breaks else "nothing found that would break a run"
    return f"{_many(len(report.passed), 'check')} on {_many(hosts, 'host')}{missing}: {told}: {verdict}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"


def as_json(report: Report, examined: Examined, inventory: str) -> dict[str, Any]:
    return {
        "schema": 1,
        "inventory": inventory,
        "breaks": report.breaks,
        "hosts": [
            {
                "name": patient.name,
                "data_nics": list(patient.data),
                "clock_offset_s": None if patient.clock is None else round(patient.clock.offset_s, 6),
                "clock_error_s": None if patient.clock is None else round(patient.clock.error_s, 6),
                "paths": [
                    {
                        **{"nic": path.nic, "peer": path.peer, "peer_nic": path.peer_nic, "route": path.route},
                        **{"reached": path.small, "whole": path.whole, "size_bytes": path.size},
                    }
                    for path in patient.paths
                ],
            }
            for patient in examined.fleet.patients
        ],
        "failed": _failed(examined.failed),
        "findings": [
            {
                **{"check": each.check, "severity": each.severity.value, "hosts": list(each.hosts)},
                **{"subject": each.subject, "seen": each.seen, "meaning": each.meaning, "remedy": each.remedy},
            }
            for each in report.findings
        ],
        "without_backup": [
            {"hosts": list(each.hosts), "nics": each.subject, "why": each.seen.removeprefix("no backup: ")}
            for each in report.findings
            if each.check == BACKUP
        ],
        "passed": {check: list(hosts) for check, hosts in report.passed.items()},
        "not_checked": [{"check": each.check, "hosts": list(each.hosts), "why": each.why} for each in report.skipped],
    }


def _failed(failed: Mapping[str, R2ccError]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "kind": error.kind if isinstance(error, SshError) else "command",
            "message": error.message,
            "hint": error.hint,
        }
        for name, error in failed.items()
    ]
