"""The form of environment.json."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from pydantic import with_config
from typing_extensions import TypedDict

from harness.schemas.forms import OPEN, Forms


@with_config(OPEN)
class Hardware(TypedDict):
    fingerprint: str
    cpu: str
    cores: int
    memory_bytes: int
    machines: NotRequired[int]


class Environment(TypedDict):
    schema: Literal[1]
    hardware: Hardware
    kernel: str
    python: str
    platform: str
    packages: dict[str, str]
    build: dict[str, Any]
    """build.json of what ran"""
    variables: dict[str, str]
    """those of a list of harmless ones"""


class Imported(TypedDict):
    schema: Literal[1]
    source: Literal["nccl-tests", "megatron"]
    file: str


SCHEMAS: Forms = {
    "environment": (
        "environment.json of a run directory; an imported one says only what wrote it",
        Environment | Imported,
    ),
}
