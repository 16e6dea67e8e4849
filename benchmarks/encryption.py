#!/usr/bin/env python3
"""What R2CC_TLS=1 costs: two processes over sockets, off and on in turns, and the ratio of what they moved.

A pair runs in the lab, at a rate that this machine does not reach: both processes, the kernel and the encryption share
its cores. What was seen: docs/results/encryption.md.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "lab"))
from netcases.play import Stage, made

from harness.build import build_net, run_target
from harness.progress import silent

KIB = 1 << 10
GB = 1e9
ARMS: Mapping[str, Mapping[str, str]] = {
    "off": {},
    "on": {"R2CC_TLS": "1"},
    "off, 2 threads": {"NCCL_SOCKET_NTHREADS": "2", "NCCL_NSOCKS_PERTHREAD": "1"},
    "on, 2 threads": {"R2CC_TLS": "1", "NCCL_SOCKET_NTHREADS": "2", "NCCL_NSOCKS_PERTHREAD": "1"},
}
RATE_GBIT = 32.0


def run(stage: Stage, size: int, seconds: int, env: Mapping[str, str]) -> tuple[float, int]:
    """GB/s of data, and how many messages; raises where any was wrong."""
    with made(rate_gbit=RATE_GBIT) as bed:
        both = stage.pair(bed, "--bytes", size, "--seconds", seconds, env=env).end()
    if both.exact():
        raise click.ClickException("; ".join(both.exact()))
    done = int(both.receiver.last["done"])
    return done * size / seconds / GB, done


@click.command(help=__doc__)
@click.option("--repeats", default=5, show_default=True, help="Of each arm, in turns.")
@click.option("--seconds", default=2, show_default=True, help="Of each run.")
@click.option("--out", type=click.Path(path_type=Path), help="The figures as JSON.")
def main(repeats: int, seconds: int, out: Path | None) -> None:
    library = build_net(progress=silent).library
    run_target("driver", silent)
    rows = []
    with tempfile.TemporaryDirectory(prefix="r2cc-encryption-") as folder:
        stage = Stage(library.with_name("net_driver"), library, 1, Path(folder))
        for size in (4 * KIB, 64 * KIB, 1024 * KIB):
            rates: dict[str, list[float]] = {arm: [] for arm in ARMS}
            for _ in range(repeats):
                for arm, env in ARMS.items():
                    rates[arm].append(run(stage, size, seconds, env)[0])
            for arm, seen in rates.items():
                plain = statistics.median(rates["off" + arm.removeprefix("on").removeprefix("off")])
                ratio = statistics.median(seen) / plain
                rows.append(
                    {"bytes": size, "arm": arm, "GBps": [round(one, 3) for one in seen], "of_off": round(ratio, 3)}
                )
                click.echo(f"{size:>8} bytes  {arm:<15} {statistics.median(seen):6.3f} GB/s  {ratio:5.2f} of off")
    if out is not None:
        out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
