"""Puts a host under pressure for a bounded time: busy cores, a full NIC queue, full socket queues.

    pressure.py burn|flood|fill [--from ADDRESS] [--rate-mbit RATE] --seconds S

Started by faults (chaos/faults/kinds/load.py) on the host itself, with nothing but the standard library.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from pathlib import Path

DISCARD_PORT = 9
FILL_BYTES = 8000
FILL_BATCH, FILL_PAUSE_S = 8, 0.0002
"""At most 2.5 Gbit/s are offered: what a NIC of the lab cannot carry its queue drops."""
MOST_MBIT = FILL_BYTES * 8 * FILL_BATCH / FILL_PAUSE_S / 1e6
FLOOD_BATCH, FLOOD_PAUSE_S = 512, 0.025
"""A socket's default receive queue holds fewer than 300 small datagrams: each batch fills one to the brim."""
MAX_SECONDS = 3700.0


def burn(until: float) -> None:
    """Never sleeps, never allocates."""
    while time.monotonic() < until:
        for _ in range(10_000):
            pass


def fill(address: str, rate_mbit: float, until: float) -> None:
    """Datagrams from the NIC's address to a neighbour's discard port, so much that the NIC may not carry it."""
    network, _, own = address.rpartition(".")
    neighbour = f"{network}.{2 if own == '1' else 1}"
    sockets = []
    for _ in range(4):
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((address, 0))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
        made.setblocking(False)
        sockets.append(made)
    data = bytes(FILL_BYTES)
    pause_s = FILL_BYTES * 8 * FILL_BATCH / (rate_mbit * 1e6)
    turn = time.monotonic()
    while time.monotonic() < until:
        for n in range(FILL_BATCH):
            _send(sockets[n % len(sockets)], data, (neighbour, DISCARD_PORT))
        turn = max(turn + pause_s, time.monotonic() - pause_s)
        time.sleep(max(turn - time.monotonic(), FILL_PAUSE_S))


def flood(until: float) -> None:
    """Random bytes to every UDP socket of this host, one after the other; new sockets are found as they come."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setblocking(False)
    while time.monotonic() < until:
        for target in udp_sockets(Path("/proc/net/udp").read_text()):
            data = os.urandom(64)
            for _ in range(FLOOD_BATCH):
                _send(sender, data, target)
            time.sleep(FLOOD_PAUSE_S)
            if time.monotonic() > until:
                return
        time.sleep(FLOOD_PAUSE_S)


def udp_sockets(table: str) -> list[tuple[str, int]]:
    """Addresses of bound sockets in /proc/net/udp: the kernel prints the address as one native-endian word."""
    found = []
    for line in table.splitlines()[1:]:
        address, _, port = line.split()[1].partition(":")
        packed = int(address, 16).to_bytes(4, sys.byteorder)
        host = socket.inet_ntoa(packed)
        found.append(("127.0.0.1" if host == "0.0.0.0" else host, int(port, 16)))
    return [target for target in found if target[1]]


def _send(sender: socket.socket, data: bytes, target: tuple[str, int]) -> None:
    try:
        sender.sendto(data, target)
    except OSError:
        return  # a full queue, or a NIC that is down: pressure all the same


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["burn", "fill", "flood"])
    parser.add_argument("--from", dest="address", default="")
    parser.add_argument("--rate-mbit", type=float, default=MOST_MBIT)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    until = time.monotonic() + min(args.seconds, MAX_SECONDS)
    if args.what == "burn":
        burn(until)
    elif args.what == "fill":
        fill(args.address, args.rate_mbit, until)
    else:
        flood(until)


if __name__ == "__main__":
    main()
