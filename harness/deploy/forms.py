"""The JSON of this folder: what its commands print, and what it writes."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from harness.schemas.forms import Count, Forms


class Deployed(TypedDict):
    was: str
    now: str
    sent_files: Count
    sent_bytes: Count
    removed: list[str]
    shared_with: str
    error: None


class Failed(TypedDict):
    error: str


class Deploy(TypedDict):
    schema: Literal[1]
    build: NotRequired[str]
    seconds: NotRequired[float]
    rollback: NotRequired[Literal[True]]
    failed: Count
    hosts: dict[str, Deployed | Failed]


class Planned(TypedDict):
    prefix: str
    current: str | None
    files: Count
    bytes: Count


class DeployPlan(TypedDict):
    schema: Literal[1]
    build: str
    dry_run: Literal[True]
    hosts: dict[str, Planned]


class Kept(TypedDict):
    prefix: str
    current: str
    previous: str
    owner: str
    builds: list[tuple[str, int, Count]]


class DeployList(TypedDict):
    schema: Literal[1]
    hosts: dict[str, Kept | Failed]


SCHEMAS: Forms = {
    "deploy": ("r2cc deploy, r2cc deploy --rollback", Deploy),
    "deploy_plan": ("r2cc deploy --dry-run", DeployPlan),
    "deploy_list": ("r2cc deploy --list", DeployList),
}
