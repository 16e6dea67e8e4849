"""The Markdown report, made to be pasted into a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from reports.formats import view
from reports.reading.rundir import RunDir
from reports.words import cells, names


def render(run: RunDir) -> str:
    """Verdict, tables and environment; figures stay in the HTML report."""
    v = view.build(run)
    parts = [f"## {names.icon(v.verdict)} {names.verdict(v.verdict)}: {escape(v.headline)}", ""]
    if v.title:
        parts += [escape(v.title), ""]
    parts += [f"- {escape(remark)}" for remark in v.remarks]
    parts += [f"- **Incomplete:** {escape(note)}" for note in v.notes] + [""]
    parts += _table("", v.arms, v.side_by_side) + _table("Checks", v.arms, v.checks)
    parts += [", ".join(f"{name}: {escape(value)}" for name, value in v.facts), ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts))


def escape(text: str) -> str:
    """Text that Markdown, GitHub's HTML and table cells leave alone; line breaks become spaces."""
    flat = " ".join(text.split())
    return re.sub(r"([\\`*_\[\]|~#@!])", r"\\\1", flat).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Its lines; what cells say is escaped already."""
    first, *others = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return [first, "|---" * len(head) + "|", *others]


def _table(title: str, arms: Sequence[str], rows: Sequence[cells.Row]) -> list[str]:
    if not rows:
        return []
    head = [f"{escape(names.arm(a))} `{a.replace('`', '')}`".replace("|", "") for a in arms]
    body = [[escape(text) for text in (row.name, *(cell.plain() for cell in row.cells))] for row in rows]
    return [*table([title, *head], body), ""]
