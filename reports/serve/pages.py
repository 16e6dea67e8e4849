"""Pages as functions from a question to HTML. What is shown of a run is what the store and the run directory say."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from harness.config import jsons
from harness.config.files import Unreadable, bytes_of, is_there, tail_of
from harness.config.plain import cleaned
from harness.errors import UsageError
from reports.charts.trend import history, words
from reports.compare import text
from reports.compare.named import compared_in
from reports.compare.text import shown_nics
from reports.formats import html
from reports.formats.html import css_of, policy
from reports.serve.shelf import Shelf, shelf
from reports.store.entry import UNFINISHED, Entry
from reports.store.store import Wanted

STYLE = "serve/serve.css"
MOST_SHOWN = 200
MOST_COMPARED = 8
MOST_DIGITS = 19
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
    """The answer to one GET of `path`, of a store that nobody else looks at. UsageError when there is no such store."""
    with shelf(store) as found:
        return answer(found, path, query, now)


def answer(store: Shelf, path: str, query: Mapping[str, Sequence[str]], now: float | None = None) -> Page:
    """The answer to a GET of `path`; 404 for what is not there, 400 for a question that makes no sense."""
    try:
        found = _routed(store, path, query, time.time() if now is None else now)
    except UsageError as error:
        return _html(400, "message.html.j2", title="That cannot be shown", message=error.message, hint=error.hint)
    return found or _html(404, "message.html.j2", title="Not found", message=f"There is no page {path}.", hint=None)


def _routed(store: Shelf, path: str, query: Mapping[str, Sequence[str]], now: float) -> Page | None:
    if path == "/":
        return _list(store, query, now)
    if path == "/compare":
        return _compare(store, query.get("run", ()))
    if path == "/history":
        return _history(store, query)
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] != "run" or len(parts) not in (2, 3):
        return None
    # By its whole id alone: what is asked for never becomes a path before the store knows it.
    run = store.ask(lambda found: found.get(parts[1]))
    if run is None:
        return None
    return _run(store, run, now) if len(parts) == 2 else _file(store.folder / run.folder, parts[2])


def _list(store: Shelf, query: Mapping[str, Sequence[str]], now: float) -> Page:
    asked = {name: query.get(name, [""])[0].strip() for name in ("experiment", "verdict", "tag")}
    wanted = Wanted(**{name: value or None for name, value in asked.items()}, limit=MOST_SHOWN)  # type: ignore[arg-type]
    runs, total = store.ask(lambda found: (found.runs(wanted), found.count()))
    live = [run.id for run in runs if _grew(store.folder / run.folder, run, now)]

    def made() -> bytes:
        shown = {"runs": runs, "total": total, "most": MOST_SHOWN, "asked": asked, "live": live}
        return _rendered("list.html.j2", title="Runs", refresh=2 if live else None, **shown)

    return _page(200, store.kept(("list", *asked.values(), *live), made))


def _run(store: Shelf, run: Entry, now: float) -> Page:
    folder = store.folder / run.folder
    live = _grew(folder, run, now)
    files = [name for name in FILES if is_there(folder / name)]
    lines = _last_lines(folder / "journal.jsonl") if run.verdict == UNFINISHED else []
    state = "running" if live else run.verdict
    return _html(
        200, "run.html.j2", title=run.id, refresh=2 if live else None, run=run, files=files, lines=lines, state=state
    )


def _file(folder: Path, name: str) -> Page | None:
    """A run's own report, which forbids scripts by itself; its other files are shown as what they are. No link is
    followed: it may lead anywhere."""
    if name not in FILES or not is_there(folder / name):
        return None
    report = name == "report.html"
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:" if report else "default-src 'none'"
    return Page(200, bytes_of(folder / name), FILES[name], policy)


def _compare(store: Shelf, names: Sequence[str]) -> Page:
    if not 1 <= len(names) <= MOST_COMPARED:
        raise UsageError(f"choose one to {MOST_COMPARED} runs to compare", "tick them in the list")

    def made() -> bytes:
        tables = [
            (each, text.about(each), [text.cells(row) for row in each.rows], [*map(text.nic_cells, shown_nics(each))])
            for each in store.ask(lambda found: compared_in(found, names))
        ]
        headers = {"header": text.HEADER, "nic_header": text.NIC_HEADER}
        return _rendered("compare.html.j2", title="Comparison", tables=tables, **headers)

    return _page(200, store.kept(("compare", *names), made))


def _history(store: Shelf, query: Mapping[str, Sequence[str]]) -> Page | None:
    experiment, arm, figure, size = (query.get(name, [""])[0] for name in ("experiment", "arm", "figure", "size"))
    if size and not (size.isascii() and size.isdecimal() and len(size) < MOST_DIGITS):
        raise UsageError(f"'{size}' is no size in bytes", "follow a figure of a run")

    def made() -> bytes:
        told = store.ask(lambda found: history(found, experiment, arm, figure, int(size) if size else None))
        if told is None:
            return b""
        shown = {"found": told, "picture": told.svg(), "sentences": words(told.changes, told.points)}
        return _rendered("history.html.j2", title=told.name, **shown)

    content = store.kept(("history", experiment, arm, figure, size), made)
    return _page(200, content) if content else None


def _grew(folder: Path, run: Entry, now: float) -> bool:
    """True while an unfinished run writes its journal."""
    try:
        return run.verdict == UNFINISHED and now - (folder / "journal.jsonl").lstat().st_mtime < LIVE_S
    except OSError:
        return False


def _last_lines(journal: Path) -> list[str]:
    """What happened last, for people: faults, links, iterations."""
    try:
        raw = tail_of(journal, TAIL_BYTES).splitlines()
    except Unreadable:
        return []
    told = [line for each in raw if (line := _told(each)) is not None]
    return told[-SHOWN_LINES:]


def _told(raw: bytes) -> str | None:
    try:
        line = cleaned(jsons.loaded(raw, "journal.jsonl"))
    except Unreadable:
        return None
    if not isinstance(line, dict):
        return None
    where, event = f"{line.get('host')}: ", line.get("event")
    if event == "fault":
        return f"{where}{line.get('id')} {line.get('kind')} {line.get('nic')} {line.get('phase')}"
    if event == "link":
        return f"{where}{line.get('nic')} {'up' if line.get('up') else 'down'}"
    if event == "iteration":
        return f"{where}iteration {line.get('index')}, {line.get('wrong_elements')} wrong elements"
    return f"{where}{line.get('message')}" if event == "log" else None


def _html(status: int, template: str, **values: Any) -> Page:
    return _page(status, _rendered(template, **values))


def _page(status: int, content: bytes) -> Page:
    allowed = policy(css_of(STYLE)).replace("form-action 'none'", "form-action 'self'")
    return Page(status, content, policy=allowed)


def _rendered(template: str, **values: Any) -> bytes:
    return html.page(f"serve/{template}", STYLE, **{"refresh": None, **values}).encode()
