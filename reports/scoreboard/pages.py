"""The scoreboard as Markdown, HTML and CSV, and the part of it that README quotes. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from itertools import groupby

from harness.errors import UsageError
from reports.formats.html import page
from reports.formats.markdown import escape, table
from reports.scoreboard.board import Board
from reports.scoreboard.figures import Row
from reports.scoreboard.takes import NEEDS, Take

HEAD = ("figure", "measured", "spread", "aim", "verdict", "repeats", "older code", "machine", "commit")
SHORT = ("figure", "measured", "aim", "verdict", "older code", "machine", "commit")
BEGIN, END = "<!-- scoreboard: written by `r2cc results render` -->", "<!-- end of the scoreboard -->"
NONE = "–"


def markdown(board: Board, rows: Sequence[Row], raw: str) -> str:
    """The whole page; `raw` leads from it to the folder of takes."""
    parts = [f"# {board.title}", "", *_summary(rows), ""]
    for group, of_group in groupby(rows, key=lambda row: row.cell.group):
        parts += [f"## {group}", ""]
        for _, of_cell in groupby(of_group, key=lambda row: row.cell.name):
            parts += _cell(list(of_cell), raw)
    parts += _published(board)
    return "\n".join(parts).rstrip() + "\n"


def _summary(rows: Sequence[Row]) -> list[str]:
    counts = {
        word: sum(row.verdict == word for row in rows) for word in ("held", "missed", "void", "shown", "not measured")
    }
    shown = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return [
        f"{len(rows)} figures: {shown}. *Void*: the machine was too busy to measure. *Shown*: there is no aim.",
        "A figure is the median over its repeats, but a p99 is of all of them.",
        "*Spread*: the 95 % interval of that median. *All*: the smallest and",
        "the largest, where there are fewer than six. *Older code*: what the same command measured before.",
        "To measure and render again: [scoreboard](../howto/scoreboard.md).",
    ]


def _cell(rows: Sequence[Row], raw: str) -> list[str]:
    cell, takes = rows[0].cell, rows[0].takes
    parts = [
        f"### {cell.title}",
        "",
        f"`{' '.join(cell.run)}`" + (f" ([takes]({raw}/{cell.name}))" if takes else ""),
        "",
    ]
    if cell.note:
        parts += [cell.note, ""]
    if not takes:
        return [*parts, f"Not measured yet: needs {NEEDS[cell.where]}.", ""]
    parts += [*table(HEAD, [[escape(text) for text in cells(row)] for row in rows]), ""]
    parts += [f"- {escape(row.wanted.label)}: {why(row)}" for row in rows if why(row)]
    return [*parts, ""] if parts[-1] else parts


def _published(board: Board) -> list[str]:
    if not board.published:
        return []
    head = ("what", "published", "what it means", "how it compares", "source")
    body = [
        [escape(each) for each in (one.what, one.value, one.meaning, one.compares)] + [one.source]
        for one in board.published
    ]
    said = "Their figures, from their own machines. Nothing here was measured by us."
    return ["## Published by others", "", said, "", *table(head, body)]


def cells(row: Row) -> list[str]:
    """What stands in a row, in the order of HEAD."""
    return [
        row.wanted.label, measured(row), spread(row) or NONE, aim(row), verdict(row), repeats(row), older(row) or NONE,
        *where(row),
    ]  # fmt: skip


def where(row: Row) -> list[str]:
    """Machine and commit."""
    commits = list(dict.fromkeys(take.commit for take in row.takes))
    return [", ".join(dict.fromkeys(map(machine, row.takes))) or NONE, ", ".join(commits) or NONE]


def measured(row: Row) -> str:
    if row.middle is None:
        return NONE
    shown = number(row.middle)
    if row.aim is not None and row.middle != row.aim and shown == number(row.aim):
        shown = f"{row.middle:.5g}"  # on which side of the aim it is must be seen
    return f"{shown} {row.unit}".rstrip()


def spread(row: Row) -> str:
    """95 %: 1.02-1.08, p99 3."""
    between = [] if row.spread is None else ["{}: {}-{}".format(row.spread[0], *map(number, row.spread[1:]))]
    tail = [] if row.p99 is None else [f"p99 {number(row.p99)}"]
    return ", ".join(between + tail)


def verdict(row: Row) -> str:
    """With how many of its values keep to the aim, where not all of them say the same."""
    kept = row.kept(row.values)
    apart = row.verdict in ("held", "missed") and 0 < kept < len(row.values)
    return f"{row.verdict} ({kept} of {len(row.values)})" if apart else row.verdict


def repeats(row: Row) -> str:
    return NONE if row.repeats is None else str(row.repeats)


def older(row: Row) -> str:
    """How many takes of older code kept to the aim, and what they measured."""
    if not row.before:
        return ""
    low, high = number(min(row.before)), number(max(row.before))
    between = low if low == high else f"{low}-{high}"
    return between if row.aim is None else f"{row.kept(row.before)} of {len(row.before)} held: {between}"


def aim(row: Row) -> str:
    return NONE if row.aim is None else f"{'≥' if row.at_least else '≤'} {number(row.aim)}"


def number(value: float) -> str:
    """Three digits, four near 1, where ratios are."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}" if 0.9 <= abs(value) < 2 else f"{value:.3g}"


def machine(take: Take) -> str:
    cards = f", {len(take.gpus)} x {take.gpus[0]}" if take.gpus else ""
    return f"{take.machine.cores} cores{cards}"


def comma_separated(rows: Sequence[Row]) -> str:
    """One line a figure, with all its values."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            "cell",
            "figure",
            "unit",
            "median",
            "spread",
            "low",
            "high",
            "p99",
            "aim",
            "at_least",
            "verdict",
            "values",
            "repeats",
            "older",
            "commit",
        ]
    )
    for row in rows:
        of, low, high = row.spread or ("", "", "")
        writer.writerow([
            row.cell.name, row.wanted.label, row.unit, _or_empty(row.middle), of, low, high,
            _or_empty(row.p99), _or_empty(row.aim), row.at_least, row.verdict, " ".join(map(str, row.values)),
            _or_empty(row.repeats), " ".join(map(str, row.before)), row.takes[-1].commit if row.takes else "",
        ])  # fmt: skip
    return out.getvalue()


def _or_empty(value: float | None) -> float | str:
    return "" if value is None else value


def html(board: Board, rows: Sequence[Row]) -> str:
    """One file that loads nothing and runs nothing."""
    groups = [(group, list(of_group)) for group, of_group in groupby(rows, key=lambda row: row.cell.group)]
    return page("scoreboard.html.j2", board=board, groups=groups, head=HEAD, cells=cells, state=state, why=why)


def state(row: Row) -> str:
    """The class of a verdict in our style sheet."""
    return {"held": "good", "missed": "bad", "void": "void"}.get(row.verdict, "")


def why(row: Row) -> str:
    """Why it is missed; empty where it is not, or nobody knows."""
    return row.wanted.missed if row.verdict == "missed" else ""


def quoted(text: str, rows: Sequence[Row]) -> str:
    """README with the short table between its two marks. UsageError where they are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UsageError(
            f"README has no '{BEGIN}' with '{END}' behind it", "put both lines where the table shall stand"
        )
    quotes = [row for row in rows if row.wanted.readme and row.takes]
    titles = [f"{row.cell.title}: {row.wanted.label}" for row in quotes]
    body = [
        [title, measured(row), aim(row), verdict(row), older(row) or NONE, *where(row)]
        for title, row in zip(titles, quotes, strict=True)
    ]
    shown = (
        "\n".join(table(SHORT, [[escape(text) for text in line] for line in body]))
        if body
        else "None of them was measured yet."
    )
    return f"{before}{begin}\n{shown}\n{end}{after}"
