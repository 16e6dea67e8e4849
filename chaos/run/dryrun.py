"""What an experiment would run, on which host, in which order; from the very functions that the runner uses. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.experiment.model import MODES, Experiment
from chaos.experiment.planned import PlannedFault, planned_faults
from chaos.faults.fault import by_host
from chaos.faults.steps import Step, place_of
from chaos.testbed import launch
from chaos.testbed.launch import Benches, Launch
from harness.hosts.ssh.target import Target
from harness.lab.remote import Inside
from harness.launch.job import Job
from harness.launch.plan import plan
from harness.schemas.form import Count, Mode, form
from harness.sites.site import Planned

PLACES = Path("<folder of the lab>/places.json")
"""A lab that is not up has no folder yet."""
FOLDER = "<folder>"
"""Of files for a launcher."""


@dataclass(frozen=True)
class ShownStep:
    on: str
    command: str


@dataclass(frozen=True)
class ShownFault:
    id: str
    kind: str
    host: str | None
    nic: str | None
    place: str
    when: str
    outages_s: Sequence[Sequence[float]]
    facts: Sequence[ShownStep]
    inject: Sequence[ShownStep]
    probe: Sequence[ShownStep]
    revert: Sequence[ShownStep]


@dataclass(frozen=True)
class ShownRun:
    experiment: str
    arm: str
    mode: Mode
    run: Count
    start: Sequence[Launch]
    faults: Sequence[ShownFault]


@form("run_plan", "r2cc chaos run --dry-run: one entry a run of an arm")
@dataclass(frozen=True)
class RunPlan:
    """What would be run."""

    runs: Sequence[ShownRun]


def steps(
    experiment: Experiment,
    arms: Sequence[str],
    *,
    bed: Planned,
    bench: Benches,
    gpus: int = 1,
    of_host: Mapping[str, Mapping[str, str]] | None = None,
    launcher: str = launch.DIRECT,
    targets: Sequence[Target] = (),
    python: str = launch.PYTHON,
    inside: Inside | None = None,
) -> list[ShownRun]:
    """One entry for every run: processes to start and faults to carry out."""
    each = launch.per_host(experiment, gpus)
    planned = planned_faults(experiment, bed.nics, each)
    names = by_host(bed.nics)
    samplers = launch.samplers(names, bench, experiment.workload.net, every_cpu=bool(of_host), each=gpus)

    def started(arm: str) -> list[Launch]:
        ranks = launch.ranks(
            experiment,
            arm,
            bed.hosts,
            bed.root,
            bench,
            places_file=None if of_host else PLACES,
            nics=names,
            gpus=gpus,
            of_host=of_host,
        )
        job = launch.job(ranks, bed.root, launcher, targets, python, inside=inside, mpi=experiment.workload.mpi)
        return [*samplers, *(ranks if job is None else _by_launcher(job, launcher, targets))]

    faults = [fault_step(each) for each in planned]
    return [
        ShownRun(experiment.name, arm, MODES[arm], run, started(arm), faults)
        for run in range(experiment.repeats)
        for arm in arms
    ]


@dataclass(frozen=True)
class _Reach:
    """Hosts that nobody connects to."""

    targets: Sequence[Target]


def _by_launcher(job: Job, launcher: str, targets: Sequence[Target]) -> list[Launch]:
    made = plan(job, launcher, _Reach(targets), FOLDER)
    return [Launch(each.host or "localhost", each.shown, each.argv, dict(each.env)) for each in made.commands]


def fault_step(planned: PlannedFault) -> ShownFault:
    """A fault's commands, and when each runs."""
    spec, fault = planned.spec, planned.fault
    return ShownFault(
        id=spec.id,
        kind=spec.kind,
        host=planned.host,
        nic=planned.nic,
        place=planned.place,
        when=when(planned),
        outages_s=spec.cycles,
        facts=_steps(fault.facts()),
        inject=_steps(fault.inject()),
        probe=_steps(fault.probe()),
        revert=_steps(fault.revert()),
    )


def _steps(steps: Sequence[Step]) -> list[ShownStep]:
    return [ShownStep(place_of(step), step.text()) for step in steps]


def when(planned: PlannedFault) -> str:
    """The trigger in words."""
    at = planned.spec.at
    if at.time_s is not None:
        return f"{at.time_s:g} s after the first measured iteration began"
    if at.launch_s is not None:
        return f"{at.launch_s:g} s after the ranks were started"
    if at.after is not None:
        return f"{at.ms:g} ms after {at.after} was {at.event}"
    if at.bytes is not None:
        return f"when NCCL has moved {at.bytes} bytes on a rank"
    if at.collective is not None:
        return f"when a rank has begun {at.collective} collectives"
    return f"{(at.fraction or 0):.0%} into iteration {at.iteration}"


def text(experiment: Experiment, found: Sequence[ShownRun], fits: bool) -> str:
    """For people; every command as one would type it on its host. `fits`: sizes are found when it runs."""
    lines = [f"{experiment.name}: would run {len(found)} time(s); nothing was started"]
    if fits:
        lines.append("sizes are those at 1 Gbit/s a NIC; where this machine carries less, they shrink with the rate")
    for run in found:
        lines.append(f"\n{run.arm}, run {run.run} (R2CC_MODE={run.mode})")
        lines += [f"  {each.host:<8} $ {each.line()}" for each in run.start]
        for fault in run.faults:
            lines.append(f"  fault {fault.id}: {fault.kind} on {fault.place}, {fault.when}")
            lines += [f"      {_shown(step)}" for step in fault.facts]
            for begins, ends in fault.outages_s:
                lines.append(f"    from {begins:g} s to {ends:g} s:")
                steps = (*fault.inject, *fault.probe, *fault.revert, *fault.probe)
                lines += [f"      {_shown(step)}" for step in steps]
    return "\n".join(lines)


def _shown(step: ShownStep) -> str:
    return f"{step.on:<8} $ {step.command}"
