"""A stranger in the lab: knows no key, sends what it likes. `python hostile.py ROLE ...`, one JSON line at its end.

flood SECONDS RATE ADDRESS:PORT ...  UDP: noise, our format with a wrong receiver, empty ones; RATE datagrams a second
scan SECONDS ADDRESS ...             TCP to every port that systems give out: connects, then says nothing, noise, or
                                     the greeting that every NCCL socket knows, and hangs on
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import random
import select
import socket
import struct
import sys
import time

EPHEMERAL = range(32768, 61000)
R2CC_MAGIC, WIRE_VERSION = 0x43433252, 3
NCCL_MAGIC, NCCL_TYPE_NET_SOCKET = 0x564AB9F2FC4B9D6C, 3
HELD = 200
"""Connections a scanner keeps open at a time."""


def datagram(number: int, seed: random.Random) -> bytes:
    if number % 3 == 0:
        return seed.randbytes(seed.randrange(1400))
    if number % 3 == 1:
        return struct.pack("<IB", R2CC_MAGIC, WIRE_VERSION) + seed.randbytes(seed.randrange(40, 200))
    return b""


def flood(seconds: str, rate: str, *targets: str) -> None:
    seed = random.Random(1)
    prepared = [datagram(number, seed) for number in range(300)]
    addresses = [(host, int(port)) for host, _colon, port in (target.partition(":") for target in targets)]
    sent, start = 0, time.monotonic()
    with socket.socket(type=socket.SOCK_DGRAM) as link:
        while (passed := time.monotonic() - start) < float(seconds):
            if sent > passed * int(rate):
                time.sleep(0.001)
                continue
            with contextlib.suppress(OSError):  # the queue is full, or "no such port": none of a stranger's business
                link.sendto(prepared[sent % len(prepared)], addresses[sent % len(addresses)])
            sent += 1
    print(json.dumps({"sent": sent}), flush=True)


def greet(link: socket.socket, number: int) -> None:
    says = (b"", b"GET / HTTP/1.0\r\n\r\n", struct.pack("<QiB", NCCL_MAGIC, NCCL_TYPE_NET_SOCKET, 200))
    with contextlib.suppress(OSError):
        link.send(says[number % len(says)])


def scan(seconds: str, *hosts: str) -> None:
    held: list[socket.socket] = []
    tried = answered = 0
    start = time.monotonic()
    for step in itertools.count():
        if time.monotonic() - start > float(seconds):
            break
        host, port = hosts[step % len(hosts)], EPHEMERAL[step // len(hosts) % len(EPHEMERAL)]
        link = socket.socket()
        link.setblocking(False)
        tried += 1
        if link.connect_ex((host, port)) not in (0, errno.EINPROGRESS):
            link.close()
            continue
        held.append(link)
        if len(held) < HELD:
            continue
        for ready in select.select([], held, [], 0)[1]:
            if ready.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                answered += 1
                greet(ready, answered)
            else:
                held.remove(ready)
                ready.close()
        while len(held) >= HELD:
            held.pop(0).close()
    print(json.dumps({"tried": tried, "answered": answered}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "flood":
        flood(*sys.argv[2:])
    else:
        scan(*sys.argv[2:])
