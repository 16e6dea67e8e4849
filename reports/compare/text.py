"""Comparisons for people: on a terminal, as Markdown, as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from reports.compare.model import Comparison
from reports.compare.row import Row
from reports.compare.traffic import NicRow, sentences

NIC_HEADER = ("arm", "NIC", "sent before", "share before", "sent after", "share after", "change of the share")
MOST_NICS = 16
"""NICs of an arm that are shown to people, those that changed most; CSV and JSON have all."""
HEADER = ("arm", "figure", "size", "before", "after", "change", "95 %", "of bound", "runs", "outcome")


def cells(row: Row) -> tuple[str, ...]:
    """A row in words, in the order of HEADER."""
    change = f"{(row.ratio - 1) * 100:+.1f} %" if row.ratio is not None else _plain_change(row)
    interval = "..".join(f"{(value - 1) * 100:+.1f}" for value in row.interval or ())
    of_bound = f"{row.after / row.bound:.2f}" if row.after is not None and row.bound else ""
    counts = str(row.runs[0]) if row.runs[0] == row.runs[1] else f"{row.runs[0]}/{row.runs[1]}"
    sizes = "" if row.size_bytes is None else size(row.size_bytes)
    return (
        row.arm, f"{row.name} [{row.unit}]", sizes, _number(row.before), _number(row.after), change, interval, of_bound,
        counts, row.outcome,
    )  # fmt: skip


def nic_cells(row: NicRow) -> tuple[str, ...]:
    """A NIC's row in words, in the order of NIC_HEADER."""
    change = "" if row.share_change is None else f"{round(100 * row.share_change, 1) + 0.0:+.1f} points"
    sides = ((row.before_bytes, row.before_share), (row.after_bytes, row.after_share))
    words = [word for count, share in sides for word in (_bytes(count), _percent(share))]
    return (row.arm, f"{row.host}/{row.nic}", *words, change)


def shown_nics(comparison: Comparison) -> list[NicRow]:
    """Of each arm at most MOST_NICS, in their order."""
    found = []
    for arm in dict.fromkeys(row.arm for row in comparison.nics):
        ours = [row for row in comparison.nics if row.arm == arm]
        most = sorted(ours, key=lambda row: -abs(row.share_change or 0.0))[:MOST_NICS]
        found += [row for row in ours if row in most]
    return found


def about(comparison: Comparison) -> list[str]:
    """What stands for each side, what differs between them, and how traffic moved."""
    return [comparison.grouping, *comparison.differs, *sentences(comparison.nics)]


def left_out(comparison: Comparison) -> str | None:
    """What a table of NICs does not show."""
    rest = len(comparison.nics) - len(shown_nics(comparison))
    return f"{rest} more NICs changed less; --format csv and json have them all" if rest else None


def _bytes(count: int | None) -> str:
    return "" if count is None else f"{count / 1e6:.4g} MB"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


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
    yield from (f"- {line}" for line in about(comparison))
    yield from _table(HEADER, [cells(row) for row in comparison.rows])
    yield from _table(NIC_HEADER, [nic_cells(row) for row in shown_nics(comparison)])
    if rest := left_out(comparison):
        yield from ("", rest)
    yield ""


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if rows:
        yield from ("", f"| {' | '.join(header)} |", "|" + "---|" * len(header))
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


COLUMNS = (
    "before_run", "after_run", "arm", "name", "unit", "size_bytes", "before", "after", "bound", "ratio", "low", "high",
    "p_adjusted", "outcome", "host", "nic", "before_share", "after_share", "grouped_by",
)  # fmt: skip


def comma_separated(found: Sequence[Comparison]) -> str:
    """One line a row, numbers as they are; a NIC's sent bytes are rows of the name tx_bytes."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for comparison in found:
        both = {
            "before_run": comparison.before,
            "after_run": comparison.after,
            "grouped_by": " ".join(comparison.grouped_by),
        }
        writer.writerows({**both, **line} for line in (*map(_line, comparison.rows), *map(_nic_line, comparison.nics)))
    return out.getvalue()


def _line(row: Row) -> dict[str, object]:
    plain = ("arm", "name", "unit", "size_bytes", "before", "after", "bound", "p_adjusted", "outcome")
    shift = {"ratio": row.ratio, "low": row.interval[0], "high": row.interval[1]} if row.interval else {}
    return {**{name: getattr(row, name) for name in plain}, **shift}


def _nic_line(row: NicRow) -> dict[str, object]:
    plain = ("arm", "host", "nic", "before_share", "after_share")
    told = {"name": "tx_bytes", "unit": "bytes", "before": row.before_bytes, "after": row.after_bytes}
    return {**{name: getattr(row, name) for name in plain}, **told}


def _plain_change(row: Row) -> str:
    """Without a test: the medians' own."""
    return f"({(row.after / row.before - 1) * 100:+.1f} %)" if row.before and row.after is not None else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
