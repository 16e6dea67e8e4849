"""One rank of one of the jobs that nccl_cost.py lets run by turns: all-reduces when told so on stdin, else it waits.

A line on stdin is `BYTES OPS`: that many all-reduces in a row, timed together; the answer is a `took` line with `us`
for each. The last result is checked, every element. `end` ends it. CLOCK_MONOTONIC, and float32.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import torch.distributed as dist

from harness.workloads.job import Job
from harness.workloads.rank import options

SPAN = 97


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
        size, ops = map(int, text.split())
        ramp = torch.arange(max(1, size // 4), device=job.device, dtype=torch.int32) % SPAN
        warm, mine = ramp.float(), (ramp + job.rank + turn).float()
        dist.all_reduce(warm)
        job.finish()
        job.together()
        begin_ns = time.monotonic_ns()
        for _ in range(ops - 1):
            dist.all_reduce(warm)
        dist.all_reduce(mine)
        job.finish()
        took_ns = time.monotonic_ns() - begin_ns
        expected = (ramp * job.ranks + sum(range(job.ranks)) + turn * job.ranks).float()
        missed = int((mine != expected).sum().item())
        wrong += missed
        job.say("took", turn=turn, bytes=size, us=took_ns / 1e3 / ops, wrong_elements=missed)
    job.say("end", wrong_elements=wrong)
    job.close()


if __name__ == "__main__":
    main()
