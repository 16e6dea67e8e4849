"""The JSON of this folder: what its commands print, and what it writes."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from harness.schemas.forms import Forms, Some
from harness.sites.inventory_file import Cluster, Entry, Reached


class Host(TypedDict):
    name: str
    address: str
    user: str | None
    port: int | None
    keys: list[str]
    jump: str | None
    nics: dict[str, list[str]]
    gpus: int | None
    labels: dict[str, str]


class Hosts(TypedDict):
    schema: Literal[1]
    inventory: str
    hosts: list[Host]


class InventoryMade(TypedDict):
    schema: Literal[1]
    name: str
    defaults: Reached
    hosts: Some[Entry]
    resolved: bool
    """NICs by their names in Linux, not by addresses"""


SCHEMAS: Forms = {
    "inventory": ("An inventory file", Cluster),
    "hosts": ("r2cc hosts list", Hosts),
    "inventory_made": ("r2cc inventory from-cloudlab", InventoryMade),
}
