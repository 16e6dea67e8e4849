"""The JSON of this folder: what its commands print, and what it writes."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from harness.lab.topology import Topology
from harness.schemas.forms import OPEN, Count, Forms


@with_config(OPEN)
class Nic(TypedDict):
    host: str
    name: str
    rail: Count
    address: str
    rate_gbit: NotRequired[float]
    switch_port: NotRequired[str]


class LabUp(TypedDict):
    schema: Literal[1]
    name: str
    ttl_s: float
    hosts: list[str]
    nics: list[Nic]
    warnings: list[str]
    inventory: NotRequired[str]
    """with --ssh: the file"""


class LabDown(TypedDict):
    schema: Literal[1]
    lab: str
    was_up: bool


class Lab(TypedDict):
    hosts: Count
    nics: Count
    rate_gbit: float | None
    mtu: int | None
    name: str
    keeper_pid: int
    init_pid: int | None
    owner_pid: int | None
    warnings: list[str]
    kind: Literal["namespace", "vm"]
    left_s: int | None
    """null: as long as its owner lives"""


class LabStatus(TypedDict):
    schema: Literal[1]
    labs: list[Lab]


class Place(TypedDict):
    numa: NotRequired[Annotated[int, Field(ge=0, le=1024)]]
    switch: NotRequired[str]
    rate_gbit: NotRequired[Annotated[float, Field(ge=0, le=100000)]]


class HostPlaces(TypedDict):
    nics: dict[str, Place]


class Places(TypedDict):
    schema: Literal[1]
    hosts: dict[str, HostPlaces]


SCHEMAS: Forms = {
    "topology": ("A lab's topology", Topology),
    "lab_up": ("r2cc lab up", LabUp),
    "lab_down": ("r2cc lab down", LabDown),
    "lab_status": ("r2cc lab status", LabStatus),
    "places": ("Places of NICs (R2CC_TOPO_FILE)", Places),
}
