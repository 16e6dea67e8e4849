"""OpenSSH's patterns (ssh_config(5), PATTERNS): `*` and `?`, lists with commas, `!` for what must not match."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network


def matches(text: str, pattern: str) -> bool:
    """In time that grows with both lengths' product at most, whatever the pattern."""
    at = here = 0
    star, resume = -1, 0
    while here < len(text):
        if at < len(pattern) and pattern[at] == "*":
            star, resume, at = at, here, at + 1
        elif at < len(pattern) and pattern[at] in ("?", text[here]):
            at, here = at + 1, here + 1
        elif star >= 0:
            resume += 1
            at, here = star + 1, resume
        else:
            return False
    return not pattern[at:].strip("*")


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
