"""Comparisons for people: on a terminal, as Markdown, as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from reports.compare.model import Comparison, Row

HEADER = ("arm", "figure", "size", "before", "after", "change", "95 %", "of bound", "runs", "outcome")


def cells(row: Row) -> tuple[str, ...]:
    """A row in words, in the order of HEADER."""
    told = row.shift
    change = f"{(told.ratio - 1) * 100:+.1f} %" if told else _plain_change(row)
    interval = f"{(told.low - 1) * 100:+.1f}..{(told.high - 1) * 100:+.1f}" if told else ""
    of_bound = f"{row.after / row.bound:.2f}" if row.after is not None and row.bound else ""
    counts = str(row.counts[0]) if row.counts[0] == row.counts[1] else f"{row.counts[0]}/{row.counts[1]}"
    sizes = "" if row.size_bytes is None else size(row.size_bytes)
    return (
        row.arm, f"{row.name} [{row.unit}]", sizes, _number(row.before), _number(row.after), change, interval, of_bound,
        counts, row.outcome,
    )  # fmt: skip


def size(count: int) -> str:
    """`64 MiB`, as nccl-tests' sizes are read."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor and count % factor == 0:
            return f"{count // factor} {unit}"
    return f"{count} B"


def markdown(found: Sequence[Comparison]) -> str:
    """For a pull request."""
    return "\n".join(line for comparison in found for line in _markdown(comparison))


def _markdown(comparison: Comparison) -> Iterator[str]:
    yield f"**{comparison.after}** against {comparison.before}: **{comparison.verdict}**"
    yield from (f"- {line}" for line in comparison.differs)
    if comparison.rows:
        yield ""
        yield f"| {' | '.join(HEADER)} |"
        yield "|" + "---|" * len(HEADER)
        for row in comparison.rows:
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells(row)) + " |"
    yield ""


def comma_separated(found: Sequence[Comparison]) -> str:
    """One line a row, numbers as they are."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    figures = ("size_bytes", "before", "after", "bound", "ratio", "low", "high", "p_adjusted", "outcome")
    writer.writerow(["before_run", "after_run", "arm", "name", "unit", *figures])
    for comparison in found:
        for row in comparison.rows:
            told = (row.shift.ratio, row.shift.low, row.shift.high) if row.shift else (None, None, None)
            about = (comparison.before, comparison.after, row.arm, row.name, row.unit, row.size_bytes)
            writer.writerow([*about, row.before, row.after, row.bound, *told, row.p_adjusted, row.outcome])
    return out.getvalue()


def _plain_change(row: Row) -> str:
    """Without a test: the medians' own."""
    return f"({(row.after / row.before - 1) * 100:+.1f} %)" if row.before and row.after is not None else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
