"""How long `r2cc serve` lets people wait when many ask at once: 1,000 runs, half of the pages are comparisons."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from urllib.request import urlopen

import click
from common import R2CC, Benchmark, Figure, finish, json_option, median_of
from store_scale import fill

from harness import progress

BOUND_S = 5.0
"""Of the slowest of all that were asked at the same moment."""
TIMEOUT_S = 300.0


@contextmanager
def serving(store: Path) -> Iterator[str]:
    """The address of an `r2cc serve` of its own."""
    with subprocess.Popen(
        [str(R2CC), "serve", "--store", str(store), "--port", "0", "--json"], stdout=subprocess.PIPE
    ) as server:
        try:
            assert server.stdout is not None
            yield str(json.loads(server.stdout.readline())["address"])
        finally:
            server.terminate()


def questions(names: Sequence[str], count: int) -> list[str]:
    """Half of them comparisons of two runs of one experiment, the others lists and single runs."""
    random = Random(1)
    found = []
    for number in range(count):
        one = random.randrange(len(names) - 7)
        others = (f"run/{names[one]}", "", "?verdict=holds", f"?experiment=experiment_{one % 7}")
        compared = f"compare?run={names[one]}&run={names[one + 7]}"
        found.append(compared if number % 2 else others[number // 2 % len(others)])
    return found


def waits(address: str, asked: Sequence[str]) -> list[float]:
    """Seconds that each of them took, all asked at once."""
    begin = threading.Barrier(len(asked))

    def ask(path: str) -> float:
        begin.wait()
        start = time.perf_counter()
        with urlopen(address + path, timeout=TIMEOUT_S) as answer:
            answer.read()
        return time.perf_counter() - start

    with ThreadPoolExecutor(len(asked)) as pool:
        return list(pool.map(ask, asked))


def figures(address: str, names: Sequence[str], requests: int) -> Iterator[Figure]:
    """With everything new to it, then once more."""
    with progress.show("asking for one page"):
        yield Figure("the first page", waits(address, [""])[0], None, "s")
    for when in ("first time", "again"):
        found = waits(address, questions(names, requests))
        yield median_of(f"{requests} at once, {when}: median", found, None, "s")
        yield Figure(f"{requests} at once, {when}: slowest", max(found), BOUND_S, "s")


@click.command(cls=Benchmark)
@click.option("--runs", type=click.IntRange(16), default=1000, show_default=True)
@click.option("--requests", type=click.IntRange(2), default=200, show_default=True)
@json_option
def main(*, runs: int, requests: int, as_json: bool) -> None:
    """Make a store in a temporary folder, serve it and ask; exit code 1 if somebody waited longer than the bound."""
    with tempfile.TemporaryDirectory(prefix="r2cc-serve-") as folder:
        names = fill(Path(folder), runs)
        with serving(Path(folder)) as address:
            found = list(figures(address, names, requests))
    finish(f"{requests} requests at once, {runs} runs", found, as_json=as_json, runs=runs, requests=requests)


if __name__ == "__main__":
    main()
