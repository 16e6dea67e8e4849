"""What is left of the bandwidth for all-gathers that follow each other, as a sharded training step's do.

    .venv/bin/python benchmarks/gathers_in_a_row.py [--channels 4,8] [--lost 1,2] --arm balance --rate 0.1 [--json]

Hosts with four NICs each, in a ring. A rank sends two messages of 64 KiB a channel to the next. It begins the next time
when it has all that comes from the one before, as NCCL does: what it sent itself may still be on its way. So one may be
ahead of another. 16 such steps make an iteration. One or two NICs of one host lose their link for five seconds. The
figure is the median iteration meanwhile over the healthy one of the same run, over 4 / (4 - lost): 1 means that the
wires that are left are always busy.
"""

from __future__ import annotations

from typing import Any

import click
from common import KIB, Figure, Json, Steps, command, counts, experiment, hosts_option
from few_chunks import BEFORE_S, DOWN_S, ratio

NICS, CHUNK, IN_A_ROW, BOUND = 4, 64 * KIB, 16, 1.05
LOST = ("eth1", "eth3")


def measure(
    steps: Steps, *, arm: str, rate_gbit: float, hosts: int, channels: tuple[int, ...], lost: tuple[int, ...]
) -> tuple[list[Figure], Any]:
    figures: list[Figure] = []
    raw: Json = {}
    for count in lost:
        fault = {"id": "f", "kind": "link_down", "nics": [f"h1:{nic}" for nic in LOST[:count]]}
        fault |= {"at": {"time_s": BEFORE_S}, "duration_s": DOWN_S}
        for each in channels:
            workload = {"op": "stream", "in_a_row": IN_A_ROW, "bytes": 2 * CHUNK * each, "chunk_bytes": CHUNK}
            workload |= {"channels": each, "iterations": 1_000_000, "seconds": int(BEFORE_S + DOWN_S + 1), "warmup": 2}
            name = f"gathers-{each}-{count}"
            topology = {"hosts": hosts, "nics": NICS, "rate_gbit": rate_gbit}
            one = experiment(name, topology=topology, workload=workload, faults=[fault], arms=[arm])
            ran = steps.run(one, arm)
            optimum = NICS / (NICS - count)
            measured, raw[name] = ratio(ran, optimum)
            words = (
                f"{each} channels, {count} of {NICS} NICs lost: degraded over the optimum of {optimum:.3f} x healthy"
            )
            figures.append(Figure(words, measured, BOUND, "ratio", void=ran.void))
    return figures, {"runs": raw}


main = command(
    "All-gathers in a row",
    measure,
    hosts_option,
    click.option(
        "--channels", default="4,8,16", show_default=True, callback=counts(1, 64), help="With commas between."
    ),
    click.option(
        "--lost", default="1,2", show_default=True, callback=counts(1, len(LOST)), help="NICs that one host loses."
    ),
)

if __name__ == "__main__":
    main()
