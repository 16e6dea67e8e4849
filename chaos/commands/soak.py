"""`r2cc chaos soak`: random faults until time is up or something breaks. Imports little: loaded for `r2cc --help`."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.commands.options import (
    RUN_NCCL,
    ExperimentPath,
    FilePath,
    Renamed,
    json_option,
    nccl_option,
    out_option,
    quiet_option,
)
from harness.commands.values import yaml_with
from harness.schemas import dumped

if TYPE_CHECKING:
    from chaos.experiment.model import Experiment
    from chaos.soak.draw import Shape
    from chaos.soak.judge import Report
    from chaos.soak.run import Request
    from chaos.testbed.launch import Benches

GUESTS = "2x2"
"""What `--testbed vm` opens: the shapes of chaos/soak/draw.py."""


@click.command()
@click.option(
    "--resume",
    type=FilePath(file_okay=False),
    metavar="DIR",
    help="Go on with the soak in this folder: its seed, arm, testbed and round length, from its next round on.",
)
@click.option("--minutes", type=click.FloatRange(0.05, 10_000), default=10.0, help="How many minutes to go on.")
@click.option("--faults", "max_faults", type=click.IntRange(1), help="Stop after this many faults, if that is earlier.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    help="The seed of what is drawn. Without it: a new one, which is printed.",
)
@click.option(
    "--arm",
    "--arms",
    "arm",
    type=click.Choice(["stock", "migrate", "balance", "allreduce"]),
    default="migrate",
    help="Which arm runs.",
)
@click.option(
    "--testbed",
    "bed",
    cls=Renamed,
    old="--bed",
    type=click.Choice(["lab", "vm", "uml"]),
    default="lab",
    help="Where to run: in the lab, or over soft-RoCE on two guests, emulated (vm) or of User Mode Linux (uml).",
)
@click.option(
    "--under",
    type=ExperimentPath(),
    shell_complete=yaml_with(b"workload"),
    metavar="FILE",
    help="Draw faults for the topology and workload of this experiment.",
)
@click.option(
    "--python", metavar="PATH", envvar="R2CC_PYTHON", help="With --under: a Python that has torch (default: python3)."
)
@click.option(
    "--share-gpus", is_flag=True, envvar="R2CC_SHARE_GPUS", help="With --under: let several ranks share a GPU."
)
@click.option("--round-s", type=click.FloatRange(5, 600), default=40.0, help="Length of a round.")
@click.option(
    "--shrink-minutes", type=click.FloatRange(0, 600), default=10.0, help="How many minutes to make a failure smaller."
)
@out_option
@click.option(
    "--corrupt-carrier", metavar="RANK:NIC:N", help="Self-test: that rank lies after this many lost carriers."
)
@nccl_option(RUN_NCCL)
@json_option("Print soak.json without its list of faults; progress on stderr.")
@quiet_option("No progress; on stderr only what was found, if that is a failure.")
def soak(**options: Any) -> int:
    """Draw faults from the whole matrix, check every byte, and shrink the first failure to an experiment file.

    \b
    Examples:
      r2cc chaos soak --minutes 60
      r2cc chaos soak --minutes 60 --seed 7 --arm balance
      r2cc chaos soak --minutes 10 --testbed uml
      r2cc chaos soak --minutes 60 --nccl 2.30.7
      r2cc chaos soak --minutes 30 --under experiments/gpu/collectives.yaml
      r2cc chaos soak --minutes 30 --arm balance --under experiments/jobs/nccl_tests_sweep.yaml
      r2cc chaos soak --resume runs/<time>-soak --minutes 10
      r2cc chaos run runs/<time>-soak/replay.yaml
    """
    return _soaked(Asked(**options))


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options, and the seed that was drawn where none was given."""

    resume: Path | None
    minutes: float
    max_faults: int | None
    seed: int | None
    arm: str
    bed: str
    under: Path | None
    python: str | None
    share_gpus: bool
    round_s: float
    shrink_minutes: float
    out: Path
    corrupt_carrier: str | None
    version: str | None
    as_json: bool
    quiet: bool

    def say(self, text: str) -> None:
        """On stderr, in a line of its own."""
        if not self.quiet:
            click.echo(("\r\033[K" if sys.stderr.isatty() else "") + text, err=True)


def _soaked(asked: Asked) -> int:
    from chaos.soak.resume import earlier
    from chaos.soak.run import Soak
    from chaos.testbed.beds import KeptBed
    from harness.files import rundir
    from harness.files.writing import check_folder
    from harness.progress import show
    from harness.sites.inventory import parse

    before = None if asked.resume is None else earlier(asked.resume, given())
    if asked.resume is not None:
        check_folder(asked.resume)
    asked = _settled(asked, before)
    request = _request(asked, before)
    directory = rundir.create(asked.out, "soak") if asked.resume is None else rundir.RunDir(asked.resume)
    asked.say(f"soak: seed {asked.seed}, arm {asked.arm}, {asked.minutes:g} min, in {directory.shown()}")
    with show("soaking") as step, KeptBed(parse(_inventory(asked.bed))) as kept:
        request = replace(request, open_bed=kept.open) if asked.bed != "lab" else request
        report = Soak(request, directory, asked.say, step.update).run()
    if report.exit_code or not asked.quiet:
        click.echo(_words(report, asked.bed, asked.version), err=True)
    if asked.as_json:
        click.echo(dumped(replace(report, fates=None), 1))
    click.echo(directory.shown(), err=asked.as_json)
    return report.exit_code


def _settled(asked: Asked, before: Report | None) -> Asked:
    """With what the soak that goes on had, or with a seed. UsageError where no folder can be made."""
    from chaos.soak.resume import BEDS
    from harness.errors import UsageError
    from harness.files import rundir

    if before is not None:
        beds = BEDS[before.net]
        bed = asked.bed if "--testbed" in given(("bed",)) else beds[0]
        if bed not in beds:
            raise UsageError(f"--testbed {bed}: the soak ran over {before.net}", f"--testbed {' or '.join(beds)}")
        return replace(asked, seed=before.seed, arm=before.arm, round_s=before.round_s, bed=bed)
    rundir.check(asked.out)
    return replace(asked, seed=secrets.randbelow(2**31) if asked.seed is None else asked.seed)


def _request(asked: Asked, before: Report | None) -> Request:
    """What to soak. UsageError where it is not what the soak did that goes on."""
    from chaos.soak.draw import SHAPES, VM_SHAPES
    from chaos.soak.resume import digest_of, same_build, same_workload
    from chaos.soak.run import Request
    from chaos.testbed.beds import open_bed
    from harness.sites.inventory import parse

    own = None if asked.under is None else _shape_under(asked.under, asked.bed, asked.arm)
    under, digest = (None, None) if own is None else (own.under, digest_of(own, asked.arm))
    if before is not None:
        same_workload(before, under, digest)
    bench, build = _bench(under, asked, quiet=asked.as_json or asked.quiet)
    if before is not None:
        same_build(before, build)
    return Request(
        arm=asked.arm,
        seed=asked.seed or 0,
        seconds=asked.minutes * 60,
        round_s=asked.round_s,
        shrink_s=asked.shrink_minutes * 60,
        bench=bench,
        build=build,
        open_bed=lambda experiment: open_bed(parse("lab"), experiment),
        shapes=[own] if own is not None else SHAPES if asked.bed == "lab" else VM_SHAPES,
        corrupt_carrier=asked.corrupt_carrier,
        max_faults=asked.max_faults,
        before=before,
        under_digest=digest,
    )


def _bench(own: Experiment | None, asked: Asked, *, quiet: bool) -> tuple[Benches, dict[str, Any]]:
    """What runs the ranks, until the command ends, and what it was built of."""
    from chaos.testbed.hostbench import built
    from chaos.testbed.workbench import bench_for, layout_of
    from harness.sites.inventory import parse

    version = asked.version
    if own is None:
        return built(quiet=quiet, layout=None if version is None else layout_of(version, gpus=False))
    opened = bench_for(own, parse("lab"), asked.python, share=asked.share_gpus, quiet=quiet, version=version)
    return click.get_current_context().with_resource(opened)


def _shape_under(file: Path, bed: str, arm: str) -> Shape:
    """The bed and traffic of the experiment in `file`."""
    from chaos.experiment.file import load
    from chaos.soak.draw import own_shape
    from chaos.testbed.beds import check, check_launcher, launcher_of, topology_of
    from chaos.testbed.launch import DIRECT
    from harness.errors import UsageError
    from harness.sites.inventory import parse

    if bed != "lab":
        raise UsageError("--under: the experiment's topology is made in the lab", "leave --testbed out")
    own = load(file)
    if arm not in own.arms:
        raise UsageError(f"--arm: {own.name} has no arm {arm!r}", f"it has {', '.join(own.arms)}")
    shape = own_shape(own, topology_of(own))
    check(parse("lab"), own)
    check_launcher(parse("lab"), own, launcher_of(own, DIRECT))
    return shape


def given(options: Sequence[str] = ("seed", "arm", "round_s", "out")) -> list[str]:
    """Which of these are on this command line; by default those that a soak which goes on has already."""
    context, typed = click.get_current_context(), click.core.ParameterSource.COMMANDLINE
    found = [name for name in options if context.get_parameter_source(name) is typed]
    return ["--testbed" if name == "bed" else f"--{name.replace('_', '-')}" for name in found]


def _inventory(bed: str) -> str:
    return bed if bed == "lab" else f"{bed}:{GUESTS}"


def _words(report: Report, bed: str, version: str | None = None) -> str:
    """The last lines: what happened, and what to do with a failure."""
    text = (
        f"{report.outcome}: {report.faults} faults in {report.rounds} rounds ({report.missed} more never struck), "
        f"{report.iterations} iterations, {report.bytes_checked / 1e9:.1f} GB checked, "
        f"{report.connections_failed_over} connections moved, {report.connections_failed_back} returned; "
        f"seed {report.seed}"
    )
    failure = report.failure
    where = f" --inventory {_inventory(bed)}" if report.net == "ib" else ""
    where += f" --nccl {version}" if version else ""
    if failure is None:
        return text + (f"\n{report.reason}" if report.reason else "")
    small = "reproduced and made smaller" if failure.reproduced else "could not be reproduced"
    return (
        f"{text}\nround {failure.round}: {failure.why}\n{small}: {failure.replay_faults} of "
        f"{failure.faults} faults; replay with: r2cc chaos run {failure.replay}{where}"
    )
