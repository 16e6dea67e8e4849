"""`ethtool`: driver and firmware, link settings, offloads, what the optical module says."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.facts.base import named_lines, parser, sections

MODE = re.compile(r"(?P<mbit>\d+)base\S*/(?:Full|Half)")


@dataclass(frozen=True)
class Driver:
    name: str
    version: str
    firmware: str


@dataclass(frozen=True)
class Settings:
    """Speeds in Gbit/s; None: not known, or it has none (virtual NICs, no link)."""

    speed_gbit: float | None
    most_gbit: float | None
    """The fastest that this port supports."""


@dataclass(frozen=True)
class Module:
    """`alarms`: those that are on."""

    vendor: str
    part: str
    alarms: tuple[str, ...]


@dataclass(frozen=True)
class Nic:
    """None: that option is not supported by its driver, or it refused."""

    driver: Driver | None
    settings: Settings | None
    features: tuple[tuple[str, bool], ...]
    module: Module | None

    def has(self, feature: str) -> bool | None:
        """Whether an offload is on; None: not known."""
        return dict(self.features).get(feature)


def driver(text: str) -> Driver | None:
    said = named_lines(text.splitlines())
    if "driver" not in said:
        return None
    return Driver(said["driver"], said.get("version", ""), said.get("firmware-version", ""))


def settings(text: str) -> Settings | None:
    """`Supported link modes` goes on over several lines: all modes before the next name belong to it."""
    lines = text.splitlines()
    said = named_lines(lines)
    if not any(name in said for name in ("Speed", "Link detected")):
        return None
    supported = re.search(r"Supported link modes:(.*?)\n[^\n:]*:", f"{text}\n:", flags=re.DOTALL)
    modes = [int(mode["mbit"]) for mode in MODE.finditer(supported[1])] if supported else []
    speed = re.fullmatch(r"(\d+)Mb/s", said.get("Speed", ""))
    return Settings(int(speed[1]) / 1000 if speed else None, max(modes) / 1000 if modes else None)


def features(text: str) -> tuple[tuple[str, bool], ...]:
    said = named_lines(text.splitlines())
    return tuple((name, value.split(" ")[0] == "on") for name, value in said.items() if re.match(r"(on|off)\b", value))


def module(text: str) -> Module | None:
    """Both shapes: `Laser rx power low alarm : On`, and CMIS modules' `... alarm (Chan 1) : On`."""
    said = named_lines(text.splitlines())
    if "Identifier" not in said:
        return None
    alarms = tuple(name for name, value in said.items() if "alarm" in name.lower() and value == "On")
    return Module(said.get("Vendor name", ""), said.get("Vendor PN", ""), alarms)


@parser("ethtool")
def nics(text: str) -> dict[str, Nic]:
    """By name. Every section is one call: `== NIC OPTION`."""
    parts = sections(text)
    names = dict.fromkeys(title.rpartition(" ")[0] for title in parts)

    def part(name: str, option: str) -> str:
        return parts.get(f"{name} {option}", "")

    return {
        name: Nic(
            driver(part(name, "i")),
            settings(part(name, "settings")),
            features(part(name, "k")),
            module(part(name, "m")),
        )
        for name in names
    }
