"""The JSON of this folder: what its commands print, and what it writes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from harness.schemas.forms import Forms


class Patch(TypedDict):
    name: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Fork(TypedDict):
    schema: Literal[1]
    version: str
    commit: str
    pinned_tree: str
    exists: bool
    fetched: bool
    patched: bool
    edited: bool
    source: str | None
    tree_hash: str | None
    patches: list[Patch]
    applied: list[Patch]


class ForkRefresh(TypedDict):
    schema: Literal[1]
    done: list[str]


class ForkState(TypedDict):
    version: str
    commit: str
    tree: str
    source: str
    patches: list[Patch]
    patched_tree: str


SCHEMAS: Forms = {
    "fork": ("r2cc fork status, fetch, patch", Fork),
    "fork_refresh": ("r2cc fork refresh", ForkRefresh),
    "fork_state": (".r2cc-state.json of the fetched tree", ForkState),
}
