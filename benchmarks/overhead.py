"""What R2CC costs when nothing is broken: time per byte and per message, and CPU time, interleaved with stock.

    .venv/bin/python benchmarks/overhead.py [--arm migrate] [--repeats 5] [--lock FILE] [--json]
    .venv/bin/python benchmarks/overhead.py --arm balance --hosts 2 --rate 4 --sizes 524288 --spin

Sizes are those of one message. From 64 KiB up the ratio of iteration times counts; below, the time more per message.
Medians over repeats A B A B ..., each compared with the stock run beside it.

CPU time is given twice. *Over stock*: of all processes, whose progress threads sleep when nothing moves, so that two
cores carry the lab; whatever a test or a datagram costs shows. *Beside busy threads*: NCCL's progress threads never
sleep while there is work; they cost what an iteration takes, and the net's own thread comes on top. That is
computed: the ratio of iteration times, times one and the engine's share of the time. Two cores could not show it.

`--spin` lets the progress threads spin, as NCCL's do, one a core at most (`--hosts 2` on two): at several Gbit/s a NIC
their time is what collectives wait for, and what the net makes of it shows.
"""

from __future__ import annotations

from typing import Any

import click
from common import KIB, MIB, Figure, Json, Ran, Steps, command, experiment, hosts_option, median_of, sizes

LARGE = (64 * KIB, 128 * KIB, MIB)
SMALL = (256, 4 * KIB, 16 * KIB)
RATIO, US_PER_MESSAGE, CPU_RATIO = 1.01, 1.0, 1.03
SECONDS = 6


def case(size: int, rate_gbit: float, hosts: int, arms: list[str], *, spin: bool = False) -> Any:
    """Large messages: the lab of all figures. Small ones: two hosts with one NIC each, so that messages alone count."""
    if size >= LARGE[0]:
        topology = {"hosts": hosts, "nics": 4, "rate_gbit": rate_gbit}
        workload: Json = {"op": "allreduce", "bytes": int(64 * MIB * rate_gbit) // 4 * 4, "chunk_bytes": size}
    else:
        topology = {"hosts": 2, "nics": 1, "rate_gbit": rate_gbit}
        workload = {"op": "stream", "bytes": 2000 * size, "chunk_bytes": size, "channels": 1}
    workload |= {"iterations": 1_000_000, "seconds": SECONDS, "warmup": 5} | ({"idle_us": 0} if spin else {})
    return experiment(f"overhead-{size}", topology=topology, workload=workload, arms=arms)


def cpu_per_iteration(ran: Ran) -> float:
    ends = ran.data.by_event["bench_end"]
    return float(sum(end["cpu_s"] for end in ends)) / max(1, int(ends[0]["completed"]))


def engine_share(ran: Ran) -> float:
    """CPU time of the busiest rank's net thread over the time of its iterations, connecting and ending included."""
    spans = ran.data.whole.values()
    took_s = (max(span.end_ns for span in spans) - min(span.start_ns for span in spans)) / 1e9
    return float(max(end["engine_cpu_us"] for end in ran.data.by_event["net_end"])) / 1e6 / took_s


def measure(
    steps: Steps, *, arm: str, rate_gbit: float, hosts: int, repeats: int, sizes: tuple[int, ...], spin: bool
) -> tuple[list[Figure], Any]:
    figures: list[Figure] = []
    raw: Json = {}
    for size in sizes:
        pairs = []
        for _ in range(repeats):
            stock, ours = (steps.run(case(size, rate_gbit, hosts, [each], spin=spin), each) for each in ("stock", arm))
            pairs.append((stock, ours))
        found, raw[str(size)] = _figures(size, pairs)
        figures += found
    return figures, {"pairs": raw}


def _figures(size: int, pairs: list[tuple[Ran, Ran]]) -> tuple[list[Figure], Json]:
    times = [(a.figures["healthy_ms"]["median"], b.figures["healthy_ms"]["median"]) for a, b in pairs]
    cpu = [cpu_per_iteration(b) / cpu_per_iteration(a) for a, b in pairs]
    void = any(ran.void for pair in pairs for ran in pair)
    label = f"{size // KIB} KiB" if size >= KIB else f"{size} B"
    if size >= LARGE[0]:
        first = median_of(f"{label}: time over stock", [b / a for a, b in times], RATIO, "ratio", void=void)
    else:
        messages = pairs[0][0].figures["metrics"][0]["size_bytes"] / size
        more = [(b - a) * 1000 / messages for a, b in times]
        first = median_of(f"{label}: more per message", more, US_PER_MESSAGE, "us", void=void)
    busy = [took[1] / took[0] * (1 + engine_share(b)) for took, (_, b) in zip(times, pairs, strict=True)]
    figures = [
        first,
        median_of(f"{label}: CPU time over stock", cpu, CPU_RATIO, "ratio", void=void),
        median_of(f"{label}: CPU time beside busy threads", busy, CPU_RATIO, "ratio", void=void),
    ]
    return figures, {"healthy_ms": times, "cpu_ratio": cpu, "cpu_beside_busy_threads": busy}


main = command(
    "Overhead when healthy",
    measure,
    hosts_option,
    click.option("--repeats", type=click.IntRange(1, 50), default=5, show_default=True),
    click.option("--sizes", default=",".join(map(str, (*SMALL, *LARGE))), show_default=True, callback=sizes),
    click.option("--spin", is_flag=True, help="Progress threads never sleep."),
)

if __name__ == "__main__":
    main()
