"""The JSON of this folder: what its commands print, and what it writes."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from harness.schemas.forms import Forms


class Way(TypedDict):
    """How a fault is made to be."""

    kind: str
    does: str
    peer_sees: str
    requires: list[str]
    privilege: str
    features: list[str]
    kernel_path_only: bool
    needs_deadman: bool
    on: str
    facts: str
    inject: str
    revert: str
    probe: str


class Support(TypedDict):
    supported: bool
    why: list[str]
    notes: list[str]


class Fault(Way):
    cluster: Way
    """where nobody lets us into the switch"""
    hosts: dict[str, Support]


class Faults(TypedDict):
    schema: Literal[1]
    faults: list[Fault]


SCHEMAS: Forms = {
    "faults": ("r2cc chaos faults: one entry a kind", Faults),
}
