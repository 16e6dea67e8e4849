"""What a host found when it tried its ways to others: the kernel's route, a small packet, one as long as the MTU."""

from __future__ import annotations

import json
from dataclasses import dataclass

from harness.facts.base import parser, sections, table

HEADERS_BYTES = 28
"""Of IPv4 and ICMP, which `ping -s` does not count."""


@dataclass(frozen=True)
class Try:
    """`size`: bytes of payload of the long packet."""

    nic: str
    source: str
    target: str
    size: int


@dataclass(frozen=True)
class Tried:
    """None: it could not be tried."""

    nic: str
    target: str
    route: str | None
    small: bool | None
    whole: bool | None


@parser("ip route get and ping")
def tried(text: str) -> tuple[Tried, ...]:
    return tuple(_one(title, table(body)) for title, body in sections(text).items())


def _one(title: str, said: dict[str, str]) -> Tried:
    nic, target = title.split(" ")
    return Tried(nic, target, _route(said.get("route", "")), _came(said.get("small")), _came(said.get("whole")))


def _route(text: str) -> str | None:
    found = json.loads(text) if text else []
    return str(found[0]["dev"]) if found and "dev" in found[0] else None


def _came(code: str | None) -> bool | None:
    """Of ping's exit codes: 0 an answer, 1 none; anything else is a ping that knows not all our options."""
    return {"0": True, "1": False}.get(code or "")
