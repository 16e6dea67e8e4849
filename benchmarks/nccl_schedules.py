"""Collectives with degraded hosts under real NCCL: the ring on balanced paths and ours, by turns.

\b
    python3 benchmarks/nccl_schedules.py [--nics 2] [--gpus 1] [--rate 2] [--sizes 67108864,268435456] [--share-gpus]
    python3 benchmarks/nccl_schedules.py --nics 4 --down h1:eth0,h2:eth3 --jobs healthy,balance,ours [--op all_gather]

Four hosts of the lab with a rank each, or --gpus of them. Jobs of the same library are up all the time and run by
turns, forwards and backwards, so that what the machine does to one it does to the others:

\b
healthy    the ring, nothing broken (NCCL_ALGO=Ring, R2CC_MODE=2): what the others are measured by
balance    the same with the NICs of --down taken for failed (R2CC_ASSUME_DOWN), on balanced paths
chosen     the same as balance, but with what NCCL chooses itself: ours may take at most 1.02 of it, at every size
ours       R2CC_MODE=3, the same NICs taken for failed: what the planner chooses
reranked   the same, rings in another order alone (R2CC_SCHEDULE=reranked)
tree       the same, double trees alone (R2CC_SCHEDULE=tree)
own_tree   NCCL's own double tree (NCCL_ALGO=Tree, R2CC_MODE=2), on balanced paths
light_slots  the same under R2CC_MODE=3 without a schedule: hosts that lost NICs have its light slots. h0 and h3 have
           them as it is, so take h1 or h2: --down h1:eth0
ours@BYTES the same with another least chunk (R2CC_CHAIN_CHUNK_BYTES)
idle       R2CC_MODE=3, nothing broken: what the schedules cost while they are not needed
published  the same NICs taken for failed; the published schedule, out of torch's collectives (published.py)

With job `idle`, h0:eth0 then loses its link for real (`--cut`), in the middle of a row of all-reduces: when the ranks
agree, their schedule changes. Each one's time is printed.

Job `published` and `--cut` are of all-reduces and of h0:eth0 alone. Every element of every last result is checked. The
figure is the median over the rounds of the ratio of two jobs' times in the same round. `bound` of ours over healthy is
what bandwidth allows at least (docs/internals/schedules.md). Takes `r2cc build nccl`, torch, GPUs. Seen:
docs/results/schedules.md.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
from common import MIB, Benchmark, Figure, Json, sizes
from nccl_cost import LIMIT_S, Job, Wanted, end, gpu_options, jobs, measure, name, on_gpus, summary

from chaos.analysis.stats import median
from harness.errors import InfraError, R2ccError
from harness.facts import local_gpus as gpu
from harness.lab.lab import Lab
from harness.lab.topology import Topology

HOSTS = 4
OPS = {"published": "published"}
PIECES = 16
"""Of published.py, which needs torch."""
JOBS = ("healthy", "balance", "chosen", "ours", "idle", "reranked", "tree", "own_tree", "light_slots", "published")
DEFAULT = ("healthy", "balance", "chosen", "ours", "idle")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
LIGHT_AS_IT_IS = {"h0", f"h{HOSTS - 1}"}
"""What has a light slot of NCCL's own double tree over an even number of hosts, whatever they lost."""
ONE, APART = "h0:eth0", "h1:eth0,h2:eth3"
"""One NIC; and different ones of two hosts that are neighbours in NCCL's rings."""
AIMS = {
    ("all_reduce", 4, APART, "ours"): 1.20,
    ("all_reduce", 4, APART, "reranked"): 1.36,
    ("all_gather", 4, APART, "ours"): 1.36,
    ("reduce_scatter", 4, APART, "ours"): 1.36,
}
"""By collective, NICs, lost ones and job: over the healthy ring, from 64 MiB on."""
NO_SLOWER = 1.02
AIM_HALF, AIM_THIRD_OVER_BALANCE = 1.36, 1.15
CUT_ROW, CUT_AT, BACK_AT = 40, 8, 30
LARGE_HALF, LARGE_THIRD = 64 * MIB, 256 * MIB


Lost = dict[str, set[str]]


def lost_of(text: str, nics: int) -> Lost:
    """What --down names: by host, its NICs. BadParameter unless they are some of the lab's, and one is left of each."""
    known = {f"h{host}:eth{nic}" for host in range(HOSTS) for nic in range(nics)}
    found: Lost = {}
    for part in text.split(","):
        if part not in known:
            words = f"takes NICs of the lab with commas between, h0:eth0 to h{HOSTS - 1}:eth{nics - 1}, not '{part}'"
            raise click.BadParameter(words, param_hint="--down")
        host, _, nic = part.partition(":")
        found.setdefault(host, set()).add(nic)
    if any(len(gone) == nics for gone in found.values()):
        raise click.BadParameter("leaves a host without any NIC", param_hint="--down")
    return found


def environment(job: str, nics: int, lost_nics: str = ONE) -> tuple[int, dict[str, str]]:
    """R2CC_MODE and what else sets the job apart."""
    down = {"R2CC_ASSUME_DOWN": lost_nics}
    ring, tree = {"NCCL_ALGO": "Ring"}, {"NCCL_ALGO": "Tree"}
    known: dict[str, tuple[int, dict[str, str]]] = {
        "healthy": (2, ring), "balance": (2, {**ring, **down}),
        "chosen": (2, down), "ours": (3, down), "idle": (3, {}),
        "reranked": (3, {**down, "R2CC_SCHEDULE": "reranked"}),
        "tree": (3, {**down, "R2CC_SCHEDULE": "tree"}),
        "own_tree": (2, {**tree, **down}), "light_slots": (3, {**tree, **down, "R2CC_SCHEDULE": "ring"}),
        "published": (2, {**ring, **down, "R2CC_BENCH_Y": str(1 / nics)}),
    }  # fmt: skip
    name, _, chunk = job.partition("@")
    mode, more = known[name]
    return mode, {**more, **({"R2CC_CHAIN_CHUNK_BYTES": chunk} if chunk else {})}


def cut(lab: Lab, ranks: Job, size: int) -> list[float]:
    """A row of all-reduces, in ms each; a NIC's cable is pulled in the middle of one and put back near the end."""
    (nic,) = [nic for nic in lab.nics if (nic.host, nic.name) == ("h0", "eth0")]
    took: list[float] = []
    before = ranks.texts()[0].count('"event": "took"')
    for number in range(CUT_ROW):
        timer = None
        if number in (CUT_AT, BACK_AT):
            words = ["ip", "link", "set", nic.switch_port, "down" if number == CUT_AT else "up"]
            timer = threading.Timer(took[-1] / 2e3, lambda words=words: lab.switch.run(words))
            timer.start()
        lines = ranks.ask(f"all_reduce_alone {size} 1", "took", before + number + 1, LIMIT_S)
        if timer is not None:
            timer.join()
        if any(line["wrong_elements"] for line in lines):
            raise InfraError("a wrong element", "that must never be")
        took.append(max(float(line["us"]) for line in lines) / 1e3)
    return took


def received(lab: Lab, arms: dict[str, Job], size: int, collective: str) -> dict[str, float]:
    """What h0's NICs receive in one collective of each job, in bytes of it a byte of the message."""

    def counted() -> int:
        links = json.loads(lab.hosts["h0"].run(["ip", "-s", "-j", "link"]).stdout)
        return sum(link["stats64"]["rx"]["bytes"] for link in links if link["ifname"].startswith("eth"))

    found = {}
    for job, ranks in arms.items():
        op = OPS.get(job, collective)
        before, count = counted(), ranks.texts()[0].count('"event": "took"')
        ranks.ask(f"{op}_alone {size} 1", "took", count + 1, LIMIT_S)
        found[job] = (counted() - before) / size
    return found


def bounds(nics: int, gpus: int, op: str, down: Lost) -> tuple[float, float]:
    """(the lower bound over the healthy ring, balance's time over it). Neighbours in a ring use the rails of both."""
    gone = [down.get(f"h{host}", set()) for host in range(HOSTS)]
    left = [1 - len(nics_of) / nics for nics_of in gone]
    shared = [1 - len(gone[host] | gone[(host + 1) % HOSTS]) / nics for host in range(HOSTS)]
    ring = (HOSTS * gpus - 1) / (HOSTS * gpus)
    if op == "all_reduce":
        least = max(1 / min(left), 2 * (HOSTS - 1) / sum(left)) / (2 * ring)
    else:
        least = (1 - 1 / HOSTS) / min(left) / ring
    return least, 1 / max(min(shared), 1e-9)


def published(nics: int) -> float:
    """Its formula over the healthy ring (docs/internals/schedules.md), with K pieces and Y the share that was lost."""
    lost, n = 1 / nics, HOSTS
    first = max(2 * (n - 1) / n, 2 * (n - 2) / (n - 1))  # T1 and T2, in D/B
    return (first + (1 + 1 / PIECES) * lost / (1 - lost)) / (2 * (n - 1) / n)


def first_ms(ranks: Job) -> float:
    """Of its first collective, the slowest rank's."""
    return max(float(line["first_ms"]) for line in ranks.ask("", "ready", 1, LIMIT_S))


def figures(nics: int, gpus: int, op: str, lost_nics: str, entries: Sequence[Json]) -> list[Figure]:
    """Each job over the healthy ring, with its bound; ours also over balance."""
    lost = lost_of(lost_nics, nics)
    least, balance = bounds(nics, gpus, op, lost)
    aims = {"ours": least, "balance": balance, "chosen": balance, "idle": 1.0, "published": published(nics)}
    aims["reranked"] = aims["tree"] = least
    ring = 2 * (HOSTS * gpus - 1) / (HOSTS * gpus)  # what the healthy ring carries; a double tree 2, in a light slot 1
    slow = max(1 / (1 - len(gone) / nics) * (1 if host in LIGHT_AS_IT_IS else 2) for host, gone in lost.items())
    aims |= {"own_tree": max(slow, 2) / ring, "light_slots": max(balance, 2) / ring}
    one = gpus == 1 and lost_nics == ONE and op == "all_reduce"
    found = []
    for entry in entries:
        size, us = entry["bytes"], entry["us"]
        rounds = len(us["healthy"])
        judged_half = one and nics == 2 and size >= LARGE_HALF
        for job in us:
            if job == "healthy":
                continue
            middle, low, high = summary(entry, job, "healthy")
            ring_ms = (median(us["healthy"]) or 0) / 1e3
            text = f"{job} over healthy ring ({ring_ms:.1f} ms), {name(size)}"
            aim = AIMS.get((op, nics, lost_nics, job)) if gpus == 1 and size >= LARGE_HALF else None
            aim = AIM_HALF if job == "ours" and judged_half else aim
            bound = aims[job.partition("@")[0]] if aim is None else aim
            found.append(
                Figure(text, middle, bound, "ratio", judged=aim is not None, low=low, high=high, repeats=rounds)
            )
        if {"ours", "chosen"} <= set(us):
            middle, low, high = summary(entry, "ours", "chosen")
            text = f"ours over what NCCL chooses on balanced paths, {name(size)}"
            found.append(Figure(text, middle, NO_SLOWER, "ratio", low=low, high=high, repeats=rounds))
        if {"ours", "balance"} <= set(us):
            middle, low, high = summary(entry, "balance", "ours")
            text = f"ours' bandwidth over balance's, {name(size)}"
            judged = one and nics == 3 and size >= LARGE_THIRD
            found.append(
                Figure(
                    text,
                    middle,
                    AIM_THIRD_OVER_BALANCE,
                    "ratio",
                    at_least=True,
                    judged=judged,
                    low=low,
                    high=high,
                    repeats=rounds,
                )
            )
    return found


@click.command(cls=Benchmark, help=__doc__)
@click.option("--nics", type=click.IntRange(2, 8), default=2, show_default=True, help="Of each host.")
@click.option("--down", "lost_nics", default=ONE, show_default=True, metavar="HOST:NIC,...", help="NICs that failed.")
@click.option("--op", type=click.Choice(COLLECTIVES), default="all_reduce", show_default=True)
@click.option("--gpus", type=click.IntRange(1, 4), default=1, show_default=True, help="Ranks of each host.")
@click.option("--rate", "rate_gbit", type=click.FloatRange(0.05, 32), default=2.0, show_default=True, help="A NIC's.")
@click.option("--sizes", callback=sizes, default="67108864,268435456", show_default=True, help="Bytes.")
@click.option("--jobs", "chosen", default=",".join(DEFAULT), show_default=True)
@click.option("--cut", "with_cut", is_flag=True, help="Pull a cable under job `idle`, too.")
@click.option("--rounds", type=click.IntRange(2, 200), default=12, show_default=True, help="Of each size, at most.")
@click.option("--debug", default="", help="NCCL_DEBUG_SUBSYS of all jobs, whose logs then go to --logs.")
@click.option("--logs", type=click.Path(file_okay=False, path_type=Path), help="Folder for what the ranks said.")
@gpu_options
def main(
    *, nics: int, lost_nics: str, op: str, gpus: int, rate_gbit: float, sizes: Sequence[int], chosen: str,
    rounds: int, python: str, share_gpus: bool, with_cut: bool, debug: str, logs: Path | None, out: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    names = chosen.split(",")
    if any(job.partition("@")[0] not in JOBS for job in names) or names[0] != "healthy":
        raise click.BadParameter(f"healthy first, then any of {', '.join(JOBS[1:])}", param_hint="--jobs")
    lost = lost_of(lost_nics, nics)  # else an error, before anything is started
    if "light_slots" in names and lost.keys() <= LIGHT_AS_IT_IS:
        words = "h0 and h3 have light slots of NCCL's tree as it is, so light_slots can change nothing: take h1 or h2"
        raise click.BadParameter(words, param_hint="--down")
    if (with_cut or "published" in names) and (op != "all_reduce" or lost_nics != ONE):
        raise click.UsageError(f"job published and --cut take --op all_reduce and --down {ONE}")
    failed = 0
    place, about = on_gpus(python, HOSTS * gpus, share=share_gpus)
    logged = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": debug} if debug else {}
    envs = {job: (mode, {**more, **logged}) for job in names for mode, more in [environment(job, nics, lost_nics)]}
    topology = Topology(hosts=HOSTS, nics=nics, rate_gbit=rate_gbit)
    entries: list[Json] = []
    row: list[float] = []
    rx: dict[str, float] = {}
    first: dict[str, float] = {}
    with gpu.shared(enabled=share_gpus) as more_env:
        try:
            with jobs(topology, gpus, replace(place, env=more_env), envs) as (lab, arms):
                try:
                    first = {job: first_ms(ranks) for job, ranks in arms.items()}
                    shown = ", ".join(f"{job} {ms:.0f}" for job, ms in first.items())
                    click.echo(f"first collective, and the communicator's making; ms: {shown}", err=True)
                    measure(arms, Wanted(op, "ours", sizes, rounds, OPS), f"{nics} NICs", entries)
                    rx = received(lab, arms, max(sizes), op)
                    shown = ", ".join(f"{job} {times:.3f}" for job, times in rx.items())
                    click.echo(f"h0 receives, of {name(max(sizes))}: {shown}", err=True)
                    if with_cut:
                        row = cut(lab, arms["idle"], min(sizes))
                        shown = " ".join(f"{ms:.0f}" for ms in row)
                        click.echo(f"cable of h0:eth0 pulled in {CUT_AT}, back in {BACK_AT}; ms: {shown}", err=True)
                finally:
                    keep(logs, arms)
        except R2ccError as error:  # what was measured is not lost with it
            click.echo(f"error: {error}", err=True)
            failed = error.exit_code if isinstance(error, InfraError) else 3
        except KeyboardInterrupt:
            failed = 130
    more = {"nics": nics, "ranks_per_host": gpus, "rate_gbit": rate_gbit, "entries": entries}
    more.update(op=op, down=lost_nics)
    more.update(cut_ms=row, received_by_h0=rx, first_ms=first)
    judged = figures(nics, gpus, op, lost_nics, entries)
    end("schedules under NCCL", judged, as_json=as_json, out=out, failed=failed, **about, **more)


def keep(folder: Path | None, arms: dict[str, Job]) -> None:
    """What every rank of every job said."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for job, ranks in arms.items():
        for rank, text in enumerate(ranks.texts()):
            (folder / f"{job}-{rank}.log").write_text(text)


if __name__ == "__main__":
    main()
