"""Puts a host under pressure for a bounded time: busy cores, a full NIC queue, full socket queues.

    pressure.py burn|flood|fill [--from ADDRESS ...] [--rate-mbit RATE] --seconds S

Started by faults (chaos/faults/kinds/load.py) on the host itself, with nothing but the standard library.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from collections.abc import Sequence
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


def fill(addresses: Sequence[str], rate_mbit: float, until: float) -> None:
    """Datagrams from each NIC's address to a neighbour's discard port, so much that the NIC may not carry it."""
    nics = [(_senders(address), (_neighbour(address), DISCARD_PORT)) for address in addresses]
    data = bytes(FILL_BYTES)
    pause_s = FILL_BYTES * 8 * FILL_BATCH / (rate_mbit * 1e6)
    turn = time.monotonic()
    while time.monotonic() < until:
        for sockets, target in nics:
            for n in range(FILL_BATCH):
                _send(sockets[n % len(sockets)], data, target)
        turn = max(turn + pause_s, time.monotonic() - pause_s)
        time.sleep(max(turn - time.monotonic(), FILL_PAUSE_S))


def _senders(address: str) -> list[socket.socket]:
    made = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(4)]
    for sender in made:
        sender.bind((address, 0))
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
        sender.setblocking(False)
    return made


def _neighbour(address: str) -> str:
    network, _, own = address.rpartition(".")
    return f"{network}.{2 if own == '1' else 1}"


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
    parser.add_argument("--from", dest="addresses", action="append", default=[])
    parser.add_argument("--rate-mbit", type=float, default=MOST_MBIT)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    until = time.monotonic() + min(args.seconds, MAX_SECONDS)
    if args.what == "burn":
        burn(until)
    elif args.what == "fill":
        fill(args.addresses, args.rate_mbit, until)
    else:
        flood(until)


if __name__ == "__main__":
    main()
