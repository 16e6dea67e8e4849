"""What the figures' benchmarks share: running an experiment in the lab step by step, and one table for what it showed.

A step is one run of one arm, short enough (under two minutes) to keep a machine quiet for; `--lock FILE` holds a lock
on that file for each step and lets others in between.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import click

from chaos.analysis.figures import run_figures
from chaos.analysis.rundata import RunData, read_run
from chaos.analysis.stats import median, median_interval
from chaos.experiment.model import MODES, Experiment
from chaos.record.journal import Journal, read
from chaos.record.live import Display
from chaos.run import runner
from chaos.testbed.beds import Bed, open_bed
from chaos.testbed.launch import Bench
from harness.errors import R2ccError
from harness.files.rundir import RunDir
from harness.sites.lab import LabSite

Json = dict[str, Any]
HOLDS, MISSES, VOID, SHOWN = "holds", "MISSES", "void", "shown"
KIB, MIB = 1 << 10, 1 << 20
R2CC = Path(sys.executable).parent / "r2cc"
os.environ.pop(
    "PYTHONDONTWRITEBYTECODE", None
)  # some containers set it: each command would compile all its modules again


@dataclass(frozen=True)
class Figure:
    """One line: `at_least` turns the bound around; no bound means only shown."""

    name: str
    measured: float | None
    bound: float | None
    unit: str
    at_least: bool = False
    void: bool = False
    judged: bool = True
    low: float | None = None
    high: float | None = None
    """The interval that holds it with 95 %; the extremes of fewer than six repeats."""
    repeats: int = 1

    @property
    def outcome(self) -> str:
        if self.bound is None or not self.judged:
            return SHOWN
        if self.measured is None:
            return MISSES
        good = self.measured >= self.bound if self.at_least else self.measured <= self.bound
        return VOID if self.void else HOLDS if good else MISSES

    def as_json(self) -> Json:
        ratio = self.measured / self.bound if self.measured is not None and self.bound else None
        return {**asdict(self), "outcome": self.outcome, "measured_over_bound": ratio}


def median_of(name: str, values: Iterable[float], bound: float | None, unit: str, **words: Any) -> Figure:
    """The middle of what was measured several times; nothing measured is None. `words`: the rest of a Figure."""
    found = list(values)
    low, high = median_interval(found) if len(found) > 1 else (None, None)
    return Figure(name, median(found), bound, unit, low=low, high=high, repeats=len(found), **words)


@dataclass(frozen=True)
class Ran:
    """One run of one arm: its journal, sorted, and its figures."""

    arm: str
    data: RunData
    figures: Json

    @property
    def void(self) -> bool:
        return bool(self.figures["void"])


@dataclass
class Steps:
    """Runs experiments, one arm at a time."""

    bench: Bench
    lock: Path | None
    say: Callable[[str], None]

    def run(self, experiment: Experiment, arm: str, during: Callable[[Bed], None] | None = None) -> Ran:
        """Raises R2ccError when the run cannot be judged: it did not complete, or a result was wrong."""
        with tempfile.TemporaryDirectory(prefix="r2cc-bench-") as folder:
            path = Path(folder) / "journal.jsonl"
            self.say(f"{experiment.name}, {arm}: {len(experiment.faults)} faults")
            with locked(self.lock), Journal(path) as journal, open_bed(LabSite(), experiment) as bed:
                (plan,) = runner.plans(experiment.model_copy(update={"repeats": 1}), [arm], bed, self.bench)
                stop = _beside(bed, during)
                try:
                    runner.run_one(plan, bed, journal, out=RunDir(Path(folder)), display=Display())
                finally:
                    stop()
            data = read_run(read(path))
        figures = run_figures(data, MODES[arm], iterations=experiment.workload.iterations)
        if not figures.completed or figures.wrong_elements:
            why = "; ".join(figures.errors) or f"{figures.wrong_elements} wrong elements"
            raise R2ccError(f"{experiment.name}, {arm}: the run says nothing: {why}", "run the experiment alone")
        self.say(f"{experiment.name}, {arm}: healthy iteration {figures.healthy_ms.median} ms")
        return Ran(arm, data, asdict(figures))


def _beside(bed: Bed, during: Callable[[Bed], None] | None) -> Callable[[], None]:
    """Looks at the bed once, two seconds into the run; returns what ends that."""
    if during is None:
        return lambda: None
    timer = threading.Timer(2.0, during, (bed,))
    timer.start()

    def stop() -> None:
        timer.cancel()
        timer.join(10)

    return stop


@contextmanager
def locked(path: Path | None) -> Iterator[None]:
    """Holds an exclusive lock on a file that others who use the machine hold, too."""
    if path is None:
        yield
        return
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def experiment(
    name: str, *, topology: Json, workload: Json, faults: Sequence[Json] = (), arms: Sequence[str], seed: int = 1
) -> Experiment:
    """An experiment that is not written down in a file."""
    words = {"name": name, "topology": topology, "workload": workload, "faults": list(faults), "seed": seed}
    return Experiment.model_validate({**words, "arms": {arm: {"expect": "any"} for arm in arms}})


def lab_workload(rate_gbit: float) -> Json:
    """64 MiB in chunks of 128 KiB at 1 Gbit/s. At another rate both shrink alike: everything lasts as long as there."""
    size = max(4, int(64 * MIB * rate_gbit) // 4 * 4)
    return {
        "bytes": size,
        "chunk_bytes": max(4 * KIB, int(128 * KIB * rate_gbit) // KIB * KIB),
        "iterations": 1_000_000,
    }


def spread_faults(kind: str, count: int, *, hosts: int, nics: int, every_s: float, down_s: float) -> list[Json]:
    """Faults one after the other, each on another NIC and host than those before it: damping must not join in."""
    found = []
    for n in range(count):
        place = {"host": f"h{n % hosts}", "nic": f"eth{(n // hosts + n) % nics}"}
        at = {"time_s": round(3.0 + n * every_s + 0.037 * (n % 7), 3)}
        found.append({"id": f"f{n:03}", "kind": kind, **place, "at": at, "duration_s": down_s, "may_miss": True})
    return found


def show(title: str, figures: Sequence[Figure]) -> str:
    """measured / bound = ratio, verdict: one line a figure."""
    rows = []
    for figure in figures:
        sign = ">=" if figure.at_least else "<="
        bound = "" if figure.bound is None else f"{sign} {_number(figure.bound)}"
        ratio = figure.as_json()["measured_over_bound"]
        shown = "-" if figure.measured is None else _number(figure.measured)
        between = ""
        if figure.low is not None and figure.high is not None:
            between = f"{_number(figure.low)}..{_number(figure.high)} of {figure.repeats}"
        over = f"{ratio:.3f}" if ratio else ""
        rows.append((figure.name, f"{shown} {figure.unit}", between, bound, over, figure.outcome))
    head = ("figure", "measured", "spread", "bound", "measured/bound", "verdict")
    return f"{title}\n{table([head, *rows])}"


def table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def _number(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def exit_code(figures: Sequence[Figure]) -> int:
    """0 all hold, 1 one misses, 3 none misses but one is void."""
    outcomes = {figure.outcome for figure in figures}
    return 1 if MISSES in outcomes or not figures else 3 if VOID in outcomes else 0


def finish(title: str, figures: Sequence[Figure], *, as_json: bool, **more: Any) -> NoReturn:
    """Prints the figures, as JSON with `more`, and ends with what came of them as the exit code."""
    report = {**more, "figures": [figure.as_json() for figure in figures]}
    click.echo(json.dumps(report, indent=1) if as_json else show(title, figures))
    sys.exit(exit_code(figures))


class Benchmark(click.Command):
    """A command whose errors are one line and their exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except R2ccError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(error.exit_code)


Measure = Callable[..., tuple[list[Figure], Json]]


def sizes(_: click.Context, __: click.Parameter, text: str) -> tuple[int, ...]:
    """A callback for --sizes: bytes, in whole floats."""
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or any(size < 4 or size % 4 for size in found):
        raise click.BadParameter(f"takes numbers of bytes with commas between, each a multiple of 4, not '{text}'")
    return found


def counts(least: int, most: int) -> Callable[[click.Context, click.Parameter, str], tuple[int, ...]]:
    """A callback for an option that takes several whole numbers, each from `least` to `most`."""

    def read(_: click.Context, __: click.Parameter, text: str) -> tuple[int, ...]:
        try:
            found = tuple(int(part) for part in text.split(","))
        except ValueError:
            found = ()
        if not found or any(not least <= count <= most for count in found):
            raise click.BadParameter(f"takes numbers from {least} to {most} with commas between, not '{text}'")
        return found

    return read


json_option = click.option("--json", "as_json", is_flag=True, help="Print the figures and what they came from as JSON.")
lock_option = click.option("--lock", type=click.Path(dir_okay=False, path_type=Path), help="Locked for each run.")
hosts_option = click.option(
    "--hosts",
    type=click.IntRange(2, 64),
    default=4,
    show_default=True,
    help="Fewer carry a higher rate on the same machine.",
)


def command(title: str, measure: Measure, *options: Callable[[Any], Any]) -> click.Command:
    """The command line of a benchmark: its own options, and --arm, --rate, --lock and --json."""

    def main(*, as_json: bool, lock: Path | None, **chosen: Any) -> None:
        from chaos.testbed.hostbench import built

        bench, build = built(quiet=True)
        steps = Steps(bench, lock, lambda line: click.echo(line, err=True))
        figures, more = measure(steps, **chosen)
        about = {"benchmark": title, "build_id": build.get("build_id"), "options": chosen}
        finish(title, figures, as_json=as_json, **about, **more)

    arms = click.Choice(["migrate", "balance", "allreduce"])
    common = [
        click.option("--arm", type=arms, default="migrate", show_default=True, help="Which mode is measured."),
        click.option("--rate", "rate_gbit", type=click.FloatRange(0.01, 32), default=1.0, show_default=True),
        lock_option,
        json_option,
    ]
    for option in [*options, *common]:
        main = option(main)
    return click.command(cls=Benchmark, help=title)(main)
