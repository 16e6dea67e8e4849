"""What is left of the bandwidth where NICs are gone and connections have few chunks on their way.

    .venv/bin/python benchmarks/few_chunks.py [--nics 2,4,8] [--slots 1,3,8] [--hosts 2] [--rate 0.1] [--json]
    .venv/bin/python benchmarks/few_chunks.py --nics 3,4,8 --lost 2 --slots 1,3 --rate 0.05

All-reduces of 2 MiB a NIC in chunks of 128 KiB. `--lost` NICs of one host lose their links for five seconds. The figure
is the median iteration meanwhile over the healthy one of the same run, over N / (N - lost): 1 means that all NICs that
are left are always busy. `--fraction 0.25`: they are not gone but slow, and the optimum is N / (N - 0.75 lost).
"""

from __future__ import annotations

from itertools import product
from typing import Any

import click
from common import KIB, MIB, Figure, Json, Ran, Steps, command, counts, experiment, hosts_option

from chaos.analysis.phases import degraded_indices, healthy_ms
from chaos.analysis.stats import median

CHUNK, A_NIC, BOUND = 128 * KIB, 2 * MIB, 1.03
BEFORE_S, DOWN_S, SETTLES_S = 3.0, 5.0, 1.0


def fault(fraction: float, lost: int) -> Json:
    nics = [f"h0:eth{1 + nic}" for nic in range(lost)]
    where = {"id": "f", "nics": nics, "at": {"time_s": BEFORE_S}, "duration_s": DOWN_S}
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
    lost: tuple[int, ...],
    fraction: float,
) -> tuple[list[Figure], Any]:
    if fraction == 0 and max(lost) >= min(nics):
        raise click.UsageError(
            f"--lost {max(lost)} leaves none of {min(nics)} NICs: give fewer than the least of --nics"
        )
    figures: list[Figure] = []
    raw: Json = {}
    for count, gone, flight in product(nics, lost, slots):
        optimum = count / (count - gone * (1 - fraction))
        workload = {"bytes": A_NIC * count, "chunk_bytes": CHUNK, "channels": count, "slots": flight}
        workload |= {"iterations": 1_000_000, "seconds": int(BEFORE_S + DOWN_S + 1), "warmup": 2}
        topology = {"hosts": hosts, "nics": count, "rate_gbit": rate_gbit}
        which = f"{count} NICs, {flight} chunks" if gone == 1 else f"{count} NICs, {gone} lost, {flight} chunks"
        name = f"few-chunks-{count}-{flight}" + ("" if gone == 1 else f"-lost-{gone}")
        one = experiment(name, topology=topology, workload=workload, faults=[fault(fraction, gone)], arms=[arm])
        ran = steps.run(one, arm)
        measured, raw[name] = ratio(ran, optimum)
        words = f"{which}: degraded over the optimum of {optimum:.3f} x healthy"
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
    click.option(
        "--lost", default="1", show_default=True, callback=counts(1, 15), help="NICs that one host loses, at once."
    ),
    click.option("--fraction", type=click.FloatRange(0, 0.9), default=0.0, show_default=True, help="Of the rate left."),
)

if __name__ == "__main__":
    main()
