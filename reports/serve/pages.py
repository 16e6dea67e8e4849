"""Pages as functions from a question to HTML. What is shown of a run is what the store and the run directory say."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from harness.errors import UsageError
from reports.compare import text
from reports.compare_cmd import compared
from reports.history import history, words
from reports.html import TEMPLATES, policy
from reports.store.entry import UNFINISHED, Entry
from reports.store.store import Wanted, opened

if TYPE_CHECKING:
    from jinja2 import Environment

MOST_SHOWN = 200
MOST_COMPARED = 8
LIVE_S = 30.0
"""A run whose journal has grown within so long still runs."""
TAIL_BYTES = 65536
SHOWN_LINES = 14
FILES = {
    "report.html": "text/html",
    "report.md": "text/plain",
    "summary.json": "application/json",
    "simulation.json": "application/json",
}


@dataclass(frozen=True)
class Page:
    """An answer: its status, type, content, and what a browser may do with it."""

    status: int
    content: bytes
    kind: str = "text/html"
    policy: str = "default-src 'none'"
    headers: Mapping[str, str] = field(default_factory=dict)


def page(store: Path, path: str, query: Mapping[str, Sequence[str]], now: float | None = None) -> Page:
    """The answer to a GET of `path`; 404 for what is not there, 400 for a question that makes no sense."""
    try:
        found = _routed(store, path, query, time.time() if now is None else now)
    except UsageError as error:
        return _html(400, "message.html.j2", title="That cannot be shown", message=error.message, hint=error.hint)
    return found or _html(404, "message.html.j2", title="Not found", message=f"There is no page {path}.", hint=None)


def _routed(store: Path, path: str, query: Mapping[str, Sequence[str]], now: float) -> Page | None:
    if path == "/":
        return _list(store, query, now)
    if path == "/compare":
        return _compare(store, query.get("run", ()))
    if path == "/history":
        return _history(store, query)
    parts = path.strip("/").split("/")
    if parts[0] != "run" or len(parts) not in (2, 3):
        return None
    run = _entry(store, parts[1])
    if run is None:
        return None
    return _run(store, run, now) if len(parts) == 2 else _file(store / run.id, parts[2])


def _entry(store: Path, name: str) -> Entry | None:
    """By its whole id alone: what is asked for never becomes a path before the store knows it."""
    with opened(store) as found:
        return found.get(name)


def _list(store: Path, query: Mapping[str, Sequence[str]], now: float) -> Page:
    asked = {name: query.get(name, [""])[0].strip() for name in ("experiment", "verdict", "tag")}
    with opened(store) as found:
        runs = found.runs(Wanted(**{k: v or None for k, v in asked.items()}, limit=MOST_SHOWN))  # type: ignore[arg-type]
        total = found.count()
    live = [run for run in runs if _grew(store / run.id, now)]
    shown = {"runs": runs, "total": total, "most": MOST_SHOWN, "asked": asked, "live": [run.id for run in live]}
    return _html(200, "list.html.j2", title="Runs", refresh=2 if live else None, **shown)


def _run(store: Path, run: Entry, now: float) -> Page:
    folder = store / run.id
    live = _grew(folder, now)
    files = [name for name in FILES if (folder / name).is_file()]
    lines = _last_lines(folder / "journal.jsonl") if run.verdict == UNFINISHED else []
    state = "running" if live else run.verdict
    return _html(
        200, "run.html.j2", title=run.id, refresh=2 if live else None, run=run, files=files, lines=lines, state=state
    )


def _file(folder: Path, name: str) -> Page | None:
    """A run's own report, which forbids scripts by itself; its other files are shown as what they are."""
    if name not in FILES or not (folder / name).is_file():
        return None
    content = (folder / name).read_bytes()
    report = name == "report.html"
    return Page(
        200,
        content,
        FILES[name],
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:" if report else "default-src 'none'",
    )


def _compare(store: Path, names: Sequence[str]) -> Page:
    if not 1 <= len(names) <= MOST_COMPARED:
        raise UsageError(f"choose one to {MOST_COMPARED} runs to compare", "tick them in the list")
    tables = [
        (each, text.about(each), [text.cells(row) for row in each.rows], [*map(text.nic_cells, text.shown_nics(each))])
        for each in compared(store, names, directories=False)
    ]
    headers = {"header": text.HEADER, "nic_header": text.NIC_HEADER}
    return _html(200, "compare.html.j2", title="Comparison", tables=tables, **headers)


def _history(store: Path, query: Mapping[str, Sequence[str]]) -> Page | None:
    experiment, arm, figure, size = (query.get(name, [""])[0] for name in ("experiment", "arm", "figure", "size"))
    if size and not size.isdecimal():
        raise UsageError(f"'{size}' is no size in bytes", "follow a figure of a run")
    with opened(store) as found:
        told = history(found, experiment, arm, figure, int(size) if size else None)
    if told is None:
        return None
    shown = {"found": told, "picture": told.svg(), "sentences": words(told.changes, told.points)}
    return _html(200, "history.html.j2", title=told.name, **shown)


def _grew(folder: Path, now: float) -> bool:
    """True while an unfinished run writes its journal."""
    journal = folder / "journal.jsonl"
    try:
        return not (folder / "summary.json").exists() and now - journal.stat().st_mtime < LIVE_S
    except OSError:
        return False


def _last_lines(journal: Path) -> list[str]:
    """What happened last, for people: faults, links, iterations."""
    try:
        with journal.open("rb") as file:
            file.seek(max(0, journal.stat().st_size - TAIL_BYTES))
            raw = file.read().splitlines()
    except OSError:
        return []
    told = [line for each in raw if (line := _told(each)) is not None]
    return told[-SHOWN_LINES:]


def _told(raw: bytes) -> str | None:
    try:
        line: dict[str, Any] = json.loads(raw)
    except ValueError:
        return None
    where = f"{line.get('host')}: " if isinstance(line, dict) else ""
    event = line.get("event") if isinstance(line, dict) else None
    if event == "fault":
        return f"{where}{line.get('id')} {line.get('kind')} {line.get('nic')} {line.get('phase')}"
    if event == "link":
        return f"{where}{line.get('nic')} {'up' if line.get('up') else 'down'}"
    if event == "iteration":
        return f"{where}iteration {line.get('index')}, {line.get('wrong_elements')} wrong elements"
    return f"{where}{line.get('message')}" if event == "log" else None


def _html(status: int, template: str, **values: Any) -> Page:
    css = (TEMPLATES / "report.css").read_text(encoding="utf-8") + (TEMPLATES / "serve" / "serve.css").read_text()
    whole = _environment().get_template(f"serve/{template}").render(css=css, **{"refresh": None, **values})
    return Page(status, whole.encode(), policy=policy(css).replace("form-action 'none'", "form-action 'self'"))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    made.filters["path"] = lambda word: quote(str(word), safe="")
    return made
