"""Somebody who listens on a network. `python tapped.py FILE MOST_MB NIC ...`: what passes these NICs, until it is ended
or has heard so much. A line of JSON when it listens."""

from __future__ import annotations

import json
import select
import socket
import sys
from pathlib import Path

ETH_P_ALL = 3
PACKET = 1 << 16


def listen(file: str, most_mb: str, *nics: str) -> None:
    links = []
    for nic in nics:
        link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        link.bind((nic, 0))
        links.append(link)
    left = int(most_mb) << 20
    with Path(file).open("wb", buffering=0) as out:
        print(json.dumps({"event": "listens"}), flush=True)
        while left > 0:
            for link in select.select(links, [], [])[0]:
                packet = link.recv(PACKET)
                left -= out.write(packet)


if __name__ == "__main__":
    listen(*sys.argv[1:])
