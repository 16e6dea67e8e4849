"""A stand-in for r2cc_bench and r2cc_sampler: prints docs/reference/contracts.md's lines on a schedule.

    scripted_bench.py rank --rank 0 --ranks 2 --iterations 6 --iteration-ms 40 [--die-at 3] [--error-at 3]
                      [--hang-at 3] [--wrong-at 3] [--stall-at 3 --stall-ms 200] [--rss BYTES]
    scripted_bench.py sampler --nics eth0,eth1 [--cpu 0.4]

A rank delivers 8 chunks an iteration on one receiving connection for each of two NICs; `--die-at` is a SIGKILL.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from itertools import pairwise

CHUNKS = 8
CHUNK_BYTES = 131072
NICS = ["eth0", "eth1"]


def say(event: str, **fields: object) -> None:
    line = json.dumps({"t_ns": time.monotonic_ns(), "event": event, **fields})
    os.write(1, line.encode() + b"\n")


def until(t_ns: int) -> None:
    time.sleep(max(0, t_ns - time.monotonic_ns()) / 1e9)


def connections(rank: int, ranks: int) -> list[dict[str, object]]:
    ends = []
    for channel, nic in enumerate(NICS):
        ends.append({"id": channel, "peer": (rank + 1) % ranks, "direction": "send", "channel": channel, "nic": nic})
        ends.append(
            {"id": 10 + channel, "peer": (rank - 1) % ranks, "direction": "recv", "channel": channel, "nic": nic}
        )
    return ends


def bench(args: argparse.Namespace) -> int:
    base = {"rank": args.rank}
    size = CHUNKS * CHUNK_BYTES * len(NICS)
    say(
        "bench_start",
        **base,
        op="stream",
        bytes=size,
        ranks=args.ranks,
        channels=2,
        chunk_bytes=CHUNK_BYTES,
        slots=8,
        mode=args.mode,
        nics=NICS,
        connections=connections(args.rank, args.ranks),
    )
    wrong, start = 0, time.monotonic_ns()
    for index in range(-1, args.iterations):
        errors, start = iteration(args, index, size, start)
        wrong += errors
    say("bench_end", **base, completed=args.iterations, wrong_elements=wrong, max_rss_bytes=args.rss, cpu_s=0.1)
    return 1 if wrong else 0


def iteration(args: argparse.Namespace, index: int, size: int, start: int) -> tuple[int, int]:
    """Wrong elements and end. Times are the schedule's: a busy machine delays lines but changes no figure."""
    say("progress", rank=args.rank, index=index, start_ns=start)
    step = args.iteration_ms * 1_000_000 // CHUNKS
    if index == args.die_at:
        os.kill(os.getpid(), signal.SIGKILL)
    if index == args.hang_at:
        time.sleep(3600)
    if index == args.error_at:
        say("error", rank=args.rank, message="connection reset", peer=0, connection=10)
        print("transport error", file=sys.stderr)
        sys.exit(3)
    times = [start]
    for chunk in range(CHUNKS):
        pause = args.stall_ms * 1_000_000 if index == args.stall_at and chunk == CHUNKS // 2 else 0
        times.append(times[-1] + step + pause)
    until(times[-1])
    gaps = [(b - a) / 1000 for a, b in pairwise(times)]
    for channel in range(len(NICS)):
        say("delivery", rank=args.rank, connection=10 + channel, index=index, start_ns=start, gaps_us=gaps[:5], part=0)
        say("delivery", rank=args.rank, connection=10 + channel, index=index, start_ns=start, gaps_us=gaps[5:], part=1)
    wrong = 7 if index == args.wrong_at else 0
    say("iteration", rank=args.rank, index=index, start_ns=start, end_ns=times[-1], bytes=size, wrong_elements=wrong)
    return wrong, times[-1]


def sampler(args: argparse.Namespace) -> int:
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
    sent = 0
    while not stopping:
        say("sample", nics={nic: {"tx_bytes": sent, "rx_bytes": 2 * sent} for nic in args.nics.split(",")})
        if args.cpu is not None:
            say("cpu", busy=args.cpu)
        sent += 1000
        time.sleep(0.02)
    say("sample", nics={nic: {"tx_bytes": sent, "rx_bytes": 2 * sent} for nic in args.nics.split(",")})
    return 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["rank", "sampler"])
    for name in ("rank", "ranks", "iterations", "iteration-ms", "stall-ms", "mode"):
        parser.add_argument(f"--{name}", type=int, default=0)
    for name in ("die-at", "error-at", "hang-at", "wrong-at", "stall-at"):
        parser.add_argument(f"--{name}", type=int, default=-99)
    parser.add_argument("--rss", type=int, default=50_000_000)
    parser.add_argument("--nics", default="eth0")
    parser.add_argument("--cpu", type=float)
    args = parser.parse_args()
    return bench(args) if args.role == "rank" else sampler(args)


if __name__ == "__main__":
    sys.exit(main())
