"""Which links of an experiment are rails, and why the others are not."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from harness.cloudlab.safe_xml import Element

RAIL = re.compile(r"rail(\d+)")
"""A LAN of our profile. Where there is one, NICs of other LANs carry no data of ours."""
OTHER_LAN = "not one of the profile's rails"
PART = r"(^|[^a-z])({0})((lan|link|net)?($|[^a-z]))"
STORAGE = re.compile(PART.format("nfs|iscsi|bs|ds|dataset|blockstore|storage|store"))
MANAGEMENT = re.compile(PART.format("mgmt|mgt|management|ctrl|ctl|control|admin|oob|ipmi"))
"""Names that people and profiles give to such LANs; they decide only where another LAN is left."""


def left_out(links: Sequence[Element], storage: frozenset[str], control: frozenset[str]) -> dict[str, str]:
    """Why each link that is no rail is none, by its client_id. `storage` and `control` are client_ids of interfaces:
    those of data sets over the network, and those with the address of the control network."""
    names = [link.text("client_id") for link in links]
    if any(RAIL.fullmatch(name) for name in names):
        return {name: OTHER_LAN for name in names if not RAIL.fullmatch(name)}
    found = {link.text("client_id"): why for link in links if (why := _why(link, storage, control))}
    guessed = {name: why for name in names if name not in found and (why := _by_name(name))}
    return {**found, **guessed} if len(found) + len(guessed) < len(names) else found


def _why(link: Element, storage: frozenset[str], control: frozenset[str]) -> str:
    """Empty: nothing speaks against it."""
    members = {member.text("client_id") for member in link.all("interface_ref")}
    if members & storage:
        return "it leads to storage"
    if members & control:
        return "it is the control network"
    return next((why for child in link.children for what, why in AGAINST if what(child)), "")


def _is_tagged(child: Element) -> bool:
    enabled = child.attributes.get("enabled", "true").lower()
    return child.name == "vlan_tagging" and enabled in ("true", "1", "yes", "yep")


AGAINST: tuple[tuple[Callable[[Element], bool], str], ...] = (
    (lambda child: child.name == "link_shared_vlan", "it is shared with other experiments (shared VLAN)"),
    (_is_tagged, "its NICs are VLANs on NICs that carry others too"),
    (
        lambda child: child.name == "link_attribute" and child.text("key") == "nomac_learning",
        "its switch is told to send everything everywhere (nomac_learning)",
    ),
    (
        lambda child: child.name == "link_type" and "tunnel" in child.text("name"),
        "it is a tunnel through the control network",
    ),
)
"""What a link may hold, of whatever namespace, and what it means."""


def _by_name(name: str) -> str:
    if STORAGE.search(name.lower()):
        return "by its name it leads to storage"
    return "by its name it is for management" if MANAGEMENT.search(name.lower()) else ""


def place(name: str) -> tuple[int, list[tuple[int, str]]]:
    """To sort by: `rail2` before `rail10`, and both before LANs that are called otherwise; `lan2` before `lan10`."""
    found = RAIL.fullmatch(name)
    parts = [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name) if part]
    return (int(found[1]), []) if found else (1 << 30, parts)
