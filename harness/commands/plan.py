"""`r2cc plan`: what would run, and why. Imports little: it is loaded for `r2cc --help`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from harness.commands.calibrate import calibrate
from harness.commands.options import Size, json_option
from harness.commands.site_option import site_option
from harness.errors import UsageError
from harness.schemas import dumped_as, text_of, whole

if TYPE_CHECKING:
    from harness.schedules.costs.model import Costs
    from harness.schedules.planner import Node
    from harness.sites.site import Site

SCHEDULES = ("auto", "ring", "balance", "published", "chain", "chain_fixed", "optcc", "tree", "reranked")
OPS = ("allreduce", "allgather", "reducescatter", "broadcast", "reduce", "sendrecv", "alltoall")
GPUS = ("volta", "ampere", "hopper", "blackwell")
EXAMPLES = """\b
Examples:
  r2cc plan --nodes 4 --nics 2 --down h1:eth0
  r2cc plan --nodes 8 --nics 4 --gpus 8 --rate 400 --down h2:eth3,h5:eth0=0.5 --bytes 256M
  r2cc plan --inventory lab:topology.yaml --bytes 1GiB --channels 4 --schedule optcc
  r2cc plan --nodes 4 --nics 2 --down h1:eth0 --cost hop_us=8 --json
  r2cc plan --nodes 16 --nics 8 --gpus 8 --rate 400 --down h2:eth3 --bytes 1GiB --costs nvlink
  r2cc plan calibrate rows-4.txt rows-16.txt --nics 8 --rate 400 --out ours.json
  r2cc plan --nodes 32 --nics 8 --gpus 8 --rate 400 --costs ours.json

\b
Exit codes: 0 planned, 2 a request that cannot be planned.
"""


@click.group(
    invoke_without_command=True, epilog=EXAMPLES, short_help="Print which schedule an AllReduce would take, and why."
)
@site_option(metavar="lab|lab:FILE", text="Nodes, NICs and rates of a topology (default: lab).")
@click.option("--nodes", type=click.IntRange(1, 16384), help="Plan for so many nodes h0, h1, ... that are all alike.")
@click.option("--nics", type=click.IntRange(1, 64), help="With --nodes: how many NICs each has (1).")
@click.option(
    "--rate",
    "rate_gbit",
    type=click.FloatRange(0, 1e6, min_open=True),
    help="With --nodes: the rate of a NIC in Gbit/s (1).",
)
@click.option("--gpus", type=click.IntRange(1, 64), help="With --nodes: how many ranks each has (1).")
@click.option("--down", "down", metavar="NODE:NIC[=LEFT],...", multiple=True,
              help="A NIC that is lost, or the share of it (0 to 1) that is left. May be repeated.")  # fmt: skip
@click.option(
    "--bytes",
    "size",
    type=Size(),
    metavar="SIZE",
    default="64MiB",
    help="Size of the message, such as 64MiB, 64M or 8.",
)
@click.option("--op", type=click.Choice(OPS), default="allreduce", help="Which collective to plan.")
@click.option("--datatype", default="float32", help="The type of an element.")
@click.option("--reduction", default="sum", help="How elements are combined, such as sum or max.")
@click.option(
    "--schedule", type=click.Choice(SCHEDULES), default="auto", help="Which schedule to take; auto: the fastest."
)
@click.option(
    "--channels", type=click.IntRange(0, 1024), default=0, help="The most parts a plan may have; 0: any number."
)
@click.option(
    "--cost", "cost", metavar="NAME=VALUE,...", multiple=True, help="Set parameters of the model, for example hop_us=8."
)
@click.option("--planes", type=click.IntRange(0, 64), default=0,
              help="NIC i is in plane i modulo this and reaches that plane alone: 1 for a fabric with a spine."
              " 0: NICs with one place in their nodes reach each other, and no others.")  # fmt: skip
@click.option(
    "--costs",
    "costs_name",
    metavar="FILE|PROFILE",
    help="What hops and bytes cost there: lab, roce-100g, ib-400g, nvlink, or a file that `r2cc plan calibrate` wrote."
    " Left out, it goes by the rate and the GPUs, and the answer says which.",
)
@click.option(
    "--nccl",
    "gpu",
    type=click.Choice(GPUS),
    help="Compare with what NCCL's table of costs chooses on these GPUs, and take its costs; three nodes and more.",
)
@json_option("Print the plan (harness/schemas/plan.schema.json).")
@click.pass_context
def plan(
    context: click.Context, /, *, site: Site | None, nodes: int | None, nics: int | None, rate_gbit: float | None,
    gpus: int | None, down: tuple[str, ...], size: int, cost: tuple[str, ...], costs_name: str | None, gpu: Any,
    as_json: bool, **given: Any,
) -> int:  # fmt: skip
    """Say which schedule a collective would take when some nodes have lost bandwidth.

    It shows how long it would take, beside the lower bound and the healthy time, and what every node would send.
    Nothing is started. See docs/internals/schedules.md.
    """
    from harness.schedules import planner
    from harness.schedules.plan_text import render

    if context.invoked_subcommand is not None:
        return 0
    if nodes is None and (nics or rate_gbit or gpus):
        raise UsageError("--nics, --rate and --gpus describe the nodes of --nodes", "give --nodes as well")
    if nodes is not None and site is not None:
        raise UsageError("--nodes and --inventory exclude each other", "give one of them")
    known = _alike(nodes, nics or 1, rate_gbit or 1.0, gpus or 1) if nodes is not None else _of(site)
    costs = _costs_of(costs_name, gpu, known).with_costs(_costs(cost))
    request = planner.Request(tuple(_without(known, _pairs(down))), size, **costs.values, **given)
    made = planner.plan_json(text_of(whole(request)))
    if as_json:
        click.echo(dumped_as("plan", json.loads(made)))
        return 0
    said = f"Costs: {costs.name} ({costs.title})" + ("" if costs_name or gpu else "; --costs takes others")
    for line in render(planner.Plan.of(made), {rank: node.name for node in known for rank in node.ranks}, said):
        click.echo(line)
    return 0


plan.add_command(calibrate)


def _costs_of(name: str | None, gpu: Any, nodes: list[Node]) -> Costs:
    """What was asked for, or what is usual for such NICs and hosts."""
    from harness.schedules.costs import model
    from harness.schedules.planner import NcclMachine

    if name and gpu:
        raise UsageError("--costs and --nccl exclude each other", "a file of costs says what NCCL runs on")
    if gpu:
        return model.Costs(f"NCCL's own for {gpu}", "the constants of its table", nccl=NcclMachine(gpu))
    if name:
        return model.load(name)
    rate_gbit = max((nic.rate_gbit for node in nodes for nic in node.nics), default=0.0)
    return model.usual(rate_gbit, max(len(node.ranks) for node in nodes))


def _alike(nodes: int, nics: int, rate_gbit: float, gpus: int) -> list[Node]:
    from harness.schedules.planner import Nic, Node

    each = tuple(Nic(f"eth{nic}", rate_gbit) for nic in range(nics))
    return [Node(f"h{node}", tuple(range(node * gpus, (node + 1) * gpus)), each) for node in range(nodes)]


def _of(site: Site | None) -> list[Node]:
    """A NIC that the topology makes slower than the rest has lost the difference."""
    from harness.schedules.planner import Nic, Node
    from harness.sites.lab import LabSite

    topology = (site or LabSite()).topology
    if topology is None:
        raise UsageError(f"inventory {site}: only a lab has a topology", "give lab or lab:FILE")

    def nic(host: str, name: str) -> Nic:
        rate = topology.rate_of(host, name)
        whole = max(rate, topology.rate_gbit)
        return Nic(name, whole, rate / whole)

    def node(index: int) -> Node:
        ranks = range(index * topology.gpus, (index + 1) * topology.gpus)
        return Node(f"h{index}", tuple(ranks), tuple(nic(f"h{index}", f"eth{k}") for k in range(topology.nics)))

    return [node(index) for index in range(topology.hosts)]


def _pairs(texts: tuple[str, ...]) -> list[tuple[str, str | None]]:
    """`a=1,b` as [("a", "1"), ("b", None)]."""
    words = [word.strip() for text in texts for word in text.split(",") if word.strip()]
    split = [word.partition("=") for word in words]
    return [(name.strip(), value.strip() if equals else None) for name, equals, value in split]


def _number(text: str | None, what: str) -> float:
    """Raises UsageError for what is none; the planner judges its range."""
    import math

    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{what}: '{text or ''}' is no number", "write it as 0.5")
    return value


def _costs(texts: tuple[str, ...]) -> Any:
    from harness.schedules.planner import COSTS

    for name, _ in _pairs(texts):
        if name not in COSTS:
            raise UsageError(f"--cost: there is no parameter {name}", f"there are {', '.join(COSTS)}")
    found = {name: _number(value, f"--cost {name}") for name, value in _pairs(texts)}
    return {name: int(value) if value.is_integer() else value for name, value in found.items()}


def _without(nodes: list[Node], down: list[tuple[str, str | None]]) -> list[Node]:
    """The nodes with what --down says is left of their NICs."""
    from dataclasses import replace

    left: dict[str, float] = {}
    for name, value in down:
        if name in left:
            raise UsageError(f"--down has {name} twice", "say once what is left of it")
        left[name] = 0.0 if value is None else _number(value, f"--down {name}")
    known = {f"{node.name}:{nic.name}" for node in nodes for nic in node.nics}
    for name in left:
        if name not in known:
            raise UsageError(f"--down: there is no NIC {name}", f"NICs are called {_some(sorted(known))}")
    return [
        replace(
            node,
            nics=tuple(replace(nic, capacity=left.get(f"{node.name}:{nic.name}", nic.capacity)) for nic in node.nics),
        )
        for node in nodes
    ]


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
