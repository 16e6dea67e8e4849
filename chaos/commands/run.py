"""`r2cc chaos run`. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chaos.commands.one_run import last_words, run_one
from harness.commands.launcher_option import LauncherType
from harness.commands.options import (
    RUN_NCCL,
    ExperimentPath,
    arms_option,
    changes_of,
    check_out,
    json_option,
    nccl_option,
    out_option,
    quiet_option,
    set_option,
)
from harness.commands.site_option import site_option
from harness.commands.values import yaml_with
from harness.schemas import dumped

if TYPE_CHECKING:
    from chaos.experiment.model import Experiment
    from chaos.run.dryrun import ShownRun
    from harness.sites.site import Site

EXAMPLES = """\b
Examples:
  r2cc chaos run experiments/nic_down.yaml
  r2cc chaos run experiments/nic_down.yaml --arms stock,migrate --repeats 3
  r2cc chaos run experiments/flap.yaml --set workload.bytes=16MiB --dry-run
  r2cc chaos run experiments/false_positives
  r2cc chaos run experiments/ib/black_hole.yaml --inventory vm:2x2
  r2cc chaos run experiments/ib/black_hole.yaml --inventory vm:2x2 --nccl 2.30.7
  r2cc chaos run experiments/nic_down.yaml --inventory cluster.yaml --launcher mpirun
  salloc -N 4 r2cc chaos run experiments/nic_down.yaml --launcher srun
  r2cc chaos run experiments/black_hole.yaml --json > summary.json

\b
Exit codes: 0 every arm did as expected, 1 one deviated, 2 bad usage or input (nothing was started), 3 run again, 130
interrupted and rolled back. 3 means that the infrastructure failed, the fault missed, or the figures are void.
"""


@click.command(epilog=EXAMPLES)
@click.argument("file", type=ExperimentPath(), shell_complete=yaml_with(b"workload"))
@site_option(
    default="lab",
    metavar="lab|lab:FILE|vm:2x2|FILE",
    text="Where to run; `lab` builds the experiment's own topology, `vm` or `uml` guests with soft-RoCE; FILE: hosts.",
)
@out_option
@click.option(
    "--launcher",
    type=LauncherType("direct"),
    default="direct",
    metavar="NAME",
    help="What starts the ranks on hosts over SSH: mpirun, srun or torchrun; with direct and ssh we do. srun takes the "
    "hosts of the Slurm allocation where --inventory says nothing.",
)
@arms_option()
@set_option()
@click.option(
    "--repeats",
    type=click.IntRange(1, 1000),
    help="How often every arm runs, in turns; with times: median up to twice as often.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Seed of the workload's data.")
@click.option("--dry-run", is_flag=True, help="Print what would run on which host; start nothing.")
@json_option("Print summary.json alone on stdout; progress goes to stderr.")
@click.option(
    "--void-ok",
    is_flag=True,
    help="Exit 0 when the machine was too busy to measure, if all that could be judged is as expected.",
)
@click.option("--trace", is_flag=True, help="Keep flight-recorder dumps of all ranks under raw/ (see `r2cc trace`).")
@click.option(
    "--python",
    metavar="PATH",
    envvar="R2CC_PYTHON",
    help="A Python that has torch, for workloads on GPUs and torchrun (default: python3).",
)
@click.option(
    "--share-gpus", is_flag=True, envvar="R2CC_SHARE_GPUS", help="Let several ranks share a GPU (CUDA's MPS)."
)
@nccl_option(RUN_NCCL)
@quiet_option("Print no progress, only one line on stderr for what was not as expected.")
@click.option("--verbose", is_flag=True, help="Print plain progress lines, also on a terminal.")
def run(
    *,
    file: Path,
    site: Site,
    out: Path,
    launcher: str,
    arms: str | None,
    settings: tuple[str, ...],
    repeats: int | None,
    seed: int | None,
    dry_run: bool,
    as_json: bool,
    void_ok: bool,
    trace: bool,
    python: str | None,
    share_gpus: bool,
    version: str | None,
    quiet: bool,
    verbose: bool,
) -> int:
    """Run the experiment in FILE; the run directory's path is the last line printed.

    A folder means every experiment in it, one after the other; the exit code is that of the worst.
    """
    from chaos.run.suite import experiments
    from harness.launch.hosts import meant

    options: dict[str, Any] = {"out": out, "void_ok": void_ok, "trace": trace, "quiet": quiet, "verbose": verbose}
    options |= {"python": python, "share_gpus": share_gpus, "launcher": launcher, "nccl": version}
    site = click.get_current_context().with_resource(meant(site, launcher))
    wanted = [adjusted(experiment, repeats, seed) for experiment in experiments(file, changes_of(settings))]
    chosen = [arms_of(experiment, arms) for experiment in wanted]
    check_out(out, dry=dry_run)
    if dry_run:
        how = {"python": python, "launcher": launcher, "nccl": version}
        return _dry_run(wanted, chosen, site, how, as_json=as_json)
    if file.is_dir():
        return _suite(wanted, chosen, site, as_json=as_json, options=options)
    summary, shown = run_one(wanted[0], chosen[0], site, as_json=as_json, **options)
    last_words(summary, shown, as_json=as_json, quiet=quiet)
    return summary.exit_code


def _suite(
    wanted: list[Experiment], arms: list[list[str]], site: Site, *, as_json: bool, options: dict[str, Any]
) -> int:
    from chaos.run import suite
    from chaos.testbed.beds import check

    chosen = {id(experiment): names for experiment, names in zip(wanted, arms, strict=True)}
    for experiment in wanted:
        check(site, experiment)

    def outcome(experiment: Experiment) -> suite.Outcome:
        summary, shown = run_one(experiment, chosen[id(experiment)], site, as_json=as_json, **options)
        return suite.Outcome(experiment.name, summary.verdict, summary.exit_code, shown, summary.reasons)

    outcomes = suite.run_all(wanted, outcome, lambda line: None if options["quiet"] else click.echo(line, err=as_json))
    click.echo(dumped(suite.Suite(outcomes), 1) if as_json else suite.table(outcomes))
    return suite.exit_code(outcomes)


def adjusted(experiment: Experiment, repeats: int | None, seed: int | None) -> Experiment:
    """With so many repeats and that seed, where they are given."""
    changes = {"repeats": repeats, "seed": seed}
    return experiment.model_copy(update={key: value for key, value in changes.items() if value is not None})


def arms_of(experiment: Experiment, names: str | None) -> list[str]:
    """The arms asked for, in the order asked for; UsageError for one that the experiment does not have."""
    from harness.errors import UsageError

    known: list[str] = list(experiment.arms)
    if names is None:
        return known
    chosen = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    unknown = [name for name in chosen if name not in known]
    if unknown or not chosen:
        raise UsageError(
            f"--arms: {experiment.name} has no arm {', '.join(map(repr, unknown)) or repr(names)}",
            f"it has {', '.join(known)}",
        )
    return chosen


def _dry_run(wanted: list[Experiment], arms: list[list[str]], site: Site, how: dict[str, Any], *, as_json: bool) -> int:
    from chaos.run.dryrun import RunPlan, text
    from chaos.run.fitting import names_no_rate

    found = [_steps(each, names, site, **how) for each, names in zip(wanted, arms, strict=True)]
    if as_json:
        click.echo(dumped(RunPlan([run for runs in found for run in runs]), 1))
    else:
        fits = [site.adopts_topology and names_no_rate(experiment) for experiment in wanted]
        click.echo("\n\n".join(map(text, wanted, found, fits)))
    return 0


def _steps(
    experiment: Experiment, arms: list[str], site: Site, *, python: str | None, launcher: str, nccl: str | None
) -> list[ShownRun]:
    from chaos.run.dryrun import PLACES, steps
    from chaos.testbed.beds import check_launcher, gpus_of, launcher_of, planned_bed, targets_of, topology_of
    from chaos.testbed.workbench import planned_for

    bed = planned_bed(site, experiment)
    launcher = launcher_of(experiment, launcher)
    check_launcher(site, experiment, launcher)
    return steps(
        experiment,
        arms,
        bed=bed,
        bench=planned_for(experiment, site, python, nccl),
        gpus=gpus_of(site, experiment),
        of_host=site.env(experiment.workload.net),
        launcher=launcher,
        targets=targets_of(site),
        inside=site.shaped(topology_of(experiment)).inside(PLACES.parent),
        **({"python": python} if python else {}),
    )
