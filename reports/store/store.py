"""A folder of run directories with its index. Every question first brings the index up to date with the folder.

The index is SQLite in WAL mode: writers wait for each other, a process that is killed leaves it as it was before its
transaction. Lost or damaged, it is made again: nothing is in it that is not in the directories.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.config.files import Unreadable, is_there
from harness.config.plain import printable
from harness.errors import InfraError, UsageError
from harness.files.lock import exclusive
from harness.progress import show
from reports.store import entries
from reports.store.entry import UNREADABLE, Entry, Figure
from reports.store.folders import changed_ns, is_run
from reports.store.names import id_of, name_of
from reports.store.schema import upgrade
from reports.store.tags import read_tags, write_tags

INDEX, LOCK = ".index.sqlite", ".lock"
WAIT_S = 30.0
BATCH = 200
"""Runs read between two commits: other writers are let in, and an interrupt loses little."""
FIELDS = "id, made, experiment, verdict, exit_code, bed, fingerprint, build_id, seed, arms, source, reason"


@dataclass(frozen=True)
class Wanted:
    """Which runs; what is None is not asked."""

    experiment: str | None = None
    verdict: str | None = None
    tag: str | None = None
    build_id: str | None = None
    fingerprint: str | None = None
    since: datetime | None = None
    limit: int | None = None


class Store:
    """Open one by `opened`; all methods see the folder as it is now, or was at most `patience_s` ago."""

    def __init__(self, folder: Path, index: sqlite3.Connection, patience_s: float = 0.0) -> None:
        self.folder = folder
        self._index = index
        self._patience_s = patience_s
        self._looked_s = -math.inf
        self._changes = 0

    def close(self) -> None:
        self._index.close()

    def refresh(self) -> int:
        """Reads what is new or has changed and forgets what is gone; how many runs were read. An index that cannot be
        written is gone on with in memory."""
        if time.monotonic() - self._looked_s < self._patience_s:
            return 0
        try:
            count = self._refreshed()
        except sqlite3.OperationalError:
            self._index.close()
            self._index = _open(None)
            count = self._refreshed()
        self._looked_s = time.monotonic()
        return count

    @property
    def version(self) -> tuple[int, int]:
        """Another one whenever anything that the index says may have changed, whoever changed it."""
        return self._changes, int(self._index.execute("PRAGMA data_version").fetchone()[0])

    def _refreshed(self) -> int:
        known = dict(self._index.execute("SELECT id, changed_ns FROM runs"))
        there = _runs_in(self.folder)
        gone = [name for name in known if name not in there]
        if gone:
            with self._writing():
                self._index.executemany("DELETE FROM runs WHERE id = ?", [(name,) for name in gone])
        changed = [(self.folder / name_of(run), when) for run, when in there.items() if known.get(run) != when]
        self._changes += bool(gone or changed)
        with show(f"reading {len(changed)} runs") if len(changed) > BATCH else nullcontext():
            self._read(changed)
        return len(changed)

    def _read(self, changed: Sequence[tuple[Path, int]]) -> None:
        for start in range(0, len(changed), BATCH):
            read = [(entries.read(folder), when) for folder, when in changed[start : start + BATCH]]
            with self._writing():
                for found, when in read:
                    self._put(found, when)

    def runs(self, wanted: Wanted | None = None) -> list[Entry]:
        """Newest first, without figures."""
        self.refresh()
        where, values = _conditions(wanted or Wanted())
        limit = f" LIMIT {wanted.limit}" if wanted and wanted.limit else ""
        return self._select(f"{where} ORDER BY made DESC, id DESC{limit}", values)

    def _select(self, condition: str, values: Sequence[Any]) -> list[Entry]:
        rows = self._index.execute(f"SELECT {FIELDS} FROM runs{condition}", values).fetchall()
        tags: dict[str, list[str]] = {}
        for run, tag in self._index.execute("SELECT run, tag FROM tags ORDER BY tag"):
            tags.setdefault(run, []).append(tag)
        return [_entry(row, tags.get(row[0], [])) for row in rows]

    def unreadable(self) -> list[Entry]:
        """All runs that cannot be read, newest first, as of the last look at the folder."""
        return self._select(" WHERE verdict = ? ORDER BY made DESC, id DESC", [UNREADABLE])

    def path_of(self, run: Entry) -> Path:
        """Its directory."""
        return self.folder / run.folder

    def find(self, name: str) -> Entry:
        """The run whose id is `name`, begins with it, carries it as its tag alone, or has that
        directory. UsageError else."""
        return self.find_all([name])[0]

    def find_all(self, names: Sequence[str]) -> list[Entry]:
        """The same of several, with one look at the folder."""
        ids = self.ids(names)
        figures = self.figures(ids)
        marks = ",".join("?" * len(figures))
        found = {run.id: run for run in self._select(f" WHERE id IN ({marks}) ORDER BY id", [*figures])}
        return [Entry(**{**found[run].__dict__, "figures": tuple(figures[run])}) for run in ids]

    def read(self, names: Sequence[str]) -> list[Entry]:
        """The same, whole: from their directories."""
        return [entries.read(self.folder / name_of(run)) for run in self.ids(names)]

    def ids(self, names: Sequence[str]) -> list[str]:
        """Their whole ids, as `find`."""
        self.refresh()
        return [self._id(name) for name in names]

    def get(self, run: str) -> Entry | None:
        """By its whole id alone."""
        self.refresh()
        known = self._index.execute("SELECT 1 FROM runs WHERE id = ?", (run,)).fetchone()
        return self.find(run) if known else None

    def count(self) -> int:
        """Of all runs."""
        self.refresh()
        return int(self._index.execute("SELECT count(*) FROM runs").fetchone()[0])

    def _id(self, asked: str) -> str:
        name = asked if asked.isprintable() else id_of(asked)
        if "/" in name and Path(name).resolve().parent == self.folder.resolve():
            name = id_of(Path(name).resolve().name)
        for where in ("id = ?1", "substr(id, 1, length(?1)) = ?1", "id IN (SELECT run FROM tags WHERE tag = ?1)"):
            rows = self._index.execute(f"SELECT id FROM runs WHERE {where} ORDER BY made DESC, id DESC", (name,))
            found = [run for (run,) in rows]
            if len(found) == 1:
                return str(found[0])
            if found:
                some = ", ".join(found[:4])
                raise UsageError(f"'{name}' may be any of {len(found)} runs: {some}", "give more of the id")
        raise UsageError(f"no run '{name}' in {self.folder}", f"r2cc runs list --store {self.folder}")

    def figures(self, ids: Iterable[str]) -> dict[str, list[Figure]]:
        """All figures of these runs."""
        found: dict[str, list[Figure]] = {name: [] for name in ids}
        names = [*found]
        for start in range(0, len(names), BATCH):
            part = names[start : start + BATCH]
            marks = ",".join("?" * len(part))
            rows = self._index.execute(
                "SELECT run, arm, repeat, name, unit, size_bytes, value, bound, cut FROM figures"
                f" WHERE run IN ({marks}) ORDER BY rowid",
                part,
            )
            for run, *figure, cut in rows:
                found[run].append(replace(Figure(*figure), cut=bool(cut) or None))
        return found

    def tag(self, name: str, add: Sequence[str], remove: Sequence[str] = ()) -> Entry:
        """The run with its tags changed, in its directory."""
        run = self.find(name)
        folder = self.path_of(run)
        with exclusive(self.folder / LOCK, "tagging runs", WAIT_S):
            write_tags(folder, (set(_tags_of(folder)) | set(add)) - set(remove))
        return self.find(run.id)

    def _put(self, run: Entry, changed_ns: int) -> None:
        made = run.made.isoformat() if run.made else None
        values = [run.id, made, run.experiment, run.verdict, run.exit_code, run.bed, run.fingerprint, run.build_id]
        values += [run.seed, json.dumps(run.arms), run.source, run.reason]
        self._index.execute("DELETE FROM runs WHERE id = ?", (run.id,))
        marks = ", ".join("?" * (len(values) + 1))
        self._index.execute(f"INSERT INTO runs ({FIELDS}, changed_ns) VALUES ({marks})", [*values, changed_ns])
        self._index.executemany("INSERT INTO tags VALUES (?, ?)", [(run.id, tag) for tag in run.tags])
        self._index.executemany(
            "INSERT INTO figures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(run.id, f.arm, f.repeat, f.name, f.unit, f.size_bytes, f.value, f.bound, f.cut) for f in run.figures],
        )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._index.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._index.execute("ROLLBACK")
            raise
        self._index.execute("COMMIT")


def no_store(folder: Path) -> UsageError:
    """Nothing was run yet, or not here."""
    hint = "`r2cc chaos run FILE` makes it, in the folder where you are; --store names one that lies elsewhere"
    return UsageError(f"there is no run store {folder}", hint)


@contextmanager
def opened(folder: Path, patience_s: float = 0.0) -> Iterator[Store]:
    """The store in `folder`, for one thread at a time. UsageError when there is no such folder; an index that cannot be
    written is made in memory, one that is damaged is made anew."""
    if not folder.is_dir():
        raise no_store(folder)
    store = Store(folder, _index_of(folder), patience_s)
    try:
        yield store
    except sqlite3.Error as error:
        raise InfraError(
            f"{folder / INDEX}: {error}", "run it again; the file may be removed, it is made anew"
        ) from error
    finally:
        store.close()


def _index_of(folder: Path) -> sqlite3.Connection:
    """On disk where there is a file, or none yet; of a pipe or a link we know nothing."""
    path = folder / INDEX
    if os.path.lexists(path) and not is_there(path):
        return _open(None)
    try:
        return _open(path)
    except sqlite3.OperationalError:
        return _open(None)
    except sqlite3.DatabaseError:
        path.unlink()
        return _open(path)


def read_runs(folder: Path, names: Sequence[str]) -> list[Entry]:
    """Whole runs, read from their directories: names of the store, or their paths."""
    read = {name: entries.read(Path(name).resolve()) for name in names if is_run(Path(name))}
    others = [name for name in names if name not in read]
    if others:
        with opened(folder) as store:
            read |= dict(zip(others, store.read(others), strict=True))
    return [read[name] for name in names]


def _open(path: Path | None) -> sqlite3.Connection:
    index = sqlite3.connect(path or ":memory:", timeout=WAIT_S, isolation_level=None, check_same_thread=False)
    try:
        index.execute("PRAGMA foreign_keys = ON")
        upgrade(index, str(path))
        index.execute("PRAGMA journal_mode = WAL")
        index.execute("PRAGMA synchronous = NORMAL")
        if path is not None:
            index.execute("BEGIN IMMEDIATE")  # says now when it cannot be written
            index.execute("ROLLBACK")
    except BaseException:
        index.close()
        raise
    return index


def _runs_in(folder: Path) -> dict[str, int]:
    """Ids, and when each last changed."""
    names = (name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208 (as in folders.py)
    found = {id_of(name): changed_ns(f"{folder}/{name}") for name in names}
    return {run: when for run, when in found.items() if when is not None}


def _tags_of(folder: Path) -> tuple[str, ...]:
    """UsageError where they cannot be read: to write new ones would lose them."""
    try:
        return read_tags(folder)
    except Unreadable as error:
        raise UsageError(f"{folder.name}: {error.message}", f"mend or remove {folder / 'tags.json'} first") from error


def _conditions(wanted: Wanted) -> tuple[str, list[Any]]:
    asked = {
        "experiment GLOB ?": wanted.experiment,
        "verdict = ?": wanted.verdict,
        "id IN (SELECT run FROM tags WHERE tag = ?)": wanted.tag,
        "build_id = ?": wanted.build_id,
        "fingerprint = ?": wanted.fingerprint,
        "made >= ?": wanted.since.isoformat() if wanted.since else None,
    }
    given = {condition: printable(value) for condition, value in asked.items() if value is not None}
    return (" WHERE " + " AND ".join(given) if given else ""), [*given.values()]


def _entry(row: Sequence[Any], tags: Sequence[str]) -> Entry:
    run, made, experiment, verdict, exit_code, bed, fingerprint, build_id, seed, arms, source, reason = row
    when = datetime.fromisoformat(made) if made else None
    return Entry(
        run, when, experiment, verdict, exit_code, bed, fingerprint, build_id, seed, tuple(json.loads(arms)), source,
        tuple(tags), reason=reason,
    )  # fmt: skip
