"""`r2cc plan calibrate`: costs from what was timed. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.commands.options import FilePath, OutFile, json_option
from harness.errors import UsageError
from harness.schemas import dumped

if TYPE_CHECKING:
    from harness.schedules.costs.fit import Found
    from harness.schedules.costs.measured import Measured

MOST_ROWS = 12
EXAMPLES = """\b
Examples:
  r2cc run nccl-tests --launcher mpirun --inventory cluster.yaml --gpus 8 --bin DIR > rows-4.txt
  r2cc plan calibrate rows-4.txt rows-16.txt --nics 8 --rate 400 --out ours.json
  r2cc plan calibrate init-4.log init-16.log --nics 8 --rate 400 --base nvlink --json
  r2cc plan calibrate --lab --rate 0.2 --out lab.json
  r2cc plan --nodes 64 --nics 8 --gpus 8 --rate 400 --bytes 1GiB --costs ours.json

\b
Exit codes: 0 fitted, 2 rows that determine nothing, 3 the measurement in the lab failed.
"""


@click.command(epilog=EXAMPLES, short_help="Fit the planner's costs to rows of nccl-tests, or to NCCL's own table.")
@click.argument("files", nargs=-1, type=FilePath(dir_okay=False))
@click.option("--lab", "in_lab", is_flag=True, help="Measure in the lab: all-reduces of the host bench, some seconds.")
@click.option("--nics", type=click.IntRange(1, 64), default=1, help="How many NICs each node has.")
@click.option("--rate", "rate_gbit", type=click.FloatRange(0, 1e6, min_open=True), required=True,
              help="The rate of a NIC in Gbit/s.")  # fmt: skip
@click.option("--gpus", type=click.IntRange(1, 64), help="Ranks on each node, for files that do not say it.")
@click.option(
    "--algorithm",
    type=click.Choice(("ring", "tree", "nvlstree")),
    help="What ran, where NCCL_ALGO was set. Left out: as the file says, else what NCCL's table chooses.",
)
@click.option("--base", metavar="FILE|PROFILE", help="What rows do not determine is taken from here.")
@click.option("--name", default="calibrated", help="How the costs are called.")
@click.option("--out", type=OutFile(), help="Where the file of costs is written.")
@json_option("Print the file of costs (harness/schemas/costs.schema.json).")
def calibrate(
    *, files: tuple[Path, ...], in_lab: bool, nics: int, rate_gbit: float, gpus: int | None, algorithm: str | None,
    base: str | None, name: str, out: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Fit what hops and bytes cost to all-reduces that were timed, on two numbers of nodes or more.

    FILES are what all_reduce_perf printed or wrote (-J), one run each, or logs of NCCL with its table of costs
    (NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,TUNING). The planner (--costs), NCCL (R2CC_COSTS) and simulations (costs)
    read the result.
    """
    from harness.schedules.costs import fit, measured, model

    if in_lab == bool(files):
        raise UsageError("calibrate needs files with rows, or --lab", "r2cc plan calibrate --help")
    nodes = fit.Nodes(nics, rate_gbit)
    if in_lab:
        from harness.schedules.costs.in_lab import all_reduces

        rows, source = all_reduces(nodes), f"the host bench in the lab: r2cc plan calibrate --lab --rate {rate_gbit:g}"
    else:
        rows = [row for file in files for row in measured.read(file, gpus, algorithm or "")]
        source = "rows of " + ", ".join(file.name for file in files)
    profile = model.load(base) if base else model.usual(rate_gbit, max(row.gpus for row in rows))
    found = fit.fit(rows, profile, nodes, name, source)
    if out is not None:
        from harness.files.writing import write_whole

        write_whole(out, dumped(found.costs, 2) + "\n")
    if as_json:
        click.echo(dumped(found.costs, 2))
        return 0
    for line in _told(found, rows, out):
        click.echo(line)
    return 0


def _told(found: Found, rows: Sequence[Measured], out: Path | None) -> Iterator[str]:
    from harness.units import show_bytes

    about = found.costs.fitted
    assert about is not None
    counts = ", ".join(map(str, about.node_counts))
    yield f"{about.rows} of {len(rows)} rows on {counts} nodes: off by {about.mean_error:.1%} on average, at most "\
        f"{about.worst_error:.1%}"  # fmt: skip
    for each in found.left_out:
        yield f"left out: {each}"
    values = _values(found)
    for key in about.values:
        yield f"  {key} = {values[key]:g}"
    worst = sorted(found.errors, key=lambda pair: -abs(pair[1]))[:MOST_ROWS]
    yield "furthest off:"
    for row, error in worst:
        yield f"  {row.nodes} nodes x {row.gpus}, {show_bytes(row.bytes)}: {row.us:.1f} us, the model {error:+.1%}"
    yield f"written: {out}" if out is not None else "--out FILE keeps them; r2cc plan --costs FILE takes them"


def _values(found: Found) -> dict[str, float]:
    """By the names that sources have."""
    costs = found.costs
    out = {f"cost.{key}": float(value) for key, value in costs.cost.items()}  # type: ignore[arg-type]
    for part in ("ring", "tree", "nvls_tree"):
        cost = getattr(costs.nccl, part, None)
        if cost is not None:
            out |= {f"nccl.{part}.{key}": float(value) for key, value in vars(cost).items() if value is not None}
    return out
