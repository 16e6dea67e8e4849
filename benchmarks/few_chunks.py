"""What is left of the bandwidth where a NIC is gone and connections have few chunks on their way.

    .venv/bin/python benchmarks/few_chunks.py [--nics 2,4,8] [--slots 1,3,8] [--hosts 2] [--rate 0.1] [--json]

All-reduces of 2 MiB a NIC in chunks of 128 KiB. One NIC of one host loses its link for five seconds. The figure is the
median iteration meanwhile over the healthy one of the same run, over N / (N - 1): 1 means that all NICs that are left
are always busy. `--fraction 0.25`: the NIC is not gone but slow, and the optimum N / (N - 1 + 0.25).
"""

from __future__ import annotations

from typing import Any

import click
from common import KIB, MIB, Figure, Json, Ran, Steps, command, counts, experiment, hosts_option

from chaos.analysis.phases import degraded_indices, healthy_ms
from chaos.analysis.stats import median

CHUNK, A_NIC, BOUND = 128 * KIB, 2 * MIB, 1.03
BEFORE_S, DOWN_S, SETTLES_S = 3.0, 5.0, 1.0


def fault(fraction: float) -> Json:
    where = {"id": "f", "host": "h0", "nic": "eth1", "at": {"time_s": BEFORE_S}, "duration_s": DOWN_S}
    return {**where, "kind": "link_down"} if fraction == 0 else {**where, "kind": "rate", "fraction": fraction}


def ratio(ran: Ran, optimum: float) -> tuple[float | None, Json]:
    """Of the iterations once the load has moved."""
    (broken,) = ran.data.faults
    begin = (broken.onset_ns or 0) + int(SETTLES_S * 1e9)
    indices = [i for i in degraded_indices(ran.data, broken) if ran.data.whole[i].start_ns > begin]
    healthy, slow = median(healthy_ms(ran.data)), median([ran.data.durations_ms[i] for i in indices])
    found = {"healthy_ms": healthy, "degraded_ms": slow, "iterations": len(indices)}
    return (slow / healthy / optimum if healthy and slow else None), found


def measure(
    steps: Steps,
    *,
    arm: str,
    rate_gbit: float,
    hosts: int,
    nics: tuple[int, ...],
    slots: tuple[int, ...],
    fraction: float,
) -> tuple[list[Figure], Any]:
    figures: list[Figure] = []
    raw: Json = {}
    for count in nics:
        optimum = count / (count - 1 + fraction)
        for flight in slots:
            workload = {"bytes": A_NIC * count, "chunk_bytes": CHUNK, "channels": count, "slots": flight}
            workload |= {"iterations": 1_000_000, "seconds": int(BEFORE_S + DOWN_S + 1), "warmup": 2}
            topology = {"hosts": hosts, "nics": count, "rate_gbit": rate_gbit}
            name = f"few-chunks-{count}-{flight}"
            one = experiment(name, topology=topology, workload=workload, faults=[fault(fraction)], arms=[arm])
            ran = steps.run(one, arm)
            measured, found = ratio(ran, optimum)
            raw[name] = found
            words = f"{count} NICs, {flight} chunks: degraded over the optimum of {optimum:.3f} x healthy"
            figures.append(Figure(words, measured, BOUND, "ratio", void=ran.void))
    return figures, {"runs": raw}


main = command(
    "Few chunks on their way",
    measure,
    hosts_option,
    click.option("--nics", default="2,4,8", show_default=True, callback=counts(2, 16), help="NICs of a host."),
    click.option(
        "--slots",
        default="1,3,8",
        show_default=True,
        callback=counts(1, 32),
        help="Chunks of a connection on their way at most.",
    ),
    click.option("--fraction", type=click.FloatRange(0, 0.9), default=0.0, show_default=True, help="Of the rate left."),
)

if __name__ == "__main__":
    main()
