"""A queue for each flow at a host's NIC, as fq_codel and fq give real hosts one, made of HTB classes: not every kernel
has those two, and an unprivileged lab cannot load them.

Without it flows share one short queue that drops at its tail: a flow of few packets can lose them and what it sends
again until the others are done (docs/lab.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from harness.lab.batch import batch

QUEUES = 64
FIRST = 0x10
QUANTUM_BYTES = 18_000
# ((source port + destination port) >> 1) & 63 as the minor number of a class of 2:. Ports of the two ends differ in
# parity, which is why one bit is shifted out. What has no ports, or is not long enough to, goes to the first queue.
BYTECODE = ["40 0 0 34", "7 0 0 0", "40 0 0 36", "12 0 0 0", "116 0 0 1", f"84 0 0 {QUEUES - 1}"]
BYTECODE += [f"4 0 0 {0x20000 + FIRST}", "22 0 0 0"]


def fair_queues(nics: Iterable[str]) -> str:
    """Hangs it under the token bucket of each NIC of the current network; returns why not, or nothing."""
    return batch("tc", (line for nic in nics for line in commands(nic)))


def commands(nic: str) -> list[str]:
    """tc's words for one NIC. No class ever waits for tokens: HTB only takes turns, the bucket above it shapes."""
    classes = [f"2:{FIRST + number:x}" for number in range(QUEUES)]
    never_waits = "rate 30gbit burst 10mb cburst 10mb"
    bytecode = ",".join([str(len(BYTECODE)), *BYTECODE])
    return [
        f"qdisc add dev {nic} parent 1:1 handle 2: htb default {FIRST:x}",
        *(f"class add dev {nic} parent 2: classid {c} htb {never_waits} quantum {QUANTUM_BYTES}" for c in classes),
        f"filter add dev {nic} parent 2: protocol all bpf bytecode '{bytecode}'",
    ]
