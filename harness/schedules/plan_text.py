"""A plan as people read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.schedules.planner import NodePlan, Part, Plan
from harness.units import show_bytes

MOST_ROWS = 16
MOST_NAMES = 10
ORDERS = {"chain": "  (head first, tail last)", "tree": "  (root first, level by level)", "direct": "  (in no order)"}
BYTES_PER_US_OF_GBIT = 125.0
SHORT_US = 1000.0
"""Times below are in microseconds."""


def render(plan: Plan, names: Mapping[int, str], costs: str = "") -> Iterator[str]:
    """Lines. `names` has the node of every rank; `costs` says which they are."""
    yield f"{plan.op} of {show_bytes(plan.bytes)}: {plan.schedule}"
    yield f"  {plan.why}."
    yield _threshold(plan)
    if costs:
        yield f"  {costs}."
    yield ""
    yield from _table(("schedule", "predicted", "x healthy", "x bound", ""), _candidates(plan))
    yield ""
    yield from _table(("part", "share", "order"), _parts(plan, names))
    yield ""
    yield from _table(("node", "Gbit/s left", "sends", "receives", "busy"), _nodes(plan))


def _threshold(plan: Plan) -> str:
    if plan.threshold_bytes is None:
        return "  At no size does another schedule pay."
    return f"  A special schedule pays from {show_bytes(plan.threshold_bytes)} up."


def _candidates(plan: Plan) -> Iterator[Sequence[str]]:
    yield "lower bound", _us(plan.bound_us), _times(plan.bound_us, plan.healthy_us), "", "by bandwidth alone"
    runs = "what NCCL would choose" if plan.baselines else "the same" if plan.schedule == "direct" else "a ring"
    yield "healthy", _us(plan.healthy_us), "1.000", _times(plan.healthy_us, plan.bound_us), f"{runs}, every NIC whole"
    runs_as_nccl = plan.nccl_runs is not None and plan.schedule == "ring"
    for one in plan.candidates:
        chosen = one.schedule == plan.schedule or (one.schedule, plan.schedule) == ("ring", "balance")
        chosen = chosen and not (runs_as_nccl and one.schedule == "ring")
        name = f"{one.schedule} <" if chosen else one.schedule
        if one.predicted_us is None:
            yield name, "-", "", "", one.note
            continue
        ratios = (_times(one.predicted_us, plan.healthy_us), _times(one.predicted_us, plan.bound_us))
        yield name, _us(one.predicted_us), *ratios, one.note
    for each in plan.baselines or ():
        ratios = (_times(each.balanced_us, plan.healthy_us), _times(each.balanced_us, plan.bound_us))
        name = f"{each.name} <" if runs_as_nccl and each.name == plan.nccl_runs else each.name
        yield name, _us(each.balanced_us), *ratios, f"NCCL's, on balanced paths; healthy {_us(each.healthy_us)}"


def _parts(plan: Plan, names: Mapping[int, str]) -> Iterator[Sequence[str]]:
    shown = plan.parts[:MOST_ROWS]
    for part in shown:
        yield _kind(part, names), f"{part.share:.4f}", _order(part, names)
    if len(plan.parts) > len(shown):
        yield f"... {len(plan.parts) - len(shown)} more", "", "(--json has all)"


def _kind(part: Part, names: Mapping[int, str]) -> str:
    words: list[str] = [part.kind]
    if part.straggler is not None:
        spared = " ".join(names[ranks[0]] for ranks in part.spared) or names[part.straggler]
        words.append(f"beside {spared}" if part.kind == "optcc" else f"sparing {spared}")
    if part.kind == "published":
        words.append(f"y={part.y:.3g} K={part.pieces}")
    if part.mirrored:
        words.append("mirrored")
    return " ".join(words)


def _order(part: Part, names: Mapping[int, str]) -> str:
    """Nodes, as their ranks stand in a row. Of a chain both ends are told."""
    nodes = list(dict.fromkeys(names[rank] for rank in part.order))
    if len(nodes) > MOST_NAMES:
        nodes = [*nodes[: MOST_NAMES - 2], "...", nodes[-1]]
    return " ".join(nodes) + ORDERS.get(part.kind, "")


def _nodes(plan: Plan) -> Iterator[Sequence[str]]:
    """The slowest ones; in the request's order where all fit."""
    shown: Sequence[NodePlan] = plan.nodes
    if len(shown) > MOST_ROWS:
        shown = sorted(shown, key=lambda node: node.rate_gbit)[:MOST_ROWS]
    for node in shown:
        busy = ""
        if plan.predicted_us > 0 and node.rate_gbit > 0:
            busy = f"{node.tx_bytes / (node.rate_gbit * BYTES_PER_US_OF_GBIT) / plan.predicted_us:.0%}"
        yield node.name, f"{node.rate_gbit:g}", show_bytes(node.tx_bytes), show_bytes(node.rx_bytes), busy
    if len(plan.nodes) > len(shown):
        yield f"... {len(plan.nodes) - len(shown)} more", "", "", "", "(--json has all)"


def _us(value: float) -> str:
    if value < SHORT_US:
        return f"{value:.1f} us"
    return f"{value / 1000:.2f} ms"


def _times(value: float, of: float) -> str:
    return f"{value / of:.3f}" if of > 0 else ""


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    """First and last column to the left, numbers to the right."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    last = len(head) - 1
    for line in lines:
        cells = [
            cell.ljust(width) if column in (0, last) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
