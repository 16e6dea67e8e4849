"""How long the store's commands take with many runs, as whole processes: what somebody at a terminal waits for."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import click
from common import R2CC, Benchmark, Figure, finish, json_option

from harness import progress
from reports.store.store import INDEX

BOUND_S = 1.0
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
SIZES = tuple(1 << power for power in range(13, 31))


def summary(number: int) -> dict[str, Any]:
    """Two arms of two repeats, with a fault each, 4 x 4 NICs and busbw at 18 sizes: more than most runs have."""
    random = Random(number)

    def repeat(run: int) -> dict[str, Any]:
        moved = {f"eth{nic}": {"tx_bytes": random.randrange(1 << 32), "rx_bytes": 1 << 31} for nic in range(4)}
        times = {key: 100 * (1 + 0.01 * random.random()) for key in ("stall_ms", "iteration_ms", "degraded_ms")}
        metrics = [
            {"name": "busbw", "unit": "GBps", "size_bytes": size, "value": 10 + random.random(), "bound": 12.0}
            for size in SIZES
        ]
        healthy = {"median": 100 * (1 + 0.01 * random.random()), "p99": 110.0}
        return {"run": run, "healthy_ms": healthy, "faults": [times], "metrics": metrics,
                "bytes_per_nic": {f"h{host}": moved for host in range(4)}}  # fmt: skip

    arms = [{"name": arm, "runs": [repeat(0), repeat(1)], "metrics": []} for arm in ("stock", "migrate")]
    about = {"schema": 1, "experiment": f"experiment_{number % 7}", "verdict": "holds", "exit_code": 0, "bed": "lab"}
    return about | {"hardware": {"fingerprint": "f00"}, "build_id": f"b{number % 50}", "seed": 1, "arms": arms}


def fill(store: Path, runs: int) -> list[str]:
    """Ids, oldest first."""
    made = []
    with progress.show(f"making {runs} runs"):
        for number in range(runs):
            name = f"{FIRST + timedelta(minutes=number):%Y%m%dT%H%M%SZ}-experiment_{number % 7}"
            (store / name).mkdir()
            (store / name / "journal.jsonl").touch()
            (store / name / "summary.json").write_text(json.dumps(summary(number)))
            made.append(name)
    return made


def _seconds(*words: str) -> float:
    """Of one whole command; CalledProcessError when it fails."""
    start = time.perf_counter()
    subprocess.run([str(R2CC), *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def figures(store: Path, names: list[str], times: int) -> Iterator[Figure]:
    """The first indexing, then every command `times` times."""
    at = ("--store", str(store))
    with progress.show(f"reading {len(names)} runs for the first time"):
        yield Figure("first indexing, with list", _seconds("runs", "list", *at), None, "s")
    asked = {
        "runs list": ("runs", "list"),
        "runs list --json": ("runs", "list", "--json"),
        "runs list, all of them": ("runs", "list", "--json", "--limit", str(len(names))),
        "runs show": ("runs", "show", names[-1]),
        "compare, by id": ("compare", names[0], names[7]),
        "compare, by beginning": ("compare", names[0][:16], names[7][:16], "--json"),
    }
    for name, words in asked.items():
        yield Figure(name, median(_seconds(*words, *at) for _ in range(times)), BOUND_S, "s")


@click.command(cls=Benchmark)
@click.option("--runs", type=click.IntRange(8), default=10_000, show_default=True)
@click.option("--times", type=click.IntRange(1), default=5, show_default=True, help="Of each command; the median.")
@json_option
def main(*, runs: int, times: int, as_json: bool) -> None:
    """Make a store in a temporary folder and time the commands; exit code 1 if one is over the bound."""
    with tempfile.TemporaryDirectory(prefix="r2cc-store-") as folder:
        store = Path(folder)
        found = list(figures(store, fill(store, runs), times))
        size = (store / INDEX).stat().st_size
    finish(f"{runs} runs, index of {size / 2**20:.0f} MiB", found, as_json=as_json, runs=runs, index_bytes=size)


if __name__ == "__main__":
    main()
