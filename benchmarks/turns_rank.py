"""One rank of one of the jobs that nccl_cost.py lets run by turns: collectives when told so on stdin, else it waits.

A line on stdin is `OP BYTES COUNT`: so many of that collective in a row, timed together; the answer is a `took` line
with `us` for each. BYTES are nccl-tests' sizes: of the larger of a rank's buffers. The last result is checked, every
element. `end` ends it. CLOCK_MONOTONIC, and float32.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import torch.distributed as dist

from harness.workloads.job import Job
from harness.workloads.rank import options

SPAN = 97
PIECES = 8
Run = Callable[[], object]


def prepared(job: Job, op: str, size: int, turn: int) -> tuple[Run, torch.Tensor, torch.Tensor]:
    """(the collective on data of this turn, where its result will be, what it must be)."""
    ranks, mine = range(job.ranks), job.rank
    count = max(1, size // 4 // (1 if op == "all_reduce" else job.ranks))
    ramp = torch.remainder(torch.arange(count, device=job.device, dtype=torch.int32), SPAN).float() + turn
    total = ramp * job.ranks + sum(ranks)
    x = ramp + mine
    if op == "all_reduce":
        return (lambda: dist.all_reduce(x)), x, total
    if op.startswith("published"):
        return published(job, x, int(op.partition(":")[2])), x, total
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


def published(job: Job, x: torch.Tensor, nics: int) -> Run:
    """R2CC-AllReduce as published, for rank 0 having lost one of so many NICs: composed of collectives.

    A ring of all on 1-Y beside one of the others on Y, Y = X; then Y goes through rank 0 in pieces: in, added, out.
    """
    groups = groups_of(job)
    cut = x.numel() - x.numel() // nics // 512 * 512
    rest, mine = x[:cut], x[cut:]
    pieces = [piece for piece in torch.chunk(mine, PIECES) if piece.numel()]
    inbox = [torch.empty_like(piece) for piece in pieces] if job.rank == 0 else pieces

    def run() -> None:
        works = [dist.all_reduce(rest, async_op=True)]
        if job.rank != 0:
            works.append(dist.all_reduce(mine, group=groups["others"], async_op=True))
        for work in works:
            work.wait()
        for piece, came in zip(pieces, inbox, strict=True):
            if job.rank == 1:
                dist.send(came, 0, group=groups["pair"])
            elif job.rank == 0:
                dist.recv(came, 1, group=groups["pair"])
                piece.add_(came)
            dist.broadcast(piece, 0, group=groups["last"])

    return run


@functools.cache
def groups_of(job: Job) -> dict[str, dist.ProcessGroup]:
    """Communicators of their own, so that what runs at the same time does not wait for each other."""
    every = list(range(job.ranks))
    words = {"others": every[1:], "pair": every[:2], "last": every}
    return {name: dist.new_group(ranks, backend="nccl") for name, ranks in words.items()}


def main() -> None:
    given = options(["collectives", *sys.argv[1:]])
    job = Job(given)
    dist.all_reduce(torch.ones(1, device=job.device))
    job.finish()
    job.say("ready")
    wrong = 0
    for turn, text in enumerate(sys.stdin):
        if text.strip() == "end":
            break
        op, size, count = text.split()
        warm, _, _ = prepared(job, op, int(size), turn)
        last, got, expected = prepared(job, op, int(size), turn)
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
