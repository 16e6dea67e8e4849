"""`r2cc chaos campaign`: many experiments, bit by bit. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.commands.options import (
    RUN_NCCL,
    ExperimentPath,
    FilePath,
    check_out,
    json_option,
    nccl_option,
    quiet_option,
)
from harness.commands.site_option import site_option
from harness.commands.values import yaml_with
from harness.schemas import dumped

if TYPE_CHECKING:
    from chaos.campaign.model import Campaign, Cell
    from chaos.campaign.run import Runner
    from chaos.campaign.state import State
    from harness.sites.site import Site

LOCKED_S = 1.0
EPILOG = """\b
Examples:
  r2cc chaos campaign experiments/campaigns/two_gpus.yaml --out runs/gpu --minutes 25
  r2cc chaos campaign experiments/campaigns/two_gpus.yaml --out runs/gpu --only 'link_down*' --dry-run
  r2cc chaos campaign experiments/campaigns/two_gpus.yaml --out runs/gpu-2.30.7 --nccl 2.30.7
  r2cc chaos campaign experiments/cloudlab/campaigns/paper.yaml --out runs/paper --inventory cluster.yaml

\b
Exit codes, of the chosen cells: 0 all that ran did as expected, 1 one deviated, 2 bad usage or input, 3 one failed,
130 interrupted and rolled back. Cells may be left: the last lines and `left` of the JSON say which. The same command
goes on with them.
"""


@click.command(epilog=EPILOG)
@click.argument("file", type=ExperimentPath(), shell_complete=yaml_with(b"cells"))
@click.option(
    "--out",
    type=FilePath(file_okay=False),
    required=True,
    help="The campaign's folder; it is kept between calls.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(0, min_open=True),
    help="Start no cell that would not end within this many minutes.",
)
@site_option(metavar="lab|lab:FILE|vm:2x2|FILE", text="Where all cells run, instead of what FILE says.")
@click.option("--only", metavar="PATTERN", help="Run only cells whose name matches, with * and ? as in a shell.")
@click.option("--retry", is_flag=True, help="Also run cells again that failed three times.")
@click.option("--dry-run", is_flag=True, help="Say what would run; start and write nothing.")
@click.option("--void-ok", is_flag=True, help="Count a cell as done when the machine was too busy to measure.")
@click.option("--trace", is_flag=True, help="Keep flight-recorder dumps, as `r2cc chaos run` does.")
@click.option(
    "--python",
    metavar="PATH",
    envvar="R2CC_PYTHON",
    help="A Python that has torch, for workloads on GPUs (default: python3).",
)
@click.option(
    "--share-gpus", is_flag=True, envvar="R2CC_SHARE_GPUS", help="Let several ranks share a GPU (CUDA's MPS)."
)
@nccl_option(f"{RUN_NCCL} A cell that is done is run again for another version.")
@json_option("Print the campaign's state alone on stdout.")
@quiet_option("Print no progress, only the table.")
@click.pass_context
def campaign(
    ctx: click.Context,
    *,
    file: Path,
    out: Path,
    minutes: float | None,
    site: Site | None,
    only: str | None,
    retry: bool,
    dry_run: bool,
    void_ok: bool,
    trace: bool,
    python: str | None,
    share_gpus: bool,
    version: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Run the cells of the campaign in FILE that are not done yet; what is done is kept in --out.

    A cell that failed is run again by the next call, and one that FILE asks for otherwise than before, too.
    """
    from chaos.campaign.load import load
    from chaos.campaign.run import Limits, Runner
    from chaos.campaign.state import resume
    from harness.files.lock import exclusive

    wanted = load(file, site, version)
    for cell in wanted.cells:
        ctx.call_on_close(cell.site.close)
    names = _chosen(wanted, only)
    _check_nccl(wanted, names)
    options = {"void_ok": void_ok, "trace": trace, "python": python, "share_gpus": share_gpus, "quiet": quiet}
    limits = Limits(minutes, names, retry)

    def tell(line: str) -> None:
        if not quiet:
            click.echo(line, err=True)

    check_out(out, dry=dry_run)
    if dry_run:
        return _dry_run(Runner(wanted, resume(out, wanted), limits, _cell_runner(options), tell), as_json=as_json)
    _make(out)
    with exclusive(out / ".lock", "running this campaign", timeout_s=LOCKED_S):
        state = resume(out, wanted)
        interrupted = _run(Runner(wanted, state, limits, _cell_runner(options), tell))
        _last_words(state, names, interrupted=interrupted, as_json=as_json, quiet=quiet)
    return _exit_code(state, names, interrupted=interrupted)


def _chosen(campaign: Campaign, pattern: str | None) -> list[str]:
    """Names of the cells that the pattern means; UsageError when it means none."""
    from harness.errors import UsageError

    known = [cell.name for cell in campaign.cells]
    names = [name for name in known if pattern is None or fnmatch.fnmatchcase(name, pattern)]
    if not names:
        raise UsageError(f"--only {pattern}: {campaign.name} has no such cell", f"it has {', '.join(known)}")
    return names


def _check_nccl(campaign: Campaign, names: Sequence[str]) -> None:
    """UsageError where a cell cannot run with the NCCL that was asked for, before the first of them is started."""
    from chaos.testbed.workbench import layout_for

    for cell in campaign.cells:
        if cell.name in names:
            layout_for(cell.experiment, cell.site, cell.nccl)


def _make(out: Path) -> None:
    from harness.errors import UsageError

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make {out}: {error.strerror}", "give another --out") from error


def _cell_runner(options: dict[str, Any]) -> Callable[[Cell, Path], None]:
    """As `r2cc chaos run` runs it; its progress goes to stderr, and its report into its directory alone."""

    def run(cell: Cell, out: Path) -> None:
        from chaos.commands.one_run import run_one

        settings = {**options, "out": out, "as_json": True, "verbose": False, "nccl": cell.nccl}
        run_one(cell.experiment, list(cell.arms), cell.site, **settings)

    return run


def _run(runner: Runner) -> bool:
    """Whether it was interrupted; then everything is rolled back."""

    try:
        runner.run()
    except KeyboardInterrupt:
        return True
    return False


def _exit_code(state: State, names: Sequence[str], *, interrupted: bool) -> int:
    from chaos.campaign.run import INTERRUPTED, exit_code

    return INTERRUPTED if interrupted else exit_code(state, names)


def _last_words(state: State, names: Sequence[str], *, interrupted: bool, as_json: bool, quiet: bool) -> None:
    """The table, what is left, and the campaign's directory as the last line; or the JSON alone."""
    from chaos.campaign.figures import table
    from chaos.campaign.run import left
    from harness.files.rundir import RunDir
    from harness.plugins import after_campaign

    try:
        after_campaign(state.folder, quiet=quiet or as_json)
    finally:
        rest = left(state, names)
        if as_json:
            code = _exit_code(state, names, interrupted=interrupted)
            click.echo(dumped(state.ended(code, rest), 1))
        else:
            click.echo(table(state.folder, [state.cells[name] for name in names]))
            if rest:
                click.echo(f"left: {len(rest)} of {len(names)}: {', '.join(rest)}")
        click.echo(RunDir(state.folder).shown(), err=as_json)


def _dry_run(runner: Runner, *, as_json: bool) -> int:
    """Every cell chosen, what it would run, and why it would not."""
    from chaos.campaign.run import CampaignPlan

    cells = [runner.planned(cell) for cell in runner.wanted()]
    if as_json:
        click.echo(dumped(CampaignPlan(cells), 1))
        return 0
    for cell in cells:
        takes = "" if cell.minutes is None else f", about {cell.minutes:g} min"
        what = f"{cell.repeats} x {', '.join(cell.arms)} on {cell.inventory}{takes}"
        click.echo(f"{cell.name}: {cell.why_not or 'would run'}\n  {cell.experiment}: {what}")
        for key, value in cell.set.items():
            click.echo(f"  {key}: {json.dumps(value)}")
    click.echo("nothing was started")
    return 0
