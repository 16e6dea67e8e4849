"""The report of a whole campaign: one table of figures by cell and arm. Entry point of `r2cc.campaign_reporters`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from chaos.campaign import figures
from chaos.campaign.figures import ArmFigures
from chaos.campaign.state import DONE, FAILED, FILE, CellState
from harness.config import jsons
from harness.files.writing import write_whole
from reports.formats.html import page
from reports.formats.markdown import escape, table
from reports.words import names
from reports.words.cells import Cell
from reports.words.units import NONE, ms

COLUMNS = (
    ("Healthy", "median iteration without a fault"),
    ("Of stock", "healthy iterations over stock’s"),
    ("Beyond its bound", "the iteration that the fault hit, less its bound; the worst"),
    ("While degraded", "over its bound; the worst"),
    ("Failovers", "connections that moved; the most of a repeat"),
    ("Wrong elements", "of all results"),
)


@dataclass(frozen=True)
class Row:
    """One arm of a cell; `first` of its cell's rows, which are `rows` many."""

    cell: CellState
    arm: ArmFigures
    verdict: Cell
    cells: list[Cell]
    first: bool
    rows: int


@dataclass(frozen=True)
class View:
    """Everything the report says."""

    name: str
    description: str
    verdict: str
    headline: str
    notes: list[str]
    rows: list[Row]
    rest: Sequence[tuple[str, str, str]]
    """Of cells without figures: name, state, why. Several names, where all of these failed for one reason."""


def after_campaign(folder: Path, *, quiet: bool) -> None:
    """Writes report.md and report.html into the campaign's directory."""
    view = build(folder)
    write_whole(folder / "report.md", markdown(view))
    path = write_whole(folder / "report.html", html(view))
    if not quiet:
        print(f"report: {path}", file=sys.stderr)


def build(folder: Path) -> View:
    """From campaign.json and the summaries of the cells that are done."""
    value = jsons.mapping_of(folder / FILE, schema=1)
    cells = [CellState.read(cell) for cell in value["cells"]]
    done = [cell for cell in cells if cell.state == DONE]
    rows = [row for cell in done for row in _rows(cell, figures.of_cell(folder, cell))]
    rest = [(_several(those), FAILED, why) for why, those in figures.alike(cells).items()]
    rest += [(cell.name, cell.state, "") for cell in cells if cell.state not in (DONE, FAILED)]
    verdict, headline = _headline(cells)
    return View(value["name"], value["description"], verdict, headline, _notes(done, rows), rows, rest)


def _several(cells: Sequence[CellState]) -> str:
    count = f"{len(cells)} cells: " if len(cells) > 1 else ""
    return count + ", ".join(cell.name for cell in cells)


def _headline(cells: Sequence[CellState]) -> tuple[str, str]:
    done = [cell for cell in cells if cell.state == DONE]
    wrong = [cell.name for cell in done if cell.verdict == "deviated"]
    failed = sum(cell.state == FAILED for cell in cells)
    parts = [f"{len(done)} of {len(cells)} cells are done"]
    held, void = (sum(cell.verdict == kind for cell in done) for kind in ("holds", "void"))
    parts += [f"{held} as expected"] if done else []
    parts += [f"{void} void"] if void else []
    parts += [f"not {', '.join(wrong)}"] if wrong else []
    parts += [f"{failed} failed"] if failed else []
    kinds = {cell.verdict for cell in done}
    worst = next((kind for kind in ("deviated", "void") if kind in kinds), "holds" if done else "failed")
    return worst, ", ".join(parts) + "."


def _notes(done: Sequence[CellState], rows: Sequence[Row]) -> list[str]:
    builds = list(dict.fromkeys(str(cell.build_id) for cell in done))
    notes = [f"The cells ran {len(builds)} builds of R2CC: {', '.join(builds)}."] if len(builds) > 1 else []
    if any(row.arm.void for row in rows):
        notes.append("Figures marked void were taken on a machine too busy to measure.")
    return notes


def _rows(cell: CellState, arms: Sequence[ArmFigures]) -> list[Row]:
    return [Row(cell, arm, _verdict(arm), _cells(arm), arm is arms[0], len(arms)) for arm in arms]


def _verdict(arm: ArmFigures) -> Cell:
    state = {True: "good", False: "bad"}.get(arm.as_expected, "void")  # type: ignore[arg-type]
    return Cell(names.verdict(arm.verdict).lower(), f"expected: {arm.expect}", state)


def _cells(arm: ArmFigures) -> list[Cell]:
    """In the order of COLUMNS."""
    void = "void" if arm.void else ""
    beyond, degraded, ratio = arm.beyond_bound_ms, arm.degraded_ratio, arm.healthy_ratio
    return [
        Cell(ms(arm.healthy_ms), "", void),
        Cell(NONE if ratio is None else f"{ratio:.3f}", "", void if ratio is not None else ""),
        Cell(
            NONE if beyond is None else ("+" if beyond > 0 else "") + ms(beyond), "", void if beyond is not None else ""
        ),
        Cell(NONE if degraded is None else f"{degraded:.2f} ×", "", void if degraded is not None else ""),
        Cell(NONE if arm.failovers is None else str(arm.failovers)),
        Cell(str(arm.wrong_elements), "", "bad" if arm.wrong_elements else "good"),
    ]


def markdown(view: View) -> str:
    """Made to be pasted, as a run's."""
    head = ["Cell", "Arm", "Verdict", *(name for name, _ in COLUMNS)]
    body = [
        [f"[{escape(row.cell.name)}]({link(row.cell)})", escape(names.arm(row.arm.arm)),
         *(escape(cell.plain()) for cell in (row.verdict, *row.cells))]
        for row in view.rows
    ]  # fmt: skip
    parts = [f"## {names.icon(view.verdict)} {escape(view.name)}: {escape(view.headline)}", ""]
    parts += [escape(view.description), ""] if view.description else []
    parts += [f"- {escape(note)}" for note in view.notes] + [""]
    if body:
        parts += [*table(head, body), ""]
    parts += [f"- {escape(name)}: {state}{f': {escape(why)}' if why else ''}" for name, state, why in view.rest] + [""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts))


def link(cell: CellState) -> str:
    """To the report of a cell's own run."""
    return quote(f"{cell.directory}/report.html")


def html(view: View) -> str:
    """One file that loads nothing and runs nothing, as a run's report."""
    return page("campaign.html.j2", v=view, columns=COLUMNS, link=link)
