"""Runs an experiment: opens the bed, runs the arms interleaved, and leaves a run directory whatever happens."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from chaos.analysis.model import Summary
from chaos.analysis.more import more_repeats
from chaos.analysis.summary import summarize
from chaos.experiment.file import dump
from chaos.experiment.model import MODES, Experiment
from chaos.experiment.planned import planned_faults
from chaos.faults.fault import by_host
from chaos.record.clocks import as_json, measure
from chaos.record.journal import Journal, read
from chaos.record.live import Display
from chaos.run import traces
from chaos.run.arm import ArmRun
from chaos.run.foreign import foreign_of
from chaos.run.plan import Plan
from chaos.testbed import launch
from chaos.testbed.beds import Bed
from chaos.testbed.launch import Benches
from harness.errors import R2ccError
from harness.facts.environment import Hardware, environment, hardware
from harness.files.rundir import RunDir
from harness.interrupts import terminable
from harness.workloads.kinds.program import RUN

Json = dict[str, Any]
OpenBed = Callable[[], AbstractContextManager[Bed]]


@dataclass(frozen=True)
class Request:
    """What to run, besides the experiment itself."""

    arms: Sequence[str]
    bench: Benches
    build: Json
    open_bed: OpenBed
    void_ok: bool = False
    trace: bool = False
    hardware: Hardware | None = None
    """Of the bed's machines; None: it is this machine."""
    launcher: str = launch.DIRECT
    python: str = launch.PYTHON
    """Of a launcher that is a Python program."""
    bed: str = "lab"
    """What it is called where it could not be opened."""


def run(experiment: Experiment, request: Request, out: RunDir, display: Display) -> Summary:
    """Runs all arms and returns the summary, which is also in the run directory, as everything else is.

    Never raises for what the summary can say: its `verdict` is then `failed` and its `reasons` begin with why.
    """
    _begin(experiment, request, out)
    stop: tuple[str, bool] | None = None
    bed_name = request.bed

    def summary_of() -> Summary:
        return summarize(
            read(out.journal),
            experiment,
            request.arms,
            bed=bed_name,
            hardware=request.hardware or hardware(),
            build_id=request.build.get("build_id"),
            void_ok=request.void_ok,
            failure=stop and stop[0],
            interrupted=bool(stop and stop[1]),
        )

    with Journal(out.journal) as journal:
        journal.told = display.line
        try:
            with terminable(), request.open_bed() as bed, display:
                bed_name = bed.name
                for run_index in _repeats(experiment, request.arms, summary_of, display):
                    of = max(experiment.repeats, run_index + 1)
                    for plan in _turn(experiment, request, bed, out, run_index):
                        display.run_started(plan.arm, plan.run, of, experiment.workload.measured)
                        run_one(plan, bed, journal, out=out, display=display)
                        traces.fetch(plan, bed, out.raw)
        except KeyboardInterrupt:
            stop = ("interrupted; everything was rolled back", True)
        except (R2ccError, OSError) as error:
            stop = (str(error), False)
        summary = summary_of()
        journal.enter("-", 0)
        journal.write("verdict", verdict=summary.verdict, exit_code=summary.exit_code, reasons=summary.reasons)
    out.write_json("summary.json", summary)
    return summary


def _repeats(
    experiment: Experiment, arms: Sequence[str], judged: Callable[[], Summary], display: Display
) -> Iterator[int]:
    """Each repeat that was asked for; where medians are judged and leave it open, as many more at most."""
    asked = experiment.repeats
    yield from range(asked)
    if all(experiment.hypothesis_of(arm).times == "each" for arm in arms):
        return
    done = asked
    while more := more_repeats(judged().arms, experiment.hypothesis_of, 2 * asked - done):
        display.note(f"repeats are void or do not agree: each arm runs {more} more (at most {2 * asked - done})")
        yield from range(done, done + more)
        done += more


def _turn(experiment: Experiment, request: Request, bed: Bed, out: RunDir, run_index: int) -> list[Plan]:
    """Every arm once."""
    trace = out.raw if request.trace else None
    by = {"launcher": request.launcher, "python": request.python}
    return plans(experiment, request.arms, bed, request.bench, trace, runs=[run_index], **by)


def _begin(experiment: Experiment, request: Request, out: RunDir) -> None:
    """What was asked for, and where; without it, on a full disk, there is no run."""
    try:
        out.write_text("experiment.yaml", dump(experiment))
        out.write_json("environment.json", environment(request.build, machines=request.hardware))
    except BaseException:
        out.discard()
        raise


def plans(
    experiment: Experiment,
    arms: Sequence[str],
    bed: Bed,
    bench: Benches,
    trace: Path | None = None,
    *,
    runs: Sequence[int] | None = None,
    launcher: str = launch.DIRECT,
    python: str = launch.PYTHON,
) -> list[Plan]:
    """Every repeat of every arm in the order in which they run: A B A B, so that a machine growing slow slows all.

    `runs`: these repeats alone. `trace`: the directory under which flight recorders write their dumps (`r2cc trace`
    reads them); None: no dumps.
    """
    nics = by_host(bed.nics)
    hosts = [host for host in bed.hosts if host in nics]
    each = launch.per_host(experiment, bed.gpus)

    token = secrets.token_hex(6)

    def plan(arm: str, run: int) -> Plan:
        foreign = foreign_of(experiment, f"{token}-{arm}-{run}")
        ranks = launch.ranks(
            experiment,
            arm,
            hosts,
            bed.root,
            bench,
            extra={**traces.setting(trace, arm, run, bed), **({RUN: foreign.token} if foreign else {})},
            places_file=bed.places_file,
            nics=nics,
            gpus=bed.gpus,
            of_host=bed.env,
        )
        return Plan(
            arm,
            run,
            ranks,
            launch.samplers(nics, bench, experiment.workload.net, every_cpu=bool(bed.env), each=bed.gpus),
            planned_faults(experiment, bed.nics, each),
            limits=experiment.limits,
            launcher=launcher,
            job=launch.job(
                ranks, bed.root, launcher, bed.targets, python, inside=bed.inside, mpi=experiment.workload.mpi
            ),
            reader=partial(experiment.workload.reader, ranks=len(ranks)),
            foreign=foreign,
        )

    wanted = range(experiment.repeats) if runs is None else runs
    return [plan(arm, run) for run in wanted for arm in arms]


def _network(bed: Bed) -> Json:
    """NICs with what is known of each; `one_subnet` where all of them see each other, so that there are no rails."""
    nics: dict[str, dict[str, Json]] = {host: {} for host in bed.hosts}
    rates = bed.rates_gbit()
    for nic in bed.nics:
        place = nic.host, nic.name
        known = {"device": bed.devices.get(place), "rate_gbit": rates.get(place)}
        nics[nic.host][nic.name] = {"address": nic.address} | {k: v for k, v in known.items() if v is not None}
    flat = bed.topology is not None and bed.topology.one_subnet
    return {"nics": nics} | ({"one_subnet": True} if flat else {})


def run_one(plan: Plan, bed: Bed, journal: Journal, *, out: RunDir, display: Display) -> None:
    journal.enter(plan.arm, plan.run)
    clocks = measure(bed.hosts, bed.samplers)
    told: Json = {"clocks": as_json(clocks)} if clocks else {}
    journal.write("run_start", mode=MODES[plan.arm], wall_ns=time.time_ns(), **_network(bed), **told)
    outcome, reason = "failed", "internal error"
    arm_run = ArmRun(replace(plan, clocks=clocks), bed, journal, out.raw, display)
    try:
        arm_run.run()
        outcome, reason = "finished", ""
    except KeyboardInterrupt:
        outcome, reason = "interrupted", "interrupted"
        raise
    except R2ccError as error:
        reason = error.message
        raise
    except OSError as error:
        reason = str(error)
        raise
    finally:
        journal.write("run_end", exit_codes=arm_run.exit_codes(), outcome=outcome, reason=reason or None)
