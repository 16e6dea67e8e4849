"""Whether UDP passes between hosts: each sends to its peers for a while, and tells whom it heard. Real datagrams."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from harness.facts.base import Fact, parser

SECONDS = 2.5
"""All hosts are asked at once; those that begin late are still heard."""
PROGRAM = r"""
import json, select, socket, sys, time
token, port, seconds, *words = sys.argv[1:]
links, heard = {}, set()
for word in words:
    nic, source, targets = word.split(",", 2)
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, nic.encode())
    except OSError:
        pass
    link.setblocking(False)
    link.bind((source, int(port)))
    links[link] = (source, [each for each in targets.split(",") if each])
until, due = time.monotonic() + float(seconds), 0.0
while (now := time.monotonic()) < until:
    if now >= due:
        due = now + 0.1
        for link, (source, targets) in links.items():
            for target in targets:
                try:
                    link.sendto(token.encode(), (target, int(port)))
                except OSError:
                    pass
    for link in select.select(list(links), [], [], max(0.0, min(due, until) - now))[0]:
        try:
            said, (sender, _) = link.recvfrom(200)
        except OSError:
            continue
        if said == token.encode():
            heard.add((links[link][0], sender))
print(json.dumps(sorted(heard)))
"""


@dataclass(frozen=True)
class Voice:
    """One NIC: the address it sends from and listens at, and the peers' addresses to which it sends."""

    nic: str
    address: str
    targets: tuple[str, ...]


@parser("datagrams")
def heard(text: str) -> frozenset[tuple[str, str]]:
    """(own address, sender's address) of what came."""
    return frozenset((str(here), str(there)) for here, there in json.loads(text))


def datagrams(voices: Sequence[Voice], token: str, port: int) -> Fact[frozenset[tuple[str, str]]]:
    """To be asked of all hosts at the same time, with one token and port."""
    words = [",".join((each.nic, each.address, *each.targets)) + ("" if each.targets else ",") for each in voices]
    argv = ("python3", "-ISc", PROGRAM, token, str(port), f"{SECONDS:g}", *words)
    return Fact("datagrams", argv, heard, "python3", "python3", 10)
