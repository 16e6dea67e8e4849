"""The JSON of this folder: what its commands print, and what it writes."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from harness.schemas.forms import Forms


class Run(TypedDict):
    id: str
    made: str | None
    """ISO 8601; null where the directory's name does not say"""
    experiment: str
    verdict: str
    """holds, deviated, failed, void, unfinished or unreadable"""
    exit_code: int | None
    bed: str
    fingerprint: str
    build_id: str
    seed: int | None
    source: str
    """r2cc, or the tool whose figures were imported"""
    arms: list[str]
    tags: list[str]
    reason: NotRequired[str | None]
    """why it is unreadable"""


class Runs(TypedDict):
    schema: Literal[1]
    store: str
    runs: list[Run]


class Figure(TypedDict):
    arm: str
    repeat: Annotated[int, Field(ge=-1)]
    """-1: of the whole arm"""
    name: str
    unit: str
    size_bytes: int | None
    value: float
    bound: float | None


class RunShown(TypedDict):
    schema: Literal[1]
    run: Run
    figures: NotRequired[list[Figure]]


class RunsImported(TypedDict):
    schema: Literal[1]
    runs: list[str]
    """ids"""
    notes: list[str]
    """what is to be known of the files: lines left out, what several runs are of, what did not end"""


class RunsPruned(TypedDict):
    schema: Literal[1]
    dry_run: bool
    runs: list[str]
    """ids"""


class Tags(TypedDict):
    schema: Literal[1]
    tags: Annotated[list[str], Field(json_schema_extra={"uniqueItems": True})]


SCHEMAS: Forms = {
    "runs": ("r2cc runs list", Runs),
    "run": ("r2cc runs show, r2cc runs tag", RunShown),
    "runs_imported": ("r2cc runs import", RunsImported),
    "runs_pruned": ("r2cc runs prune", RunsPruned),
    "tags": ("tags.json of a run directory", Tags),
}
