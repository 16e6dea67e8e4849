"""The verdict in one plain sentence, and what has to be said next to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reports import names
from reports.trace import Json
from reports.units import ms


def headline(summary: Json) -> str:
    """The first thing a reader sees: what the fault cost with R2CC and without."""
    arms: Sequence[Json] = summary.get("arms", [])
    verdict = summary.get("verdict")
    if verdict == "failed" or not arms:
        return "The experiment could not be carried out to its end, so it says nothing about R2CC."
    if verdict == "void":
        return f"The times below say nothing: the machine was too busy or too uneven to measure. {correctness(arms)}"
    compared = _compare(arms)
    if verdict == "deviated":
        odd = [str(a["name"]) for a in arms if a.get("as_expected") is False]
        blame = f"Not as expected: {', '.join(names.arm(a) for a in odd)}." if odd else "Not every arm did as expected."
        return f"{blame} {compared}".strip()
    return compared or correctness(arms)


def correctness(arms: Sequence[Json]) -> str:
    """What holds even when times do not count: how many iterations ran, and whether every element was right."""
    done = sum(int(r.get("iterations") or 0) for a in arms for r in a["runs"])
    wrong = sum(int(r.get("wrong_elements") or 0) for a in arms for r in a["runs"])
    if wrong:
        return f"{wrong} elements of the results were wrong."
    return f"All {done} iterations gave exact results." if done else "No iteration was completed."


def worst_stall_ms(arm: Json) -> float | None:
    """The longest stall over the arm's repeats and faults; None when none could be measured."""
    return worst(fault.get("stall_ms") for run in arm["runs"] for fault in run["faults"])


def worst(values: Iterable[float | None]) -> float | None:
    """The largest of some numbers, leaving out those that could not be measured."""
    known = [float(v) for v in values if v is not None]
    return max(known, default=None)


def best_arm(arms: Sequence[Json]) -> Json | None:
    """The arm of ours with the highest mode: what R2CC can do at best in this run."""
    ours = [a for a in arms if a["name"] not in names.BASELINES]
    return max(ours, key=lambda a: int(a.get("mode") or 0), default=None)


def _compare(arms: Sequence[Json]) -> str:
    ours, stock = best_arm(arms), next((a for a in arms if a["name"] == "stock"), None)
    kind = fault_kind(arms)
    if ours is None or kind is None:
        return ""
    cost = worst_stall_ms(ours)
    text = (
        f"With R2CC the {names.fault(kind)} cost {ms(cost)}"
        if cost is not None
        else f"R2CC came through the {names.fault(kind)}"
    )
    base = worst_stall_ms(stock) if stock else None
    return f"{text}; stock NCCL stalled for {ms(base)}." if base is not None else f"{text}."


def fault_kind(arms: Sequence[Json]) -> str | None:
    """The kind of the first fault that any arm met."""
    return next((str(f["kind"]) for a in arms for r in a["runs"] for f in r["faults"]), None)
