"""How long delivery stands still when the connection of a host's only NIC is reset (RST): median, p99 and maximum.

    .venv/bin/python benchmarks/one_nic_reset.py [--resets 24] [--arm migrate] [--rate 0.25] [--json]

Two hosts with one NIC each, a connection in each direction. A packet of the one that is sent over is answered with a
reset, towards its sender and towards its receiver by turns; it goes on over a fresh one of the same NIC. Measured from
the last delivery to the next one, less what is usual, and from the sender's error until the rest is on its way. The
floor is the first measure where nothing was broken.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import click
from common import Figure, Json, Ran, Steps, command, experiment, lab_workload, median_of

from chaos.analysis import void
from chaos.analysis.phases import SETTLE_NS
from chaos.analysis.rundata import RunData, Span
from chaos.analysis.stall import DRAIN_NS, worst_gap_ms
from chaos.analysis.stats import percentile
from chaos.testbed.beds import Bed
from harness.errors import InfraError
from harness.hosts.base import spawn_held

BOUND_MS = 10.0
LEAST = 20
PER_STEP = 26
EVERY_S = 2.2
AHEAD_S = 0.1
"""Between the start of nft and the reset: a start takes a core from the ranks."""
LIMIT_S = 5.0
HOSTS, NIC = ("h0", "h1"), "eth0"
WAYS = tuple((sender, at) for sender in HOSTS for at in HOSTS[::-1])
"""Who sends over the connection, and who resets it; the other one gets the RST."""
TABLE = "inet r2cc_reset"


def reset(bed: Bed, sender: str, at: str) -> Span | None:
    """The connection that carries the sender's data; None where there is none."""
    said = bed.hosts[sender].run(["ss", "-tinH"]).stdout
    found = re.findall(r"\S+:(\d+)\s+\S+:\d+[^\n]*\n[^\n]*?bytes_acked:(\d+)", said)
    if not found:
        return None
    port = max(found, key=lambda pair: int(pair[1]))[0]
    match = f'iifname "{NIC}" tcp {"dport" if at == sender else "sport"} {port} reject with tcp reset'
    rules = f"chain input {{ type filter hook input priority 0; policy accept; {match}; }};"
    process, ours = spawn_held(bed.hosts[at], ["nft", "-f", "-"])
    time.sleep(AHEAD_S)
    with os.fdopen(ours, "w") as stdin, closing(process):
        before = time.monotonic_ns()
        stdin.write(f"table {TABLE}\ndelete table {TABLE}\ntable {TABLE} {{ {rules} }}\n")
        stdin.close()
        if process.wait(LIMIT_S):
            raise InfraError(f"nft: {process.stderr_tail()}", "it needs nft's reject, in the kernel, too")
    return Span(before, time.monotonic_ns())


def resets(bed: Bed, *, count: int, done: list[Span]) -> None:
    """All of them, one after the other, while the ranks run."""
    for name in HOSTS:  # else a reset that data has overtaken has no effect for half a second, and that again
        bed.hosts[name].run(["sysctl", "-qw", "net.ipv4.tcp_invalid_ratelimit=0"])
    for n in range(count):
        time.sleep(EVERY_S + 0.037 * (n % 7))
        if struck := reset(bed, *WAYS[n % len(WAYS)]):
            done.append(struck)


@dataclass(frozen=True)
class Stood:
    """One reset that cost a sending end its connection, in ms."""

    stall: float
    again: float
    """From the sender's error until the rest was on its way."""
    stolen: bool


def stood(data: RunData, struck: Sequence[Span]) -> list[Stood]:
    found, taken = [], again(data)
    for span in struck:
        window = Span(span.start_ns, span.end_ns + DRAIN_NS)
        gap = worst_gap_ms(data, [window])
        took = next((ms for at, ms in taken if span.start_ns <= at <= span.end_ns + SETTLE_NS), None)
        if gap is not None and took is not None:
            found.append(Stood(gap, took, (void.stolen(data, [window]) or 0.0) > void.STOLEN_MAX))
    return found


def never_back(data: RunData) -> int:
    """Sending ends that lost their connection and were not active again in this journal."""
    lost = sum(line.get("direction") == "send" and line["state"] == "frozen" for line in data.by_event.get("path", []))
    return lost - len(again(data))


def again(data: RunData) -> list[tuple[int, float]]:
    """When each sending end lost its connection, and the ms until it was active again."""
    found, frozen = [], dict[tuple[str, str], int]()
    for line in data.by_event.get("path", []):
        end = (line["host"], str(line["connection"]))
        if line.get("direction") == "send" and line["state"] == "frozen":
            frozen.setdefault(end, line["t_ns"])
        elif line.get("direction") == "send" and line["state"] == "active" and end in frozen:
            at = frozen.pop(end)
            found.append((at, (line["t_ns"] - at) / 1e6))
    return found


def floor(data: RunData, struck: Sequence[Span]) -> Iterator[float]:
    """The stall that would be found in windows as long, from a second after each reset to the next one."""
    for before, after in pairwise(struck):
        length = before.end_ns - before.start_ns + DRAIN_NS
        start = before.end_ns + SETTLE_NS
        while start + length < after.start_ns:
            window = Span(start, start + length)
            gap = worst_gap_ms(data, [window])
            if gap is not None and (void.stolen(data, [window]) or 0.0) <= void.STOLEN_MAX:
                yield gap
            start += length


def _run(steps: Steps, arm: str, rate_gbit: float, count: int) -> tuple[Ran, list[Span]]:
    size = lab_workload(rate_gbit)
    seconds = int(8 + count * (EVERY_S + 0.3))
    workload = size | {"bytes": size["bytes"] // 4, "channels": 1, "seconds": seconds}
    topology = {"hosts": len(HOSTS), "nics": 1, "rate_gbit": rate_gbit}
    done: list[Span] = []
    ran = steps.run(
        experiment("one-nic-reset", topology=topology, workload=workload, arms=[arm]),
        arm,
        partial(resets, count=count, done=done),
    )
    return ran, done


def measure(steps: Steps, *, arm: str, rate_gbit: float, resets: int) -> tuple[list[Figure], Json]:
    found, usual, is_void, left, lost = list[Stood](), list[float](), False, resets, 0
    while left > 0:
        ran, done = _run(steps, arm, rate_gbit, min(left, PER_STEP))
        left -= PER_STEP
        found += stood(ran.data, done)
        usual += floor(ran.data, done)
        is_void |= ran.void
        lost += never_back(ran.data)
    stalls = [each.stall for each in found]
    calm = [each.stall for each in found if not each.stolen]
    took = [each.again for each in found]
    figures = [
        Figure("resets that count", len(stalls), LEAST, "", at_least=True),
        Figure("ends that were not active again", lost, 0, ""),
        median_of("stall, median", stalls, None, "ms"),
        Figure("stall, p99", percentile(stalls, 99), BOUND_MS, "ms", void=is_void, repeats=len(stalls)),
        Figure("stall, maximum", max(stalls, default=None), None, "ms"),
        median_of("until the rest is on its way, median", took, None, "ms"),
        Figure("until the rest is on its way, p99", percentile(took, 99), BOUND_MS, "ms", void=is_void),
        Figure("CPU not stolen: resets", len(calm), None, ""),
        Figure("CPU not stolen: stall, p99", percentile(calm, 99), None, "ms"),
        Figure("floor, p99", percentile(usual, 99), None, "ms"),
    ]
    return figures, {"ms": {"stalls": stalls, "again": took, "not_stolen": calm, "floor": usual}}


main = command(
    "A reset on the only NIC",
    measure,
    click.option("--resets", type=click.IntRange(1, 1000), default=24, show_default=True),
)

if __name__ == "__main__":
    main()
