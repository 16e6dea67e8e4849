"""How long the project's own work takes: building the net from nothing, all tests, what a change must pass.

    .venv/bin/python benchmarks/project_times.py [--parts build,tests,gate] [--json]

\b
build   `r2cc build net` into an empty folder, without ccache; NCCL's source and CUDA's headers are there
tests   make test
gate    .ci/run

Its aims are those for two cores. What fails is an error: its time says nothing.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
from common import Benchmark, Figure, finish, json_option

from harness.build import build_net
from harness.errors import BuildError
from harness.progress import show
from harness.repo import Layout, checkout

TESTS_S, GATE_S = 8 * 60.0, 15 * 60.0
LAST = 5
"""Lines of what failed."""


@dataclass(frozen=True)
class Empty(Layout):
    """This checkout with another folder for what is built."""

    folder: Path = Path()

    @property
    def net(self) -> Path:
        return self.folder


def build_s() -> float:
    with tempfile.TemporaryDirectory(prefix="r2cc-build-") as folder:
        os.environ["CCACHE_DISABLE"] = "1"
        started = time.perf_counter()
        build_net(layout=Empty(checkout().root, folder=Path(folder)), progress=show)
        return time.perf_counter() - started


def command_s(*words: str) -> float:
    """Shows what it says as it says it. BuildError with the last lines where it fails."""
    started = time.perf_counter()
    last: deque[str] = deque(maxlen=LAST)
    with subprocess.Popen(
        words, cwd=checkout().root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as child:
        for line in child.stdout or ():
            click.echo(line, nl=False, err=True)
            last.extend([line.strip()] if line.strip() else [])
    if child.returncode != 0:
        raise BuildError(f"{' '.join(words)} ended with {child.returncode}: {' | '.join(last)}", "run it alone")
    return time.perf_counter() - started


PARTS: dict[str, Callable[[], Figure]] = {
    "build": lambda: Figure("build of the net from nothing", build_s(), None, "s"),
    "tests": lambda: Figure("make test", command_s("make", "test"), TESTS_S, "s"),
    "gate": lambda: Figure(".ci/run", command_s(".ci/run"), GATE_S, "s"),
}


@click.command(cls=Benchmark, help=__doc__)
@click.option("--parts", default="build", show_default=True)
@json_option
def main(*, parts: str, as_json: bool) -> None:
    wanted = parts.split(",")
    if unknown := [part for part in wanted if part not in PARTS]:
        raise click.BadParameter(
            f"there is no {', '.join(unknown)}; there are {', '.join(PARTS)}", param_hint="--parts"
        )
    finish("the project", [PARTS[part]() for part in wanted], as_json=as_json, cores=len(os.sched_getaffinity(0)))


if __name__ == "__main__":
    main()
