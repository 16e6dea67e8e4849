"""Whether a datagram gets from one lab host to another."""

from __future__ import annotations

import json
import os
import sys
import time

from harness.lab.lab import Lab

RECEIVE = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((sys.argv[1], 7007)); s.setblocking(False)
print("ready", flush=True)
sys.stdin.read()
try:
    print(s.recv(100).decode())
except BlockingIOError:
    print("nothing")
"""
SEND = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(5):
    try:
        s.sendto(b"hello", (sys.argv[1], 7007))
    except OSError:
        pass
    time.sleep(0.02)
"""


def passes(lab: Lab, source: str, target: str, address: str) -> bool:
    """Whether a datagram gets from one host to the other, within 0.5 s after all were sent. The kernel keeps it for a
    receiver that gets no processor meanwhile."""
    theirs, ours = os.pipe2(os.O_CLOEXEC)
    with os.fdopen(ours, "wb"):
        receiver = lab.hosts[target].spawn([sys.executable, "-c", RECEIVE, address], stdin=theirs)
        os.close(theirs)
        assert receiver.stdout is not None
        ready = receiver.stdout.readline()
        if ready:
            lab.hosts[source].run([sys.executable, "-c", SEND, address], timeout_s=60, check=False)
            time.sleep(0.5)
    said = receiver.stdout.read()
    receiver.wait(60)
    receiver.close()
    if not ready:  # nobody can listen on an address that the host does not have
        assert f"{address}/" not in lab.hosts[target].run(["ip", "-br", "addr"]).stdout
        return False
    assert (ready, said) in ((b"ready\n", b"hello\n"), (b"ready\n", b"nothing\n"))
    return said == b"hello\n"


def know_each_other(lab: Lab) -> None:
    """Both keep each other's address for eth1: the kernel asks again from time to time, and a fault keeps the answer
    away where it does not keep what is sent away."""
    for host, other, address in (("h0", "h1", "10.2.0.2"), ("h1", "h0", "10.2.0.1")):
        (link,) = json.loads(lab.hosts[other].run(["ip", "-j", "link", "show", "eth1"]).stdout)
        neighbour = [address, "lladdr", link["address"], "dev", "eth1", "nud", "permanent"]
        lab.hosts[host].run(["ip", "neighbour", "replace", *neighbour])
