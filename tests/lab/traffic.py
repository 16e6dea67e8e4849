"""Plain traffic for lab tests, run inside the lab's hosts: `python traffic.py ROLE ...`, one JSON line on stdout.

sink ADDRESS PORT STREAMS SECONDS       counts payload that arrives between two moments well inside the transfer
source ADDRESS PORT STREAMS [ALGORITHM] sends until the sink closes
echo ADDRESS PORT                       returns UDP datagrams to their sender
probe FROM TO PORT COUNT INTERVAL_MS    round-trip times of UDP datagrams, in ms
watch                                   a line for every link event: time (CLOCK_MONOTONIC), index, carrier
reach DEVICE ADDRESS PORT SECONDS       whether a UDP echo answers over exactly that NIC, within that time
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import struct
import sys
import threading
import time

WARMUP_S = 0.5


def sink(address: str, port: str, streams: str, seconds: str) -> None:
    listener = socket.create_server((address, int(port)), backlog=64)
    print(json.dumps({"listening": True}), flush=True)
    selector = selectors.DefaultSelector()
    connections = []
    for _ in range(int(streams)):
        connection, _peer = listener.accept()
        connections.append(connection)
        selector.register(connection, selectors.EVENT_READ)
    _drain(selector, WARMUP_S)
    count, elapsed_s = _drain(selector, float(seconds))
    for connection in connections:
        connection.close()
    listener.close()
    print(json.dumps({"bytes": count, "elapsed_s": elapsed_s}), flush=True)


def _drain(selector: selectors.BaseSelector, seconds: float) -> tuple[int, float]:
    buffer = bytearray(1 << 20)
    start = time.monotonic()
    count = 0
    while time.monotonic() - start < seconds:
        for key, _events in selector.select(0.1):
            count += key.fileobj.recv_into(buffer)  # type: ignore[union-attr]
    return count, time.monotonic() - start


def source(address: str, port: str, streams: str, algorithm: str = "") -> None:
    threads = [threading.Thread(target=_send, args=(address, int(port), algorithm)) for _ in range(int(streams))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _send(address: str, port: int, algorithm: str) -> None:
    with socket.socket() as link, contextlib.suppress(ConnectionError):
        if algorithm:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
        link.connect((address, port))
        block = bytes(1 << 18)
        while True:
            link.sendall(block)


def echo(address: str, port: str) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as link:
        link.bind((address, int(port)))
        print(json.dumps({"listening": True}), flush=True)
        while True:
            data, sender = link.recvfrom(2048)
            link.sendto(data, sender)


def probe(local: str, remote: str, port: str, count: str, interval_ms: str) -> None:
    times_ms, lost = [], 0
    with socket.socket(type=socket.SOCK_DGRAM) as link:
        link.bind((local, 0))
        link.settimeout(0.5)
        for index in range(int(count)):
            data = index.to_bytes(4, "big")
            start = time.monotonic()
            link.sendto(data, (remote, int(port)))
            try:
                while link.recv(64) != data:
                    pass
                times_ms.append((time.monotonic() - start) * 1000)
            except TimeoutError:
                lost += 1
            time.sleep(float(interval_ms) / 1000)
    times_ms.sort()
    print(json.dumps({"times_ms": times_ms, "lost": lost}), flush=True)


def watch() -> None:
    rtmgrp_link, iff_lower_up = 1, 1 << 16
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as events:
        events.bind((0, rtmgrp_link))
        print(json.dumps({"listening": True}), flush=True)
        while True:
            data = events.recv(65536)
            index, flags = struct.unpack_from("=iI", data, 16 + 4)  # nlmsghdr, then ifinfomsg from its index on
            line = {"t_ns": time.monotonic_ns(), "index": index, "carrier": bool(flags & iff_lower_up)}
            print(json.dumps(line), flush=True)


def reach(device: str, address: str, port: str, seconds: str) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
        link.settimeout(float(seconds))
        link.sendto(b"?", (address, int(port)))
        try:
            answered = link.recv(64) == b"?"
        except OSError:
            answered = False
    print(json.dumps({"answered": answered}), flush=True)


ROLES = {"sink": sink, "source": source, "echo": echo, "probe": probe, "watch": watch, "reach": reach}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
