"""A simulation's report in every form, and where each is written."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import TextIO

from chaos.simulate.unmodelled import NOT_MODELLED
from harness.files.writing import write_whole
from harness.schemas import dumped_as
from reports.formats.files import link_prefix
from reports.formats.html import page
from reports.formats.markdown import escape
from reports.formats.markdown import table as markdown_table
from reports.simulation import figures, sentence, view, words
from reports.simulation.model import Simulation
from reports.simulation.view import Table
from reports.words import names

FILES = {"html": "report.html", "md": "report.md", "json": "report.json", "csv": "figures.csv"}
AFTER_RUN = ("md", "csv", "html")
COLUMNS = ("arm", "figure", "unit", "value", "low", "high", "p50", "p99", "n", "basis")


def render(sim: Simulation, kind: str, target: Path | None = None) -> str:
    """One report as text; `target` is the directory it will lie in."""
    if kind == "html":
        return html(sim, link_prefix(sim.path, target))
    if kind == "md":
        return markdown(sim)
    if kind == "csv":
        return comma_separated(sim)
    return dumped_as("simulation", sim.value, 2) + "\n"


def write(sim: Simulation, kind: str, target: Path) -> Path:
    """Whole or not at all; returns its path."""
    return write_whole(target / FILES[kind], render(sim, kind, target))


def html(sim: Simulation, prefix: str = "") -> str:
    """One file that loads nothing and runs nothing."""
    return page(
        "simulation.html.j2", "simulation.css", v=view.build(sim), figures=figures.build(sim), files=sim.files(),
        link_prefix=prefix,
    )  # fmt: skip


def markdown(sim: Simulation) -> str:
    """Made to be pasted; figures stay in the HTML."""
    v = view.build(sim)
    parts = [f"## {names.icon(v.verdict)} {names.verdict(v.verdict)} (modelled): {escape(v.headline)}", ""]
    parts += [escape(v.title), ""] if v.title else []
    parts += [f"- {escape(remark)}" for remark in v.remarks] + [""]
    for table in v.tables:
        if table.id not in ("params", "figures"):
            parts += [f"### {escape(table.title)}", "", *_table(table), ""]
    parts += [", ".join(f"{name}: {escape(value)}" for name, value in v.facts), ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts))


def _table(table: Table) -> list[str]:
    rows = [
        [f"{escape(c.text)}{f' ({escape(c.note)})' if c.note else ''}{' ✓' if c.state == 'good' else ''}" for c in row]
        for row in table.rows
    ]
    return markdown_table([escape(name) for name in table.head], rows)


def comma_separated(sim: Simulation) -> str:
    """One line a figure, numbers as they are."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    axes = list(sim.axes)
    writer.writerow([*axes, *COLUMNS])
    for point in sim.value["points"]:
        place = [point["at"].get(axis) for axis in axes]
        for each in point["figures"]:
            numbers = [each[name] for name in COLUMNS[2:]]
            writer.writerow([*place, point["arm"], each["name"], *numbers])
    return out.getvalue()


def show(sim: Simulation, file: TextIO) -> None:
    """On a terminal."""
    print(terminal(sim), file=file)


def terminal(sim: Simulation) -> str:
    """A few lines: the verdict, the answer, and what does not hold, and what is not in any figure."""
    v = view.build(sim)
    lines = [f"{names.icon(v.verdict)} {names.verdict(v.verdict)} (modelled): {v.headline}"]
    bad = [check for check in sim.value["checks"] if check["outcome"] != "holds"]
    lines += [f"  {check['name']}: {_number(check['value'])}, not {check['bound']}" for check in bad]
    for row in sim.value["references"]:
        ours, theirs = words.value(row["ours"], row["unit"]), words.value(row["value"], row["unit"])
        lines.append(
            f"  {row['arm']} {row['name']}: {ours}{sentence.around(sim, row)}; published {theirs} ({row['source']})"
        )
    lines.append(NOT_MODELLED)
    return re.sub(r"[\x00-\x09\x0b-\x1f\x7f]", "", "\n".join(lines))


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"
