"""The index's tables, and how an older one becomes today's. Its version is SQLite's `user_version`."""

from __future__ import annotations

import sqlite3

from harness.errors import UsageError

STEPS = (
    """
    CREATE TABLE runs (
      id TEXT PRIMARY KEY, changed_ns INTEGER NOT NULL, made TEXT, experiment TEXT NOT NULL, verdict TEXT NOT NULL,
      exit_code INTEGER, bed TEXT NOT NULL, fingerprint TEXT NOT NULL, build_id TEXT NOT NULL, seed INTEGER,
      arms TEXT NOT NULL
    );
    CREATE TABLE tags (run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, tag TEXT NOT NULL, UNIQUE (run, tag));
    CREATE TABLE figures (
      run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, arm TEXT NOT NULL, repeat INTEGER NOT NULL,
      name TEXT NOT NULL, unit TEXT NOT NULL, size_bytes INTEGER, value REAL NOT NULL, bound REAL
    );
    CREATE INDEX figures_run ON figures(run);
    CREATE INDEX figures_name ON figures(name, arm);
    """,
    # Runs of other tools can be brought in: everything is read again, as older entries do not say whose they are.
    """
    ALTER TABLE runs ADD COLUMN source TEXT NOT NULL DEFAULT 'r2cc';
    CREATE INDEX runs_made ON runs(made);
    UPDATE runs SET changed_ns = -1;
    """,
    # Runs that cannot be read are listed, with the reason; times of changes are taken otherwise.
    """
    ALTER TABLE runs ADD COLUMN reason TEXT NOT NULL DEFAULT '';
    UPDATE runs SET changed_ns = -1;
    """,
)
VERSION = len(STEPS)


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
    (version,) = index.execute("PRAGMA user_version").fetchone()  # another process may have been first
    try:
        for number, step in enumerate(STEPS[version:], version + 1):
            for statement in step.split(";\n"):
                lines = [line for line in statement.splitlines() if line.strip()]
                if lines:
                    index.execute("\n".join(lines))
            index.execute(f"PRAGMA user_version = {number}")
        index.execute("COMMIT")
    except BaseException:
        index.execute("ROLLBACK")
        raise
