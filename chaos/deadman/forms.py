"""The JSON of this folder: what its commands print, and what it writes."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict

from harness.schemas.forms import Forms


class Holder(TypedDict):
    user: str
    machine: str
    pid: int
    since: str
    command: str


class Record(TypedDict):
    id: str
    fault: dict[str, Any] | None
    """as the experiment has it"""
    controller: str | None
    was: str
    left_s: float | None
    proof: str | None
    problem: str | None


class Host(TypedDict):
    name: str
    clean: bool
    error: str | None
    holder: Holder | None
    records: list[Record]
    leftovers: list[str]
    problems: list[str]


class Panic(TypedDict):
    schema: Literal[1]
    inventory: str
    dry_run: bool
    exit_code: Literal[0, 1, 2, 3, 130]
    hosts: list[Host]


SCHEMAS: Forms = {
    "panic": ("r2cc panic", Panic),
}
