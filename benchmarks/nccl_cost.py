"""What R2CC costs while nothing is wrong: collectives of 8 B to 1 GiB against stock, by turns, under real NCCL on GPUs.

    python3 benchmarks/nccl_cost.py [--cases shaped,full,nvlink] [--op all_reduce] [--arm balance] [--sizes 8,1048576]

\b
shaped   two hosts with a GPU each and four shaped NICs
full     the same, NICs faster than the machine can fill
nvlink   one host with two GPUs: NCCL uses no network there

Three jobs of the same library, stock (R2CC_MODE=0), one with R2CC and stock again, are up all the time and run by turns
of a tenth of a second in the order A B C C B A, so that what the machine does to one it does to the others. The figure
is the median over the rounds of the ratio of their times; its 95 % interval is that of the median's order statistics.
`again` is the second stock job over the first: what two jobs differ by here although they are alike. Bounds: 1.01 from
1 MiB; below, the greater of 3 % and 2 us more. Takes `r2cc build nccl`, torch, GPUs. Seen: docs/results/gpu.md.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import click
from common import KIB, MIB, Benchmark, Figure, Json, exit_code, json_option, show, sizes

from chaos.analysis.stats import median, median_interval
from chaos.experiment.model import MODES
from chaos.testbed.gpubench import ENVIRONMENT, built_library
from harness.errors import InfraError, R2ccError
from harness.facts import local_gpus as gpu
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.workloads.bench import EVENT_FILE, bench_env

RANK = Path(__file__).with_name("turns_rank.py")
OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
SIZES = (8, 64, 512, 4 * KIB, 32 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB)
TURN_S, START_S, LIMIT_S = 0.1, 120.0, 60.0
FEWEST_ROUNDS, SIZE_S = 6, 24.0
"""Of each size: fewer rounds than asked for where they would take longer."""
MOST_OPS = 2000
LARGE, LARGE_RATIO, SMALL_RATIO, SMALL_US = MIB, 1.01, 1.03, 2.0
PORT = 29500


@dataclass(frozen=True)
class Case:
    """Hosts, GPUs of each, and what their NICs do."""

    hosts: int
    gpus: int
    nics: int
    rate_gbit: float


class Job:
    """One arm's ranks, all connected; they do what they are told, all the same."""

    def __init__(self, stack: ExitStack, places: Sequence[tuple[Any, int]], words: Sequence[str], env: Json) -> None:
        """`places`: host and GPU of each rank."""
        self._files: list[Path] = []
        self._pipes: list[int] = []
        self._processes: list[Any] = []
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="r2cc-cost-")))
        for rank, (host, card) in enumerate(places):
            file = self._folder / f"rank{rank}"
            reading, writing = os.pipe()
            stack.callback(os.close, writing)
            argv = [*words, "--rank", str(rank), "--ranks", str(len(places)), "--gpu", str(card)]
            mine = {**env, "NCCL_HOSTID": f"lab-{host.name}", "R2CC_EVENT_FILE": EVENT_FILE}
            with file.open("ab") as output:
                process = host.spawn(argv, env=mine, stdin=reading, stdout=output, stderr=output)
            os.close(reading)
            stack.callback(process.close)
            self._files.append(file)
            self._pipes.append(writing)
            self._processes.append(process)

    def ask(self, text: str, event: str, count: int, limit_s: float) -> list[Json]:
        """Tells all ranks, and waits for the `count`th line of that event of each; those lines."""
        for pipe in self._pipes if text else ():
            os.write(pipe, text.encode() + b"\n")
        until = time.monotonic() + limit_s
        while True:
            found = [list(self._said(file, event)) for file in self._files]
            if all(len(lines) >= count for lines in found):
                return [lines[count - 1] for lines in found]
            if time.monotonic() > until or any(process.poll() not in (None, 0) for process in self._processes):
                tails = "\n".join(file.read_text(errors="replace")[-1500:] for file in self._files)
                raise InfraError(f"a rank did not answer '{text}' with '{event}'\n{tails}", "see what it says")
            time.sleep(0.005)

    def _said(self, file: Path, event: str) -> Iterator[Json]:
        for text in file.read_text(errors="replace").splitlines():
            if f'"event": "{event}"' in text and text.endswith("}"):
                yield json.loads(text)

    def texts(self) -> list[str]:
        """All that each rank said so far."""
        return [file.read_text(errors="replace") for file in self._files]

    def paths(self) -> int:
        """How many lines of the net library there are: none means that NCCL does not run on it."""
        return sum(text.count('"event":"path"') for text in self.texts())


Jobs = dict[str, Job]


@dataclass(frozen=True)
class Wanted:
    """What is measured."""

    op: str
    arm: str
    sizes: Sequence[int]
    rounds: int
    ops: Mapping[str, str] = field(default_factory=dict)
    """What single arms do instead of `op`."""


@dataclass(frozen=True)
class Place:
    """What every rank needs: a Python with torch, so many GPUs, the library, and how they share."""

    python: str
    cards: int
    library: Path
    env: dict[str, str] = field(default_factory=dict)


@contextmanager
def jobs(
    topology: Topology, gpus: int, place: Place, envs: Mapping[str, tuple[int, Json]]
) -> Iterator[tuple[Lab, Jobs]]:
    """Jobs by name, all connected in one lab with so many GPUs a host: each of a mode, with more in its environment."""
    with ExitStack() as stack:
        lab = stack.enter_context(Lab.up(topology))
        hosts = [host for host in lab.hosts.values() for _ in range(gpus)]
        places = [(host, rank % place.cards) for rank, host in enumerate(hosts)]
        found = {}
        for number, (which, (mode, more)) in enumerate(envs.items()):
            env = {**ENVIRONMENT, **place.env, **more, "LD_PRELOAD": str(place.library)}
            env = bench_env(mode, topology_file=lab.places_file, extra=env)
            words = [place.python, str(RANK), "--root", f"10.250.0.1:{PORT + number}", "--per-host", str(gpus)]
            found[which] = Job(stack, places, words, env)
        for job in found.values():
            job.ask("", "ready", 1, START_S)
        yield lab, found
        for job in found.values():
            job.ask("end", "end", 1, LIMIT_S)


@contextmanager
def three(case: Case, arm: str, place: Place) -> Iterator[Jobs]:
    """Stock's, the arm's and stock's again."""
    modes: dict[str, tuple[int, Json]] = {
        "stock": (MODES["stock"], {}),
        arm: (MODES[arm], {}),
        "again": (MODES["stock"], {}),
    }
    topology = Topology(hosts=case.hosts, nics=case.nics, rate_gbit=case.rate_gbit)
    with jobs(topology, case.gpus, place, modes) as (_, found):
        if case.hosts > 1 and not found[arm].paths():
            raise InfraError("NCCL runs without R2CC's net", "see whether LD_PRELOAD works")
        yield found


def on_gpus(python: str, ranks: int, *, share: bool) -> tuple[Place, Json]:
    """What ranks need here, and what is said of it in the report. UsageError and InfraError: something is missing."""
    library, record = built_library()
    found = gpu.probe(python)
    cards = gpu.enough(found, ranks, share=share)
    return Place(python, cards, library), {"build_id": record["build_id"], **asdict(found), "cpus": os.cpu_count()}


def gpu_options(command: Any) -> Any:
    """What both benchmarks of jobs by turns take."""
    for option in (
        json_option,
        click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File for all times."),
        click.option("--share-gpus", is_flag=True, help="Two ranks on one GPU (CUDA's MPS)."),
        click.option("--python", default="python3", show_default=True, help="Has torch."),
    ):
        command = option(command)
    return command


def end(title: str, figures: Sequence[Figure], *, as_json: bool, out: Path | None, failed: int, **raw: Any) -> NoReturn:
    """Writes all times, prints, and ends; `failed`: with another exit code."""
    report = {"benchmark": title, "figures": [figure.as_json() for figure in figures], **raw}
    if out is not None:
        out.write_text(json.dumps(report, indent=1) + "\n")
    click.echo(json.dumps(report, indent=1) if as_json else show(title, figures))
    sys.exit(failed or exit_code(figures))


def measure(arms: dict[str, Job], wanted: Wanted, tell: str, found: list[Json]) -> None:
    """Adds to `found` one entry a size: each arm's time in every round, in us."""

    def once(arm: str, size: int, ops: int) -> float:
        lines = arms[arm].ask(f"{wanted.ops.get(arm, wanted.op)} {size} {ops}", "took", turns[arm] + 1, LIMIT_S)
        turns[arm] += 1
        if any(line["wrong_elements"] for line in lines):
            raise InfraError(f"{arm}: a wrong element in {wanted.op} of {size} bytes", "that must never be")
        return max(float(line["us"]) for line in lines)

    turns = dict.fromkeys(arms, 0)
    for size in wanted.sizes:
        ops = 3
        for _ in range(2):  # the first ones of a size are slow
            guess_us = max(once(arm, size, ops) for arm in arms)
            ops = max(1, min(MOST_OPS, round(TURN_S * 1e6 / guess_us)))
        took: dict[str, list[float]] = {arm: [] for arm in arms}
        turn_s = max(ops * guess_us / 1e6, TURN_S)
        for number in range(max(FEWEST_ROUNDS, min(wanted.rounds, round(SIZE_S / turn_s / len(arms))))):
            order = list(arms) if number % 2 == 0 else list(reversed(list(arms)))
            for arm in order:
                took[arm].append(once(arm, size, ops))
        found.append({"op": wanted.op, "bytes": size, "ops": ops, "us": took})
        first, *others = arms
        shown = ", ".join(f"{arm} {interval(found[-1], arm, first)}" for arm in others)
        click.echo(f"{tell}: {name(size)}: {shown}", err=True)


def summary(entry: Json, arm: str, base: str = "stock") -> tuple[float, float, float]:
    """The arm's time over the base's, by rounds: median, and the interval that holds it with 95 %."""
    ratios = [ours / stock for stock, ours in zip(entry["us"][base], entry["us"][arm], strict=True)]
    middle = median(ratios)
    low, high = median_interval(ratios)
    assert middle is not None
    return middle, low, high


def interval(entry: Json, arm: str, base: str = "stock") -> str:
    middle, low, high = summary(entry, arm, base)
    return f"{middle:.3f} ({low:.3f}..{high:.3f})"


def figures(case: str, arm: str, entries: Sequence[Json]) -> list[Figure]:
    """The ratio of each size, and its bound."""
    found = []
    for entry in entries:
        middle, low, high = summary(entry, arm)
        stock_us = median(entry["us"]["stock"]) or 0.0
        small = max(SMALL_RATIO, 1 + SMALL_US / stock_us) if stock_us else SMALL_RATIO
        bound = LARGE_RATIO if entry["bytes"] >= LARGE else small
        text = f"{case}, {entry['op']} of {name(entry['bytes'])}: time over stock's {stock_us:.0f} us, "
        text += f"stock again {interval(entry, 'again')}"
        found.append(Figure(text, middle, bound, "ratio", low=low, high=high, repeats=len(entry["us"][arm])))
    return found


def name(size: int) -> str:
    return f"{size} B" if size < KIB else f"{size // KIB} KiB" if size < MIB else f"{size // MIB} MiB"


def sizes_or_all(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, ...]:
    """A callback for --sizes, which may be left out."""
    return SIZES if text is None else sizes(context, parameter, text)


@click.command(cls=Benchmark, help=__doc__)
@click.option("--cases", default="shaped,full,nvlink", show_default=True)
@click.option("--op", type=click.Choice(OPS), default="all_reduce", show_default=True)
@click.option("--arm", type=click.Choice(["migrate", "balance"]), default="balance", show_default=True)
@click.option("--sizes", callback=sizes_or_all, help="Of the data, in bytes; without it 8 B to 1 GiB.")
@click.option("--rounds", type=click.IntRange(6, 200), default=40, show_default=True, help="Of each size, at most.")
@click.option("--rate", "rate_gbit", type=click.FloatRange(0.05, 32), default=4.0, show_default=True, help="shaped.")
@gpu_options
def main(
    *, cases: str, op: str, arm: str, sizes: Sequence[int], rounds: int, rate_gbit: float, python: str,
    share_gpus: bool, out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    known = {"shaped": Case(2, 1, 4, rate_gbit), "full": Case(2, 1, 4, 32.0), "nvlink": Case(1, 2, 1, 1.0)}
    chosen = cases.split(",")
    if any(case not in known for case in chosen):
        raise click.BadParameter(f"known are {', '.join(known)}", param_hint="--cases")
    place, about = on_gpus(python, 2, share=share_gpus)
    found: dict[str, list[Json]] = {}
    failed = 0
    with gpu.shared(enabled=True) as more_env:  # three jobs on each GPU
        for case in chosen:
            found[case] = []
            try:
                with three(known[case], arm, replace(place, env=more_env)) as arms:
                    measure(arms, Wanted(op, arm, sizes, rounds), case, found[case])
            except R2ccError as error:  # what was measured is not lost with it
                click.echo(f"error: {case}: {error}", err=True)
                failed = error.exit_code
            except KeyboardInterrupt:
                failed = 130
                break
    shown = [figure for case, entries in found.items() for figure in figures(case, arm, entries)]
    end("cost under NCCL", shown, as_json=as_json, out=out, failed=failed, **about, cases=found)


if __name__ == "__main__":
    main()
