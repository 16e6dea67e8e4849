"""The JSON of this folder: what its commands print, and what it writes."""

from __future__ import annotations

from typing import Literal, NotRequired

from pydantic import with_config
from typing_extensions import TypedDict

from harness.schemas.forms import OPEN, Count, Forms


class OfKind(TypedDict):
    faults: Count
    moving: Count
    moved: Count
    returned: Count


@with_config(OPEN)
class Failure(TypedDict):
    round: Count
    why: str
    faults: NotRequired[Count]
    replay: NotRequired[str]
    replay_faults: NotRequired[Count]
    reproduced: NotRequired[bool]
    attempts: NotRequired[Count]


class Fate(TypedDict):
    id: str
    kind: str
    nics: Count
    moved: Count
    returned: Count


class Soak(TypedDict):
    schema: Literal[1]
    outcome: Literal["passed", "failed", "infrastructure", "interrupted"]
    exit_code: Literal[0, 1, 2, 3, 130]
    reason: str | None
    seed: int
    arm: str
    net: Literal["socket", "ib"]
    build_id: str | None
    round_s: float
    rounds: Count
    excused_rounds: Count
    faults: Count
    iterations: Count
    bytes_checked: Count
    connections_failed_over: Count
    connections_failed_back: Count
    minutes: float
    by_kind: dict[str, OfKind]
    failure: Failure | None
    fates: NotRequired[list[Fate]]


SCHEMAS: Forms = {
    "soak": ("soak.json; printed without fates", Soak),
}
