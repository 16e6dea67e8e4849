"""A job to try `kind: command` with: ranks in a ring exchange integers over TCP, one line a step. Needs Python alone.

    python3 ring.py [--steps 60] [--bytes 2000000] [--nic eth0]

Its place is in RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as under torchrun. Each rank leaves the digest of all
that it received in $R2CC_OUT/digest, where that is set. Exit code 1: a neighbour is lost.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import socket
import struct
import sys
import threading
import time
from pathlib import Path

SIOCGIFADDR = 0x8915
PATIENCE_S = 60.0
PIECE = 1 << 16


def address_of(nic: str) -> str:
    """The IPv4 address of one of this host's NICs."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        answer = fcntl.ioctl(asked.fileno(), SIOCGIFADDR, struct.pack("256s", nic.encode()[:15]))
    return socket.inet_ntoa(answer[20:24])


def connected(place: tuple[str, int]) -> socket.socket:
    """Waits until somebody listens there."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(place, timeout=PATIENCE_S)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def met(rank: int, ranks: int, mine: tuple[str, int]) -> list[tuple[str, int]]:
    """Where every rank listens: rank 0 collects the places, and tells them all."""
    master = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if rank > 0:
        with connected(master) as asked, asked.makefile("rw") as lines:
            print(json.dumps([rank, *mine]), file=lines, flush=True)
            return [(address, port) for address, port in json.loads(lines.readline())]
    places, waiting = {0: mine}, []
    with socket.create_server(master, backlog=ranks) as server:
        server.settimeout(PATIENCE_S)
        while len(places) < ranks:
            lines = server.accept()[0].makefile("rw")
            other, address, port = json.loads(lines.readline())
            places[other] = address, port
            waiting.append(lines)
    every = [places[other] for other in range(ranks)]
    for lines in waiting:
        print(json.dumps(every), file=lines, flush=True)
    return every


def received(source: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = source.recv(min(PIECE, size - len(data)))
        if not piece:
            sys.exit("a neighbour is lost")
        data += piece
    return bytes(data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--bytes", type=int, default=2_000_000)
    parser.add_argument("--nic", default="eth0")
    asked = parser.parse_args()
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address = address_of(asked.nic)
    with socket.create_server((address, 0)) as server:
        server.settimeout(PATIENCE_S)
        places = met(rank, ranks, (address, server.getsockname()[1]))
        right = connected(places[(rank + 1) % ranks])
        left, _ = server.accept()
    own, seen = bytes((rank + index) % 251 for index in range(asked.bytes)), hashlib.sha256()
    for step in range(1, asked.steps + 1):
        block = own
        for _ in range(ranks - 1):
            sending = threading.Thread(target=right.sendall, args=(block,))
            sending.start()
            block = received(left, asked.bytes)
            sending.join()
            seen.update(block)
        if rank == 0:
            print(f"step {step} loss {1 / step:.4f}", flush=True)
    if out := os.environ.get("R2CC_OUT"):
        Path(out, "digest").write_text(seen.hexdigest())


if __name__ == "__main__":
    main()
