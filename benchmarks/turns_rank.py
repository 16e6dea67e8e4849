"""One rank of one of the jobs that nccl_cost.py lets run by turns: collectives when told so on stdin, else it waits.

A line on stdin is `OP BYTES COUNT`: so many of that collective in a row, timed together; the answer is a `took` line
with `us` for each. With `_alone` behind OP nothing is run before what is timed. BYTES are nccl-tests' sizes: of the
larger of a rank's buffers. OP `published` is an all-reduce as published.py does it, with R2CC_BENCH_Y as its Y. The
last result is checked, every element. `end` ends it. CLOCK_MONOTONIC, and float32. `first_ms` of the `ready` line: of
the first collective, for which NCCL makes its communicator.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import torch.distributed as dist
from published import Published

from harness.workloads.job import Job
from harness.workloads.rank import options

SPAN = 97
REDUCE = ("all_reduce", "published")
Run = Callable[[], object]


def prepared(
    job: Job, op: str, size: int, turn: int, by_hand: list[Published]
) -> tuple[Run, torch.Tensor, torch.Tensor]:
    """(the collective on data of this turn, where its result will be, what it must be)."""
    ranks, mine = range(job.ranks), job.rank
    count = max(1, size // 4 // (1 if op in REDUCE else job.ranks))
    ramp = torch.remainder(torch.arange(count, device=job.device, dtype=torch.int32), SPAN).float() + turn
    total = ramp * job.ranks + sum(ranks)
    x = ramp + mine
    if op == "all_reduce":
        return (lambda: dist.all_reduce(x)), x, total
    if op == "published":
        return (lambda: by_hand[0].all_reduce(x)), x, total
    if op == "all_gather":
        out = x.new_empty(count * job.ranks)
        return (lambda: dist.all_gather_into_tensor(out, x)), out, torch.cat([ramp + rank for rank in ranks])
    parts = torch.cat([x + part for part in ranks])  # for each rank another one
    if op == "reduce_scatter":
        out = torch.empty_like(x)
        return (lambda: dist.reduce_scatter_tensor(out, parts)), out, total + mine * job.ranks
    if op == "all_to_all":
        out = torch.empty_like(parts)
        return (lambda: dist.all_to_all_single(out, parts)), out, torch.cat([ramp + rank + mine for rank in ranks])
    raise ValueError(f"no collective {op}")


def main() -> None:
    given = options(["collectives", *sys.argv[1:]])
    job = Job(given)
    began_ns = time.monotonic_ns()
    dist.all_reduce(torch.ones(1, device=job.device))
    job.finish()
    first_ms = (time.monotonic_ns() - began_ns) / 1e6
    y = os.environ.get("R2CC_BENCH_Y")
    by_hand = [Published(job.ranks, job.rank, float(y))] if y else []
    if by_hand:  # connects them
        by_hand[0].all_reduce(torch.ones(1 << 20, device=job.device))
    job.finish()
    job.say("ready", first_ms=first_ms)
    wrong = 0
    for turn, text in enumerate(sys.stdin):
        if text.strip() == "end":
            break
        op, size, count = text.split()
        alone = op.endswith("_alone")
        op = op.removesuffix("_alone")
        warm, _, _ = prepared(job, op, int(size), turn, by_hand)
        last, got, expected = prepared(job, op, int(size), turn, by_hand)
        if not alone:
            warm()
        job.finish()
        job.together()
        begin_ns = time.monotonic_ns()
        for _ in range(int(count) - 1):
            warm()
        last()
        job.finish()
        took_ns = time.monotonic_ns() - begin_ns
        missed = int((got != expected).sum().item())
        wrong += missed
        job.say("took", turn=turn, bytes=int(size), us=took_ns / 1e3 / int(count), wrong_elements=missed)
    job.say("end", wrong_elements=wrong)
    job.close()


if __name__ == "__main__":
    main()
