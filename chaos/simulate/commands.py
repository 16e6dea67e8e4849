"""`r2cc sim`: simulate clusters under failures. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.commands.options import (
    ExperimentPath,
    FilePath,
    OutFile,
    changes_of,
    check_out,
    json_option,
    out_option,
    quiet_option,
    set_option,
)
from harness.schemas import dumped

if TYPE_CHECKING:
    from chaos.simulate.run.execute import Executor
    from chaos.simulate.run.experiment import Experiment
    from chaos.simulate.run.result import Simulation
    from chaos.simulate.run.sweep import Sweep

F = TypeVar("F", bound=Callable[..., Any])
INTERRUPTED = 130
EPILOG = """\b
Examples:
  r2cc sim run experiments/sim/overhead.yaml
  r2cc sim run experiments/sim/collective_k_sweep.yaml --set topology.hosts=8 --json
  r2cc sim sweep experiments/sim/job_30_days.yaml --workers 2 --out runs/job
  r2cc sim sweep experiments/sim/job_30_days.yaml --out runs/job --resume
  r2cc sim sweep experiments/sim/job_30_days.yaml --scheduler tcp://10.0.0.1:8786 --out runs/job

\b
Exit codes: 0 every expectation of the file holds, 1 one does not, 2 bad usage or input (nothing was started),
3 a worker or the scheduler failed, 130 interrupted. Finished cells are kept.
"""


@click.group()
def sim() -> None:
    """Simulate hundreds to thousands of GPUs under failures, with the schedules that really run.

    \b
    Examples:
      r2cc sim run experiments/sim/overhead.yaml
      r2cc sim sweep experiments/sim/job_30_days.yaml --workers 2 --out runs/job
      r2cc sim validate
    """


def common(command: F) -> F:
    """What every command takes that reads a simulation's file."""
    options = [
        click.argument("file", type=ExperimentPath()),
        click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="The seed, instead of the file's."),
        set_option(),
        json_option("Print the result alone on stdout, as JSON."),
        quiet_option(),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@sim.command(epilog=EPILOG)
@common
@out_option
@click.option("--dry-run", is_flag=True, help="Say what would be simulated; simulate and write nothing.")
def run(
    file: Path, seed: int | None, settings: tuple[str, ...], *, as_json: bool, quiet: bool, out: Path, dry_run: bool
) -> int:
    """Simulate the experiment in FILE, here and now; the run directory's path is the last line printed."""
    from chaos.simulate.run.execute import Here
    from chaos.simulate.run.sweep import Sweep
    from harness.files import rundir

    experiment = _load(file, seed, settings)
    check_out(out, dry=dry_run)
    if dry_run:
        return _dry_run(experiment, as_json=as_json)
    sweep = Sweep(experiment, rundir.create(out, experiment.name).path)
    again = _again("sim sweep", file, seed, settings, "--out", str(sweep.folder), "--resume")
    return _carry_out(sweep, Here(), again, as_json=as_json, quiet=quiet, resume=False)


@sim.command(epilog=EPILOG)
@common
@click.option(
    "--out",
    type=FilePath(file_okay=False),
    required=True,
    help="The run directory; it is kept between calls.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    help="How many processes of this machine. Without it: as many as it has cores.",
)
@click.option("--scheduler", metavar="ADDRESS", help="The scheduler of a Dask cluster, instead of processes.")
@click.option("--resume", is_flag=True, help="Go on with what is in --out.")
@click.option("--dry-run", is_flag=True, help="Say what would be simulated; simulate and write nothing.")
def sweep(
    file: Path,
    seed: int | None,
    settings: tuple[str, ...],
    *,
    as_json: bool,
    quiet: bool,
    out: Path,
    workers: int | None,
    scheduler: str | None,
    resume: bool,
    dry_run: bool,
) -> int:
    """Simulate the experiment in FILE with many workers, and go on where it was stopped.

    Results are the same to the byte whoever computes them, however many there are, and however often it was stopped.
    """
    from chaos.simulate.run.execute import Dask, Processes
    from chaos.simulate.run.sweep import Sweep
    from harness.errors import UsageError

    if scheduler is not None and workers is not None:
        raise UsageError("--workers and --scheduler exclude each other", "a cluster's workers are its own")
    experiment = _load(file, seed, settings)
    if dry_run:
        Sweep(experiment, out).check(resume=resume, dry=True)
        return _dry_run(experiment, as_json=as_json)
    executor = Processes(workers or len(os.sched_getaffinity(0))) if scheduler is None else Dask(scheduler)
    who = [f"--scheduler={scheduler}"] if scheduler else [f"--workers={workers}"] if workers else []
    again = _again("sim sweep", file, seed, settings, *who, "--out", str(out), "--resume")
    return _carry_out(Sweep(experiment, out), executor, again, as_json=as_json, quiet=quiet, resume=resume)


def _load(file: Path, seed: int | None, settings: tuple[str, ...]) -> Experiment:
    from chaos.simulate.run.experiment import load

    return load(file, {**changes_of(settings), **({} if seed is None else {"seed": seed})})


def _again(command: str, file: Path, seed: int | None, settings: tuple[str, ...], *more: str) -> str:
    """The command that goes on."""
    words = ["r2cc", *command.split(), str(file), *(f"--set={each}" for each in settings)]
    words += [] if seed is None else [f"--seed={seed}"]
    return shlex.join([*words, *more])


def _carry_out(sweep: Sweep, executor: Executor, again: str, *, as_json: bool, quiet: bool, resume: bool) -> int:
    from harness.plugins import after_run
    from harness.progress import show

    try:
        sweep.prepare(resume=resume)
        with sweep.alone():
            with show("simulating") as step:
                sweep.run(executor, step.update)
            result = _finish(sweep)
    except KeyboardInterrupt:
        done, total = sweep.progress()
        click.echo(f"r2cc: interrupted: {done} of {total} cells are done; go on with\n  {again}", err=True)
        return INTERRUPTED
    if as_json:
        click.echo(dumped(result, 1))
    try:
        after_run(sweep.folder, quiet=quiet or as_json)
    finally:
        click.echo(sweep.run_dir.shown(), err=as_json)
    return result.exit_code


def _finish(sweep: Sweep) -> Simulation:
    """simulation.json and what lies beside it."""
    from chaos.simulate.run import result
    from chaos.simulate.run.cell import code_id
    from chaos.simulate.run.sweep import RESULT
    from harness.facts.environment import environment

    found = result.build(sweep.experiment, sweep.results(), code_id())
    if sweep.experiment.keep_traces:
        sweep.write_traces()
    sweep.run_dir.write_json("environment.json", environment({"build_id": code_id()}))
    sweep.run_dir.write_json(RESULT, found)
    return found


def _dry_run(experiment: Experiment, *, as_json: bool) -> int:
    """The points, the arms and how much there is to do."""
    from chaos.simulate.run.cell import Payload
    from chaos.simulate.run.result import Plan, PlannedPoint

    cells = Payload.of(experiment).cells()
    traces = sum(cell.count for cell in cells)
    if as_json:
        points = [PlannedPoint(point.at, point.topology, point.workload) for point in experiment.points]
        plan = Plan(experiment.name, tuple(experiment.arms), experiment.seed, points, len(cells), traces)
        click.echo(dumped(plan, 1))
        return 0
    click.echo(f"{experiment.name}: {experiment.title or 'no title'}")
    for point in experiment.points:
        click.echo(f"  {point.label()}")
    arms = ", ".join(experiment.arms)
    click.echo(f"{len(experiment.points)} point(s), {traces} trace(s) in {len(cells)} cell(s), arms {arms}")
    click.echo(f"seed {experiment.seed}; nothing was simulated")
    return 0


@sim.command()
@common
@click.option("--out", type=OutFile(), required=True, help="The file to write the trace to.")
@click.option("--trace", "number", type=click.IntRange(0), default=0, help="Which of the traces to write, from 0.")
@click.option("--point", type=click.IntRange(0), default=0, help="Which point of the axes it is for, from 0.")
def faults(
    file: Path,
    seed: int | None,
    settings: tuple[str, ...],
    *,
    as_json: bool,
    quiet: bool,
    out: Path,
    number: int,
    point: int,
) -> int:
    """Write one trace of the experiment in FILE: what fails when, as the simulation has it.

    \b
    Examples:
      r2cc sim faults experiments/sim/job_30_days.yaml --out trace.jsonl
      r2cc sim run experiments/sim/job_30_days.yaml --set 'faults={trace: trace.jsonl}'
    """
    from chaos.simulate.run import sweep as sweeps
    from harness.errors import UsageError

    experiment = _load(file, seed, settings)
    if point >= len(experiment.points):
        raise UsageError(f"--point {point}: there are {len(experiment.points)}, counted from 0", "give a lower one")
    trace = sweeps.write_trace(experiment, experiment.points[point], number, out)
    if as_json:
        click.echo(dumped(sweeps.TraceWritten(str(out), trace.seed, trace.days, len(trace.faults))))
    elif not quiet:
        click.echo(f"{len(trace.faults)} faults in {trace.days:g} days, seed {trace.seed}")
        click.echo(str(out))
    return 0


@sim.command()
@json_option("Print every check as JSON.")
@quiet_option("Print only what makes the exit code 1.")
def validate(*, as_json: bool, quiet: bool) -> int:
    """Hold the simulator to formulas, to published figures and to what was measured in the lab.

    \b
    Exit codes: 0 nothing deviates, 1 something does. Misses that are written down do not count: those with a reason,
    and at most eight without one.
    Examples:
      r2cc sim validate
      r2cc sim validate --json
    """
    from chaos.simulate.validate import checking
    from chaos.simulate.validate.checks import Checked

    found = checking.run_checks()
    good = checking.good(found)
    if as_json:
        click.echo(dumped(Checked("holds" if good else "deviated", found)))
    elif told := checking.text(found, quiet=quiet):
        click.echo(told)
    return 0 if good else 1
