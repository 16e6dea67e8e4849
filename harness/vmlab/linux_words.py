"""The few words of `ip` and `nft` that faults use on a switch, told to the wire instead of to a Linux kernel.

Experiments break a NIC with the commands that a Linux switch understands. The vm lab's switch is a process of ours: it
takes exactly those commands, so that the same fault works on both beds, and refuses every other one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LINK_CHANGE = re.compile(r"link set dev (?P<port>\S+) (?P<word>up|down)")
SEGMENTS = re.compile(r"link set dev (?P<port>\S+) gso_max_segs \d+")
"""Nothing to do: every frame of the wire is one packet already."""
RULE = re.compile(
    r"add rule bridge (?P<table>\S+) \S+ (?P<way>iifname|oifname) \"(?P<port>[^\"]+)\""
    r"(?: numgen random mod (?P<of>[1-9]\d*) < (?P<lost>\d+))?"
    r"(?: meta l4proto (?P<protocol>tcp|udp))?(?: meta length > (?P<above>\d+))? counter drop"
)
ADD_TABLE = re.compile(r"add table bridge (?P<table>\S+)")
DELETE_TABLE = re.compile(r"delete table bridge (?P<table>\S+)")
ADD_CHAIN = re.compile(r"add chain bridge \S+ \S+ \{ type filter hook forward priority 0 ; \}")
BUCKET = re.compile(r"qdisc change dev (?P<device>\S+) root tbf rate (?P<rate>\d+)bps burst (?P<burst>\d+)b limit \d+b")
BUCKETS_ASKED = ["tc", "-j", "-d", "-raw", "qdisc", "show"]
FROM = "-from"
"""The device before a port that holds back what comes from the NIC, as an `ifb` does on a Linux switch."""
TICK_S = 64e-9
"""The unit in which `tc -raw` tells how deep a bucket is, at its rate."""
DIRECTIONS = {"iifname": "from", "oifname": "to"}
"""A frame comes in through the port of the NIC that sent it."""


@dataclass(frozen=True)
class Loss:
    """One rule: what share of a port's frames in one direction is dropped, of all or of some."""

    port: str
    direction: str
    fraction: float
    protocol: str = ""
    """`tcp` or `udp`; empty: any."""
    above_bytes: int = 0
    """Of IP packets longer than that; 0: of any length."""


def reads_input(argv: Sequence[str]) -> bool:
    """Whether the words come by stdin. A process that waits for them is none here: it would run at once, without."""
    return list(argv) in (["ip", "-batch", "-"], ["tc", "-batch", "-"]) or list(argv[:2]) == ["nft", "-f"]


def cut_ports(argv: Sequence[str], stdin: str) -> list[str] | None:
    """Ports of a batch that only says how many segments they take at once; None for anything else."""
    found = [SEGMENTS.fullmatch(line.strip()) for line in stdin.splitlines()]
    batch = list(argv) == ["ip", "-batch", "-"]
    return [match["port"] for match in found if match] if batch and found and all(found) else None


def link_changes(argv: Sequence[str], stdin: str) -> list[tuple[str, bool]] | None:
    """(port, up) of `ip link set dev PORT up|down`, or of a batch of such lines; None for anything else."""
    lines = stdin.splitlines() if list(argv) == ["ip", "-batch", "-"] else [shlex.join(argv[1:])]
    found = [LINK_CHANGE.fullmatch(line.strip()) for line in lines]
    return [(match["port"], match["word"] == "up") for match in found if match] if found and all(found) else None


@dataclass(frozen=True)
class BucketChange:
    """One direction of one port gets another rate and another burst. How much may wait is the wire's own."""

    port: str
    direction: str
    rate_Bps: int
    burst_bytes: int


def bucket_changes(argv: Sequence[str], stdin: str) -> list[BucketChange] | None:
    """Those of a batch for `tc`; None for anything else."""
    found = [BUCKET.fullmatch(line.strip()) for line in stdin.splitlines()]
    if list(argv) != ["tc", "-batch", "-"] or not found or not all(found):
        return None
    return [_bucket_change(match) for match in found if match]


def _bucket_change(match: re.Match[str]) -> BucketChange:
    device = match["device"]
    port, direction = device.removesuffix(FROM), "from" if device.endswith(FROM) else "to"
    return BucketChange(port, direction, *(int(match[word]) for word in ("rate", "burst")))


def buckets(shown: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The wire's rates as `tc -j -d -raw qdisc show` tells token buckets; without a rate there is none."""
    return [
        _told(port + suffix, state[direction])
        for port, state in shown.items()
        for direction, suffix in (("to", ""), ("from", FROM))
        if state[direction]["rate_bps"]
    ]


def _told(device: str, stage: Mapping[str, int]) -> dict[str, Any]:
    rate_Bps = stage["rate_bps"] // 8
    raw = f"{int(stage['burst'] / rate_Bps / TICK_S):#x}"
    options = {"rate": rate_Bps, "burst_raw": raw, "burst": stage["burst"], "limit": stage["limit"]}
    return {"kind": "tbf", "dev": device, "root": True, "options": options}


@dataclass
class Tables:
    """nft's tables of family bridge, as far as faults make them: each a list of dropping rules."""

    rules: dict[str, list[Loss]] = field(default_factory=dict)

    def apply(self, argv: Sequence[str]) -> set[tuple[str, str]]:
        """Carries out one transaction; the (port, direction) pairs it touches. ValueError changes nothing."""
        rules = {table: list(found) for table, found in self.rules.items()}
        touched: set[tuple[str, str]] = set()
        for command in _commands(argv[1:]):
            touched |= _step(rules, command)
        self.rules = rules
        return touched

    def fraction(self, port: str, direction: str) -> float:
        """How much is lost there: rules of several tables each take their share of what the others leave."""
        left = 1.0
        for rule in self._of(port, direction):
            if not rule.protocol and not rule.above_bytes:
                left *= 1 - rule.fraction
        return 1 - left

    def protocols(self, port: str, direction: str) -> set[str]:
        """Those of which nothing passes there."""
        return {rule.protocol for rule in self._of(port, direction) if rule.protocol}

    def above_bytes(self, port: str, direction: str) -> int:
        """The length above which nothing passes there; 0: there is none."""
        return min((rule.above_bytes for rule in self._of(port, direction) if rule.above_bytes), default=0)

    def _of(self, port: str, direction: str) -> list[Loss]:
        every = (rule for found in self.rules.values() for rule in found)
        return [rule for rule in every if (rule.port, rule.direction) == (port, direction)]

    def listed(self) -> list[dict[str, dict[str, str]]]:
        """As `nft -j list tables` shows them."""
        return [{"table": {"family": "bridge", "name": name}} for name in self.rules]


def _commands(words: Sequence[str]) -> Iterable[str]:
    """nft's commands between semicolons that stand alone; those inside braces are one word."""
    command: list[str] = []
    for word in (*words, ";"):
        if word == ";":
            yield " ".join(command)
            command = []
        else:
            command.append(word)


def _step(rules: dict[str, list[Loss]], command: str) -> set[tuple[str, str]]:
    if found := ADD_TABLE.fullmatch(command):
        rules.setdefault(found["table"], [])
        return set()
    if found := DELETE_TABLE.fullmatch(command):
        return {(rule.port, rule.direction) for rule in rules.pop(found["table"], [])}
    if ADD_CHAIN.fullmatch(command):
        return set()
    if (found := RULE.fullmatch(command)) and found["table"] in rules and _is_one(found):
        fraction = min(1.0, int(found["lost"]) / int(found["of"])) if found["of"] else 1.0
        direction, above = DIRECTIONS[found["way"]], int(found["above"] or 0)
        rule = Loss(found["port"], direction, fraction, found["protocol"] or "", above)
        rules[found["table"]].append(rule)
        return {(rule.port, rule.direction)}
    raise ValueError(f"not understood: nft {command}")


def _is_one(found: re.Match[str]) -> bool:
    """The wire loses a share, or a protocol, or what is too long; not a share of a protocol."""
    return sum(found[name] is not None for name in ("of", "protocol", "above")) <= 1
