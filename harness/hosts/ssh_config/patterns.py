"""OpenSSH's patterns (ssh_config(5), PATTERNS): `*` and `?`, lists with commas, `!` for what must not match."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network


def matches(text: str, pattern: str) -> bool:
    """Whatever the pattern, in time that grows no faster than the text's length times the pattern's."""
    return _regex(pattern).fullmatch(text) is not None


@lru_cache(maxsize=4096)
def _regex(pattern: str) -> re.Pattern[str]:
    """What stands between two stars is found at its first place, and never looked for again."""
    parts = [re.escape(part).replace(r"\?", ".") for part in re.sub(r"\*+", "*", pattern).split("*")]
    if len(parts) == 1:
        return re.compile(parts[0], re.DOTALL)
    first, *middle, last = parts
    return re.compile(first + "".join(f"(?>.*?{part})" for part in middle) + ".*" + last, re.DOTALL)


def in_list(text: str, patterns: str) -> bool:
    """Whether one of them matches, and none that is negated."""
    found = False
    for each in patterns.split(","):
        if matches(text, each.removeprefix("!")):
            if each.startswith("!"):
                return False
            found = True
    return found


Network = IPv4Network | IPv6Network


def networks(text: str) -> list[Network]:
    """Of `10.0.0.0/8,fd00::/8`. ValueError for what is no network."""
    return [ip_network(each) for each in text.split(",")]


def is_in(address: str, wanted: list[Network]) -> bool:
    return any(ip_address(address.partition("%")[0]) in each for each in wanted)
