"""The index's tables; one of an older version is made anew. Its version is SQLite's `user_version`."""

from __future__ import annotations

import sqlite3

from harness.errors import UsageError

VERSION = 4
TABLES = {
    "runs": """
      id TEXT PRIMARY KEY, changed_ns INTEGER NOT NULL, made TEXT, experiment TEXT NOT NULL, verdict TEXT NOT NULL,
      exit_code INTEGER, bed TEXT NOT NULL, fingerprint TEXT NOT NULL, build_id TEXT NOT NULL, seed INTEGER,
      arms TEXT NOT NULL, source TEXT NOT NULL, reason TEXT NOT NULL
    """,
    "tags": "run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, tag TEXT NOT NULL, UNIQUE (run, tag)",
    "figures": """
      run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, arm TEXT NOT NULL, repeat INTEGER NOT NULL,
      name TEXT NOT NULL, unit TEXT NOT NULL, size_bytes INTEGER, value REAL NOT NULL, bound REAL,
      cut INTEGER
    """,
}
INDICES = ("runs(made)", "figures(run)", "figures(name, arm)")


def upgrade(index: sqlite3.Connection, where: str) -> None:
    """Brings the index up to today's version, in one transaction. UsageError when it is of a later R2CC."""
    (version,) = index.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise UsageError(
            f"{where} was made by a later R2CC (version {version}; this one knows {VERSION})",
            "update R2CC, or remove that file: it is made again from the run directories",
        )
    if version == VERSION:
        return
    index.execute("BEGIN IMMEDIATE")
    try:
        if index.execute("PRAGMA user_version").fetchone() != (VERSION,):  # another process may have been first
            _make(index)
        index.execute("COMMIT")
    except BaseException:
        index.execute("ROLLBACK")
        raise


def _make(index: sqlite3.Connection) -> None:
    for table in reversed(TABLES):
        index.execute(f"DROP TABLE IF EXISTS {table}")
    for table, columns in TABLES.items():
        index.execute(f"CREATE TABLE {table} ({columns})")
    for number, columns in enumerate(INDICES):
        index.execute(f"CREATE INDEX index_{number} ON {columns}")
    index.execute(f"PRAGMA user_version = {VERSION}")
