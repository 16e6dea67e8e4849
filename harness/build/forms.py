"""The JSON of this folder: what its commands print, and what it writes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from harness.schemas.forms import Forms


class Build(TypedDict):
    schema: Literal[1]
    library: str
    bench: NotRequired[str]
    sampler: NotRequired[str]
    planner: NotRequired[str]
    simulator: NotRequired[str]
    progress: NotRequired[str]
    build_id: str
    rebuilt: bool


class BuildNcclTests(TypedDict):
    schema: Literal[1]
    folder: str
    programs: list[str]
    source: str
    tree: str
    rebuilt: bool


class BuildJson(TypedDict):
    schema: Literal[1]
    build_id: NotRequired[str]
    inputs: dict[str, Any]
    """everything that the result depends on"""
    outputs: NotRequired[dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]]]
    library: NotRequired[dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]]]
    programs: NotRequired[list[Any] | dict[str, Any]]


SCHEMAS: Forms = {
    "build": ("r2cc build net, r2cc build nccl", Build),
    "build_nccl_tests": ("r2cc build nccl-tests", BuildNcclTests),
    "build_json": ("build.json of what was built, written last", BuildJson),
}
