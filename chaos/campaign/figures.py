"""A campaign's key figures, from the summaries of its cells alone. Pure but for reading them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.analysis.model import Arm, summary_of
from chaos.analysis.stats import median
from chaos.campaign.state import DONE, FAILED, CellState
from harness.config import jsons
from harness.config.files import Unreadable
from harness.errors import UsageError

LONGEST = 300
"""Of what an error says of a file."""


@dataclass(frozen=True)
class ArmFigures:
    """One arm of one cell over all of its repeats; None for what was not measured, or has no bound."""

    arm: str
    expect: str
    verdict: str
    as_expected: bool | None
    void: bool
    healthy_ms: float | None
    """The median of the repeats' medians."""
    beyond_bound_ms: float | None
    """The worst fault's iteration, less its bound: what failing over cost."""
    degraded_ratio: float | None
    """The worst fault's degraded iterations over their bound."""
    failovers: int | None
    """The most of a repeat, in connections."""
    wrong_elements: int
    healthy_ratio: float | None
    """Healthy iterations over stock's."""


def of_arm(arm: Arm) -> ArmFigures:
    """Of an arm of a summary."""
    runs = arm.runs
    faults = [fault for run in runs for fault in run.faults]
    moved = _known(run.metric("failovers") for run in runs)
    return ArmFigures(
        arm=arm.name,
        expect=arm.expect,
        verdict=arm.verdict,
        as_expected=arm.as_expected,
        void=any(run.void for run in runs),
        healthy_ms=median(_known(run.healthy_ms.median for run in runs)),
        beyond_bound_ms=max(_known(_less(f.iteration_ms, f.iteration_bound_ms) for f in faults), default=None),
        degraded_ratio=max(_known(_over(f.degraded_ms, f.degraded_bound_ms) for f in faults), default=None),
        failovers=round(max(moved)) if moved else None,
        wrong_elements=sum(run.wrong_elements for run in runs),
        healthy_ratio=next((each.value for each in arm.metrics if each.name == "healthy_ratio"), None),
    )


def of_cell(folder: Path, cell: CellState) -> list[ArmFigures]:
    """Of a cell that is done; nothing of any other."""
    if cell.state != DONE or cell.directory is None:
        return []
    path = folder / cell.directory / "summary.json"
    try:
        return [of_arm(arm) for arm in summary_of(jsons.mapping_of(path, schema=1)).arms]
    except (Unreadable, ValueError) as error:
        said = error.message if isinstance(error, Unreadable) else f"{path.name} is no summary: {error}"
        raise UsageError(
            f"{path.parent}: {' '.join(said.split())[:LONGEST]}", "remove that folder: the cell is run again"
        ) from error


def alike(cells: Iterable[CellState]) -> dict[str, list[CellState]]:
    """Cells that failed, by why they did: what is not there is mostly missed by many of them."""
    found: dict[str, list[CellState]] = {}
    for cell in cells:
        if cell.state == FAILED:
            found.setdefault(cell.reasons[0], []).append(cell)
    return found


def table(folder: Path, cells: Sequence[CellState]) -> str:
    """One line a cell for a terminal: what it came to, how long it took, and the worst of its arms' figures. A reason
    that several share stands once, behind them."""
    width = max((len(cell.name) for cell in cells), default=0)
    lines = []
    shared = {why: len(those) for why, those in alike(cells).items() if len(those) > 1}
    for cell in cells:
        word = cell.verdict if cell.state == DONE else cell.state
        took = "" if cell.seconds is None else f"{cell.seconds:.0f} s"
        found = of_cell(folder, cell)
        alone = cell.state == FAILED and cell.reasons[0] not in shared
        text = "  ".join(words(found)) if found else (cell.reasons[0].splitlines()[0] if alone else "")
        lines.append(f"{cell.name:<{width}}  {word or '':<8}  {took:>6}  {text}".rstrip())
    lines += [f"{many} failed: {why}" for why, many in shared.items()]
    return "\n".join(lines)


def words(found: Sequence[ArmFigures]) -> list[str]:
    """The worst of the arms' figures, and only those that there are."""
    beyond = _known(one.beyond_bound_ms for one in found)
    degraded = _known(one.degraded_ratio for one in found)
    ratio = _known(one.healthy_ratio for one in found)
    healthy = median(_known(one.healthy_ms for one in found))
    return [
        *([f"healthy {healthy:.2f} ms"] if healthy is not None else []),
        *([f"{max(ratio):.3f} of stock"] if ratio else []),
        *([f"{max(beyond):+.1f} ms beyond bound"] if beyond else []),
        *([f"degraded {max(degraded):.2f} x bound"] if degraded else []),
        f"{sum(one.wrong_elements for one in found)} wrong",
        *(["(void)"] if any(one.void for one in found) else []),
    ]


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _less(value: float | None, bound: float | None) -> float | None:
    return None if value is None or bound is None else value - bound


def _over(value: float | None, bound: float | None) -> float | None:
    return None if value is None or not bound else value / bound
