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

HEAD = ("figure", "measured", "95 %, p99", "aim", "verdict", "takes", "machine", "commit")
SHORT = ("figure", "measured", "aim", "verdict")
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
        "A figure is the median over its takes. To measure and render again: [scoreboard](../howto/scoreboard.md).",
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
    parts += [
        f"- {escape(row.wanted.label)}: {row.wanted.missed}"
        for row in rows
        if row.verdict == "missed" and row.wanted.missed
    ]
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
    between = [] if row.interval is None else [f"{number(row.interval[0])}-{number(row.interval[1])}"]
    tail = [] if row.p99 is None else [f"p99 {number(row.p99)}"]
    commits = list(dict.fromkeys(take.commit for take in row.takes))
    return [
        row.wanted.label, measured(row), ", ".join(between + tail) or NONE, aim(row), row.verdict,
        str(len(row.takes)), ", ".join(dict.fromkeys(map(machine, row.takes))) or NONE, ", ".join(commits) or NONE,
    ]  # fmt: skip


def measured(row: Row) -> str:
    return NONE if row.middle is None else f"{number(row.middle)} {row.unit}"


def aim(row: Row) -> str:
    return NONE if row.aim is None else f"{'≥' if row.at_least else '≤'} {number(row.aim)}"


def number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def machine(take: Take) -> str:
    cards = f", {len(take.gpus)} x {take.gpus[0]}" if take.gpus else ""
    return f"{take.machine.cores} cores{cards}"


def comma_separated(rows: Sequence[Row]) -> str:
    """One line a figure, with all its values."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["cell", "figure", "unit", "median", "low", "high", "p99", "aim", "at_least", "verdict", "values", "commit"]
    )
    for row in rows:
        low, high = row.interval or ("", "")
        writer.writerow([
            row.cell.name, row.wanted.label, row.unit, _or_empty(row.middle), low, high, _or_empty(row.p99),
            _or_empty(row.aim), row.at_least, row.verdict, " ".join(map(str, row.values)),
            row.takes[-1].commit if row.takes else "",
        ])  # fmt: skip
    return out.getvalue()


def _or_empty(value: float | None) -> float | str:
    return "" if value is None else value


def html(board: Board, rows: Sequence[Row]) -> str:
    """One file that loads nothing and runs nothing."""
    groups = [(group, list(of_group)) for group, of_group in groupby(rows, key=lambda row: row.cell.group)]
    return page("scoreboard.html.j2", board=board, groups=groups, head=HEAD, cells=cells, state=state)


def state(row: Row) -> str:
    """The class of a verdict in our style sheet."""
    return {"held": "good", "missed": "bad", "void": "void"}.get(row.verdict, "")


def quoted(text: str, rows: Sequence[Row]) -> str:
    """README with the short table between its two marks. UsageError where they are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UsageError(
            f"README has no '{BEGIN}' with '{END}' behind it", "put both lines where the table shall stand"
        )
    body = [
        [escape(f"{row.cell.title}: {row.wanted.label}"), measured(row), aim(row), row.verdict]
        for row in rows
        if row.wanted.readme and row.takes
    ]
    shown = "\n".join(table(SHORT, body)) if body else "None of them was measured yet."
    return f"{before}{begin}\n{shown}\n{end}{after}"
