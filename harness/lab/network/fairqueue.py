"""A queue for each flow at a host's NIC, as fq_codel and fq give real hosts one, made of HTB classes: not every kernel
has those two, and an unprivileged lab cannot load them.

Without it flows share one short queue that drops at its tail: a flow of few packets can lose them and what it sends
again until the others are done (docs/results/lab.md).
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.lab.network.batch import batch

QUEUES = 256
"""Two flows that meet in one queue each get half of what the others get. With 64 that was a matter of luck: chains on 4
hosts x 4 NICs took 1.09 to 1.27 of the healthy ring's time from run to run, and the same to 0.3 % within a run."""
FIRST = 0x10
HEADERS = 1 / 8
"""More that a packet of many segments counts for: 66 bytes of headers each, with segments of 1280 bytes or more."""
# ((source port + destination port) >> 1) & 255 as the minor number of a class of 2:. Ports of the two ends differ in
# parity, which is why one bit is shifted out. What has no ports, or is not long enough to, goes to the first queue.
BYTECODE = ["40 0 0 34", "7 0 0 0", "40 0 0 36", "12 0 0 0", "116 0 0 1", f"84 0 0 {QUEUES - 1}"]
BYTECODE += [f"4 0 0 {0x20000 + FIRST}", "22 0 0 0"]


def fair_queues(nics: Mapping[str, int]) -> str:
    """Hangs it under the token bucket of each NIC of the current network, whose largest packet is given, in bytes.

    Returns why not, or nothing.
    """
    return batch("tc", (line for nic, largest in nics.items() for line in commands(nic, largest)))


def commands(nic: str, largest_packet: int) -> list[str]:
    """tc's words for one NIC. No class ever waits for tokens: HTB only takes turns, the bucket above it shapes."""
    classes = [f"2:{FIRST + number:x}" for number in range(QUEUES)]
    never_waits = "rate 30gbit burst 10mb cburst 10mb"
    bytecode = ",".join([str(len(BYTECODE)), *BYTECODE])
    quantum = turn(largest_packet)
    return [
        f"qdisc add dev {nic} parent 1:1 handle 2: htb default {FIRST:x}",
        *(f"class add dev {nic} parent 2: classid {c} htb {never_waits} quantum {quantum}" for c in classes),
        f"filter add dev {nic} parent 2: protocol all bpf bytecode '{bytecode}'",
    ]


def turn(largest_packet: int) -> int:
    """Bytes a class may send before the next one's turn: never less than one packet.

    HTB sends a packet even if it is longer than what is left of the turn, and notes what was too much in 32 bits. With
    turns shorter than packets that grows for ever: after 3 GB of packets of 64 KiB it wraps around, and the flow then
    keeps all others from its NIC for as long as it has anything to send (docs/results/lab.md).
    """
    return largest_packet + int(largest_packet * HEADERS)
