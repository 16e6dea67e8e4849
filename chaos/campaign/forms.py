"""The JSON of this folder: what its commands print, and what it writes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from harness.schemas.forms import Amount, Count, Forms


class Cell(TypedDict):
    name: str
    experiment: str
    fingerprint: str
    """of all that is asked for; another one means: run it again"""
    state: Literal["pending", "done", "failed"]
    verdict: Literal["holds", "deviated", "failed", "void"] | None
    exit_code: Literal[0, 1, 3] | None
    attempts: Count
    """runs that failed"""
    seconds: Amount | None
    directory: str | None
    """of its run, relative to the campaign's"""
    build_id: str | None
    reasons: list[str]


class Campaign(TypedDict):
    schema: Literal[1]
    name: str
    description: str
    cells: list[Cell]
    """in the file's order"""
    dropped: list[Cell]
    """cells that the file no longer has"""


class PlannedCell(TypedDict):
    name: str
    experiment: str
    arms: list[str]
    repeats: Annotated[int, Field(ge=1)]
    seed: int
    inventory: str
    minutes: float | None
    set: dict[str, Any]
    """what it changes in the experiment"""
    state: Literal["pending", "done", "failed"]
    why_not: str | None


class CampaignPlan(TypedDict):
    schema: Literal[1]
    cells: list[PlannedCell]


class CampaignResult(TypedDict):
    schema: Literal[1]
    name: str
    description: str
    cells: list[Cell]
    dropped: list[Cell]
    exit_code: Literal[0, 1, 2, 3, 130]
    left: list[str]
    """cells still to be run"""


SCHEMAS: Forms = {
    "campaign": ("campaign.json of a campaign's directory", Campaign),
    "campaign_plan": ("r2cc chaos campaign --dry-run: one entry a cell", CampaignPlan),
    "campaign_result": ("r2cc chaos campaign: campaign.json, and how it ended", CampaignResult),
}
