"""Undoes everything that is armed anywhere, proves it, and removes what carries our name; from any machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from chaos.deadman import leftovers
from chaos.deadman.about import rebuilt, whoami
from chaos.deadman.record import Found
from chaos.deadman.switch import disarm_one, records, undo_one, what_of
from chaos.faults.steps import Command
from harness.errors import CommandError, FaultError, R2ccError, ReachError, UsageError
from harness.hosts import Host, Result
from harness.hosts.lease import Holder, holder_of, take_away
from harness.hosts.parallel import Outcome, on_all

PROBE_S = 10.0
Told = Callable[[str], None]


@dataclass
class Record:
    """What became of one record. `problem`: why it is not known to be undone; empty when it is."""

    found: Found
    problem: str = ""
    proof: str = ""


@dataclass
class Report:
    """Of one host. `error`: it could not be asked, or was lost on the way."""

    host: str
    error: R2ccError | None = None
    holder: Holder | None = None
    records: list[Record] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def reached(self) -> bool:
        """Not where the network, or what the inventory says of it, keeps us away."""
        return not isinstance(self.error, ReachError | UsageError)

    @property
    def clean(self) -> bool:
        return self.error is None and not self.problems and not any(record.problem for record in self.records)


def panic(
    hosts: Mapping[str, Host], *, dry_run: bool = False, break_lease: bool = False, told: Told = lambda line: None
) -> list[Report]:
    """Every host's report, in order; one that cannot be reached hides nothing of the others. Changes nothing with
    `dry_run`. A lease is not needed, and is taken from its holder only with `break_lease`."""
    reports = {name: Report(name) for name in hosts}
    _on_all(hosts, reports, lambda host, report: _look(host, report, told))
    if dry_run:
        return [*reports.values()]
    if break_lease:
        _on_all(hosts, reports, lambda host, report: take_away(host) if report.holder else None)
    by = f"panic of {whoami()}"
    _on_all(hosts, reports, lambda host, report: _undo(host, report, by, told))
    _prove(hosts, reports)
    _on_all(hosts, reports, _tidy)
    return [*reports.values()]


def exit_code(reports: list[Report], *, dry_run: bool = False) -> int:
    """0: all clean; 1: something could not be undone (or, dry, is there); 3: a host could not be reached."""
    there = dry_run and any(report.records or report.removed for report in reports)
    if there or any(not report.clean and report.reached for report in reports):
        return 1
    return 0 if all(report.reached for report in reports) else ReachError.exit_code


def _on_all(hosts: Mapping[str, Host], reports: Mapping[str, Report], work: Callable[[Host, Report], Any]) -> None:
    """On those that answered so far; what a host says last is its error."""
    answering = {name: host for name, host in hosts.items() if reports[name].error is None}
    outcomes: dict[str, Outcome[Any]] = on_all(
        {name: partial(work, host, reports[name]) for name, host in answering.items()}
    )
    for name, outcome in outcomes.items():
        reports[name].error = outcome.error


def _look(host: Host, report: Report, told: Told) -> None:
    report.holder = holder_of(host)
    report.records = [Record(found) for found in records(host)]
    report.removed = [found.what for found in leftovers.find(host)]
    if report.holder is not None:
        told(f"{host.name}: in use by {report.holder}; what it broke is undone all the same")


def _undo(host: Host, report: Report, by: str, told: Told) -> None:
    for record in report.records:
        if record.found.state == "undone":
            continue
        try:
            undo_one(host, record.found.id, by)
        except (FaultError, CommandError) as error:
            record.problem = error.message
        told(f"{host.name}: {what_of(record.found)}: {record.problem or 'undone'}")


def _prove(hosts: Mapping[str, Host], reports: Mapping[str, Report]) -> None:
    """Probes each fault once, on all of its hosts."""
    wanted: dict[str, list[Record]] = {}
    for report in reports.values():
        for record in report.records if report.error is None else ():
            if not record.problem:
                wanted.setdefault(record.found.id, []).append(record)
    answers = on_all({name: partial(_probe, hosts, reports, records[0]) for name, records in wanted.items()})
    for name, answer in answers.items():
        for record in wanted[name]:
            record.proof = _by(record.found) + (answer.value or "")
            record.problem = "" if answer.error is None else answer.error.message


def _probe(hosts: Mapping[str, Host], reports: Mapping[str, Report], record: Record) -> str:
    """How it is known to be undone. FaultError when it is not."""
    try:
        fault = rebuilt(record.found.about)
        steps = fault.probe()
        if not all(isinstance(step, Command) for step in steps):
            return "not probed: a rank cannot be asked from here"
        asked = [step for step in steps if isinstance(step, Command)]
        absent = sorted({step.on for step in asked if step.on not in hosts or reports[step.on].error is not None})
        if absent:
            raise ValueError(f"{', '.join(absent)} cannot be asked")
        active = fault.is_active([_answer(hosts[step.on], step) for step in asked])
    except (ValueError, KeyError) as error:
        raise FaultError(f"the undo ran, but nothing proves it: {error}") from error
    if active is not False:
        raise FaultError("the undo ran, but the fault is still there")
    return "and probed"


def _by(found: Found) -> str:
    return f"undone by {found.undone}, " if found.undone else "undone, "


def _answer(host: Host, step: Command) -> Result:
    return host.run(list(step.argv), input=step.input or None, timeout_s=PROBE_S, check=False)


def _tidy(host: Host, report: Report) -> None:
    """Removes records that are proved to be undone, and what is left without a record."""
    for record in report.records:
        if not record.problem:
            disarm_one(host, record.found.id)
    report.removed = []
    for found in leftovers.find(host):
        problem = leftovers.remove(host, found)
        if problem is None:
            report.removed.append(found.what)
        else:
            report.problems.append(f"{found.what}: {problem}")
