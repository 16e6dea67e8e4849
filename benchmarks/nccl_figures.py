"""What R2CC costs and how fast it is under real NCCL on real GPUs: each GPU in a host of the lab, all on this machine.

    python3 benchmarks/nccl_figures.py --out DIR [--cases cpu,link_down,black_hole,shared] [--rate 1] [--json]

\b
cpu          time of an all-reduce and CPU time of all threads meanwhile, over stock (R2CC_MODE=0), in interleaved
             runs. NCCL's progress threads never sleep while there is work: two cores without GPUs cannot show that.
link_down, black_hole
             until the last connection was active on another NIC; and what the iteration that was hit took beyond its
             bound: what was left of it at the fault, at the rate of the NICs that are left.
shared       a link-down with 16 communicators of 32 channels each between two hosts with two NICs: 512 connections a
             NIC, one in four busy.

Needs GPUs, torch, root, iproute2, nftables and `r2cc build net`; --nccl takes a patched libnccl.so.2 instead of that.
With --share-gpu one GPU does for all ranks, where CUDA's MPS lets their kernels run side by side; begin and end it with

\b
    nvidia-cuda-mps-control -d
    echo quit | nvidia-cuda-mps-control

Ratios are noisy below 1 MiB: --repeats. What was seen: docs/results/gpu.md.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from common import KIB, MIB, Figure, Json, json_option, median_of
from nccl_cost import end
from nccl_phase import Phase

from chaos.analysis.stats import median, percentile
from chaos.faults.registry import fault_of, spec_of
from chaos.faults.steps import Command, Step
from harness.errors import InfraError, R2ccError
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.workloads.bench import EVENT_FILE, bench_env

HERE = Path(__file__).resolve().parent
LIBRARY = HERE.parent / "build" / "net" / "libr2cc_net.so"
ROOT = "10.250.0.1:29500"
MODES = {"stock": 0, "balance": 2}
START_S, END_S = 120.0, 60.0
RATIO, CPU_RATIO, SHARED_MS = 1.01, 1.03, 50.0
AIM_MS = {"link_down": 10.0, "black_hole": 50.0}
EVERY_S, DOWN_S = 3.5, 1.5
SHARED_WORDS = ["--comms", "16", "--at-once", "4"]
SHARED_ENV = {"NCCL_MIN_NCHANNELS": "32", "NCCL_MAX_NCHANNELS": "32", "NCCL_ALGO": "Ring"}


CPU_PHASES = (
    Phase("64KiB", 64 * KIB, 50, 5),
    Phase("256KiB", 256 * KIB, 20, 5),
    Phase("1MiB", MIB, 10, 5),
    Phase("16MiB", 16 * MIB, 1, 6),
    Phase("64MiB", 64 * MIB, 1, 8),
)


@dataclass
class Job:
    """A running job: one rank a host, each writing a file of its own."""

    processes: list[Any]
    files: list[Path]

    def lines(self) -> Iterator[Json]:
        """All lines so far, with their rank's `host`. What NCCL and torch say between them is left out."""
        for number, file in enumerate(self.files):
            for text in file.read_text(errors="replace").splitlines():
                try:
                    line = json.loads(text) if text.startswith("{") else None
                except ValueError:  # not yet whole
                    continue
                if line is not None:
                    yield {"host": f"h{number}", **line}

    def wait_for(self, event: str, limit_s: float) -> None:
        """Until every rank has said it. Raises InfraError when one ends badly, or after the limit."""
        until = time.monotonic() + limit_s
        while sum(line["event"] == event for line in self.lines()) < len(self.files):
            codes = [process.poll() for process in self.processes]
            if any(code not in (None, 0) for code in codes):
                raise InfraError(f"a rank ended, exit codes {codes}\n{self.tails()}", "see the files in --out")
            if time.monotonic() > until:
                raise InfraError(f"no '{event}' of all in {limit_s:g} s\n{self.tails()}", "see the files in --out")
            time.sleep(0.1)

    def tails(self) -> str:
        return "\n".join(f"{file.name}: {file.read_text(errors='replace')[-1500:]}" for file in self.files)


@dataclass(frozen=True)
class Rig:
    """What all runs share."""

    out: Path
    hosts: int
    rate_gbit: float
    nccl: Path | None
    share_gpu: bool = False

    def lab(self, nics: int) -> Lab:
        return Lab.up(Topology(hosts=self.hosts, nics=nics, rate_gbit=self.rate_gbit))

    def env(self, arm: str, lab: Lab, extra: dict[str, str]) -> dict[str, str]:
        env = bench_env(MODES[arm], topology_file=lab.places_file, extra={"NCCL_NVLS_ENABLE": "0", **extra})
        if self.nccl is not None:
            return {**env, "LD_PRELOAD": str(self.nccl)}
        return {**env, "NCCL_NET_PLUGIN": str(LIBRARY)}

    @contextmanager
    def job(self, lab: Lab, name: str, arm: str, words: Sequence[str], extra: dict[str, str]) -> Iterator[Job]:
        """Started and connected; ended with the block. Raises InfraError when a rank does not end well."""
        env = self.env(arm, lab, extra)
        job = Job([], [])
        with ExitStack() as stack:
            for rank, host in enumerate(lab.hosts.values()):
                file = self.out / f"{name}-{arm}-h{rank}.log"
                file.unlink(missing_ok=True)
                output = stack.enter_context(file.open("ab"))  # the net library opens it once more, and appends, too
                argv = [sys.executable, str(HERE / "nccl_rank.py"), "--rank", str(rank), "--ranks", str(self.hosts)]
                argv += ["--root", ROOT, "--gpu", "0" if self.share_gpu else str(rank), *words]
                mine = {**env, "NCCL_HOSTID": f"lab-{host.name}", "R2CC_EVENT_FILE": EVENT_FILE}
                process = host.spawn(argv, env=mine, stdout=output, stderr=output)
                stack.callback(process.close)
                job.processes.append(process)
                job.files.append(file)
            job.wait_for("ready", START_S)
            if arm != "stock" and not any(line["event"] == "path" for line in job.lines()):
                # NCCL takes its own sockets where a plugin cannot be loaded, and says so only at NCCL_DEBUG=INFO.
                raise InfraError(f"{name}, {arm}: NCCL runs without R2CC's net", "NCCL 2.28 or newer; r2cc build net")
            yield job
            job.wait_for("end", END_S)
            if any(process.wait(END_S) != 0 for process in job.processes):
                raise InfraError(f"{name}, {arm}: a rank ended badly\n{job.tails()}", "see the files in --out")


# ---- what it costs ----------------------------------------------------------------------------------------------


def cpu(rig: Rig, nics: int, repeats: int, sizes: Sequence[str]) -> tuple[list[Figure], Json]:
    phases = [phase for phase in CPU_PHASES if phase.name in sizes]
    words = [word for phase in phases for word in phase.words]
    runs: Json = {phase.name: {arm: [] for arm in MODES} for phase in phases}
    for repeat in range(repeats):
        for arm in MODES:
            with rig.lab(nics) as lab, rig.job(lab, f"cpu{repeat}", arm, words, {}) as job:
                job.wait_for("end", sum(phase.seconds for phase in phases) + END_S)
            for phase in phases:
                runs[phase.name][arm].append(spent(job.lines(), phase.name))
        click.echo(f"cpu: pair {repeat} of 0 to {repeats - 1} is done", err=True)
    figures = []
    for phase in phases:
        pairs = list(zip(runs[phase.name]["stock"], runs[phase.name]["balance"], strict=True))
        for key, what, bound in (("ms", "time", RATIO), ("cpu_ms", "CPU time", CPU_RATIO)):
            ratio = median([ours[key] / stock[key] for stock, ours in pairs])
            figures.append(Figure(f"{phase.name}: {what} over stock", ratio, bound, "ratio"))
    return figures, runs


def spent(lines: Iterator[Json], phase: str) -> Json:
    """Of an iteration, the first three left out: the slower rank's time, median; CPU time of all ranks, mean; in ms."""
    mine = [line for line in lines if line["event"] == "iteration" and line["phase"] == phase and line["index"] >= 3]
    times: dict[int, float] = {}
    for line in mine:
        times[line["index"]] = max(times.get(line["index"], 0), (line["end_ns"] - line["start_ns"]) / 1e6)
    spent_ms = sum(line["cpu_ns"] for line in mine) / 1e6
    return {"ms": median(list(times.values())), "cpu_ms": spent_ms / len(times), "iterations": len(times)}


# ---- what a fault does ------------------------------------------------------------------------------------------


def faults(rig: Rig, name: str, count: int, nics: int) -> tuple[list[Figure], Json]:
    """One after the other, each on another host and NIC than the one before."""
    shared = name == "shared"
    phase = Phase(name, (16 if shared else 64) * MIB, 1, 6 + count * EVERY_S)
    words, env = (SHARED_WORDS, SHARED_ENV) if shared else ([], {})
    struck: list[Json] = []
    with rig.lab(nics) as lab, rig.job(lab, name, "balance", [*words, *phase.words], env) as job:
        start = time.monotonic() + 5
        for n in range(count):
            time.sleep(max(0, start + n * EVERY_S + 0.037 * (n % 7) - time.monotonic()))
            struck.append(strike(lab, "link_down" if shared else name, f"h{n % rig.hosts}", n // rig.hosts % nics))
            click.echo(f"{name}: fault {n} of 0 to {count - 1} struck", err=True)
        job.wait_for("end", phase.seconds + END_S)
    lines = list(job.lines())
    healthy_ns = judge(struck, lines, nics)
    wrong = sum(line["wrong_elements"] for line in lines if line["event"] == "end")
    moves = [fault["failover_ms"] for fault in struck if fault["failover_ms"] is not None]
    beyond = [fault["beyond_ms"] for fault in struck if "beyond_ms" in fault]
    aim = SHARED_MS if shared else AIM_MS[name]
    figures = [
        median_of(f"{name}: failover, median of {len(moves)}", moves, None, "ms"),
        Figure(f"{name}: failover, p99", percentile(moves, 99) if len(moves) == count else None, aim, "ms"),
        median_of(f"{name}: iteration beyond its bound, median", beyond, None, "ms"),
        Figure(f"{name}: iteration beyond its bound, p99", percentile(beyond, 99), None, "ms"),
        Figure(f"{name}: sending ends moved, most", max((fault["moved"] for fault in struck), default=0), None, ""),
        Figure(f"{name}: wrong elements", wrong, 0, ""),
    ]
    return figures, {"healthy_ms": healthy_ns / 1e6, "faults": struck}


def strike(lab: Lab, kind: str, host: str, rail: int) -> Json:
    """Injects a fault, waits, takes it back; when it was injected and taken back, on CLOCK_MONOTONIC."""
    nic = next(each for each in lab.nics if each.host == host and each.rail == rail)
    words = {"id": "f", "kind": kind, "host": host, "nic": nic.name, "at": {"time_s": 1}, "duration_s": DOWN_S}
    fault = fault_of(spec_of(words), [nic], host)
    begin = time.monotonic_ns()
    take(lab, fault.inject())
    time.sleep(DOWN_S)
    end = time.monotonic_ns()
    take(lab, fault.revert())
    return {"begin_ns": begin, "end_ns": end, "place": f"{host} {nic.name}"}


def take(lab: Lab, steps: Sequence[Step]) -> None:
    for step in steps:
        assert isinstance(step, Command), step
        lab.switch.run(list(step.argv), input=step.input or None, timeout_s=10.0)


def judge(struck: list[Json], lines: Sequence[Json], nics: int) -> float:
    """Adds to each fault what came of it; returns the healthy iteration, in ns."""
    spans: dict[int, tuple[int, int]] = {}
    for line in (each for each in lines if each["event"] == "iteration"):
        begin, end = spans.get(line["index"], (line["start_ns"], 0))
        spans[line["index"]] = (min(begin, line["start_ns"]), max(end, line["end_ns"]))

    def calm(begin: int, end: int) -> bool:
        return not any(begin < fault["end_ns"] + 1e9 and end > fault["begin_ns"] for fault in struck)

    healthy = median([end - begin for index, (begin, end) in spans.items() if index > 2 and calm(begin, end)])
    if healthy is None:
        raise InfraError("no iteration was far from every fault", "let faults be fewer: --faults")
    for fault in struck:
        fault["failover_ms"], fault["moved"] = failover(fault, lines)
        hit = next(((b, e) for b, e in spans.values() if b <= fault["begin_ns"] < e), None)
        if hit is not None:
            before = min(1.0, (fault["begin_ns"] - hit[0]) / healthy)
            bound = healthy * (before + (1 - before) * nics / (nics - 1))
            fault["beyond_ms"] = (hit[1] - hit[0] - bound) / 1e6
    return healthy


def failover(fault: Json, lines: Sequence[Json]) -> tuple[float | None, int]:
    """Until the last sending end that froze was active again (None if one never was), and how many froze."""
    frozen: set[Any] = set()
    active: dict[Any, int] = {}
    for line in lines:
        inside = fault["begin_ns"] <= line["t_ns"] <= fault["end_ns"]
        if line["event"] != "path" or line.get("direction") != "send" or not inside:
            continue
        key = (line["host"], line.get("peer"), line["connection"])
        if line["state"] == "frozen":
            frozen.add(key)
        elif line["state"] == "active" and key in frozen:
            active.setdefault(key, line["t_ns"])
    done = bool(frozen) and set(active) == frozen
    return ((max(active.values()) - fault["begin_ns"]) / 1e6 if done else None), len(frozen)


def names(known: Sequence[str]) -> Any:
    """An option's callback: some of these, with commas between."""

    def checked(_context: click.Context, _option: click.Parameter, value: str) -> list[str]:
        chosen = value.split(",")
        wrong = [name for name in chosen if name not in known]
        if wrong:
            raise click.BadParameter(f"{', '.join(wrong)}: known are {', '.join(known)}")
        return chosen

    return checked


CASES = ("cpu", "link_down", "black_hole", "shared")
SIZES = [phase.name for phase in CPU_PHASES]


@click.command(help=__doc__)
@click.option("--cases", default=",".join(CASES), show_default=True, callback=names(CASES))
@click.option("--rate", "rate_gbit", type=click.FloatRange(0.05, 32), default=1.0, show_default=True, help="Of a NIC.")
@click.option("--nics", type=click.IntRange(2, 8), default=4, show_default=True, help="Of a host; shared has 2.")
@click.option("--gpus", type=click.Choice(["2", "4", "8"]), default="2", show_default=True, help="As many hosts.")
@click.option("--share-gpu", is_flag=True, help="All ranks on the first GPU; CUDA's MPS must run.")
@click.option("--repeats", type=click.IntRange(1, 20), default=3, show_default=True, help="Of cpu.")
@click.option("--sizes", default=",".join(SIZES), show_default=True, callback=names(SIZES), help="Of cpu.")
@click.option("--faults", "count", type=click.IntRange(1, 200), default=20, show_default=True, help="shared has 8.")
@click.option("--nccl", type=click.Path(exists=True, path_type=Path), help="A patched libnccl.so.2; else the plugin.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder for raw output.")
@json_option
def main(
    *, cases: list[str], rate_gbit: float, nics: int, gpus: str, share_gpu: bool, repeats: int, sizes: list[str],
    count: int, nccl: Path | None, out: Path, as_json: bool,
) -> None:  # fmt: skip
    if nccl is None and not LIBRARY.is_file():
        raise click.UsageError(f"{LIBRARY} is not there: build it with r2cc build net")
    out.mkdir(parents=True, exist_ok=True)
    rig = Rig(out, int(gpus), rate_gbit, nccl.resolve() if nccl else None, share_gpu)
    figures: list[Figure] = []
    raw: Json = {
        "rate_gbit": rate_gbit,
        "nics": nics,
        "gpus": 1 if share_gpu else int(gpus),
        "ranks": int(gpus),
        "cpus": os.cpu_count(),
    }
    failed = 0
    for case in cases:
        try:
            if case == "cpu":
                found, raw[case] = cpu(rig, nics, repeats, sizes)
            else:
                found, raw[case] = faults(rig, case, *((8, 2) if case == "shared" else (count, nics)))
            figures += found
        except R2ccError as error:  # the other cases' figures are not lost with it
            click.echo(f"error: {case}: {error}", err=True)
            failed = error.exit_code
    end("NCCL on GPUs", figures, as_json=as_json, out=out / "figures.json", failed=failed, **raw)


if __name__ == "__main__":
    main()
