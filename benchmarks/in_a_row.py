"""What R2CC costs all-reduces that follow each other without a pause, as a training step's do: beside stock, by turns.

    .venv/bin/python benchmarks/in_a_row.py --arm balance [--hosts 2] [--rate 1] [--repeats 5] [--json]

Sixteen all-reduces an iteration. The next begins on a connection when all that was sent there is over, which with stock
is when the kernel has it, and with R2CC when it can no longer be lost. The progress threads spin, as NCCL's do (one
core each: two hosts on two cores). Message sizes and slots are NCCL's: a quarter and an eighth of the data, at most
64 KiB, four slots. Median over pairs A B B A ...; aims: 1.01 from 1 MiB, 1.03 below.
"""

from __future__ import annotations

from typing import Any

import click
from common import KIB, MIB, Figure, Json, Steps, command, experiment, hosts_option, sizes

from chaos.analysis.stats import median
from harness.errors import UsageError

SIZES = (64 * KIB, 256 * KIB, MIB, 4 * MIB)
IN_A_ROW, CHANNELS, MOST_CHUNK = 16, 4, 64 * KIB
LARGE, LARGE_RATIO, SMALL_RATIO = MIB, 1.01, 1.03
SECONDS = 4


def case(size: int, rate_gbit: float, hosts: int, arm: str) -> Any:
    """One arm's run of all-reduces of `size` bytes."""
    chunk = max(4, min(MOST_CHUNK, size // CHANNELS // hosts // 4 * 4))
    workload: Json = {"bytes": size, "chunk_bytes": chunk, "channels": CHANNELS, "slots": 4, "in_a_row": IN_A_ROW}
    workload |= {"iterations": 1_000_000, "seconds": SECONDS, "warmup": 5, "idle_us": 0}
    topology = {"hosts": hosts, "nics": 4, "rate_gbit": rate_gbit}
    return experiment(f"in-a-row-{size}", topology=topology, workload=workload, arms=[arm])


def measure(
    steps: Steps, *, arm: str, rate_gbit: float, hosts: int, repeats: int, sizes: tuple[int, ...]
) -> tuple[list[Figure], Any]:
    if hosts & (hosts - 1):
        raise UsageError(f"{hosts} hosts: sums of sums stay exact with 2, 4, 8, ... hosts", "choose another --hosts")
    figures: list[Figure] = []
    raw: Json = {}
    for size in sizes:
        took: dict[str, list[float]] = {"stock": [], arm: []}
        void = False
        for number in range(repeats):
            for each in ("stock", arm) if number % 2 == 0 else (arm, "stock"):
                ran = steps.run(case(size, rate_gbit, hosts, each), each)
                took[each].append(ran.figures["healthy_ms"]["median"] / IN_A_ROW)
                void |= ran.void
        ratio = median([ours / stock for stock, ours in zip(took["stock"], took[arm], strict=True)])
        bound = LARGE_RATIO if size >= LARGE else SMALL_RATIO
        figures.append(Figure(f"{size // KIB} KiB: time over stock", ratio, bound, "ratio", void=void))
        raw[str(size)] = took
    return figures, {"ms": raw}


main = command(
    "All-reduces in a row",
    measure,
    hosts_option,
    click.option("--repeats", type=click.IntRange(1, 50), default=5, show_default=True),
    click.option(
        "--sizes",
        default=",".join(map(str, SIZES)),
        show_default=True,
        callback=sizes,
        help="Of an all-reduce, in bytes.",
    ),
)

if __name__ == "__main__":
    main()
