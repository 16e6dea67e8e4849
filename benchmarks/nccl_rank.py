"""One rank of a real NCCL job on one GPU, for nccl_figures.py: all-reduces through torch, every element checked.

Prints JSON lines on stdout, where the net library writes its own (R2CC_EVENT_FILE=/proc/self/fd/1):
`ready`, `iteration` (phase, index, start_ns, end_ns, cpu_ns of all threads meanwhile, wrong_elements), `end` (threads:
CPU time by name over all timed iterations). Times are CLOCK_MONOTONIC. Exit code 1 after a wrong element.

Waiting for the GPU sleeps (an event with blocking=True), so that what is counted is NCCL's and ours, not torch's. Sums
are exact in float32 for 2, 4 or 8 ranks.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from nccl_phase import Phase

LIMIT_S = 120
SLOPE = 1000


def say(event: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, "t_ns": time.monotonic_ns(), **fields}) + "\n")
    sys.stdout.flush()


def cpu_ns() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return round((used.ru_utime + used.ru_stime) * 1e9)


def threads_ns() -> Counter[str]:
    """CPU time of this process's threads by name, in ns, from the scheduler's own count."""
    found: Counter[str] = Counter()
    for task in Path("/proc/self/task").iterdir():
        try:
            found[(task / "comm").read_text().strip()] += int((task / "schedstat").read_text().split()[0])
        except (OSError, ValueError):  # it has just ended
            continue
    return found


class Job:
    """All communicators of this rank. Iteration i uses `at_once` of them, in turn; the others stand by."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.rank, self.ranks, self.at_once = options.rank, options.ranks, options.at_once
        torch.cuda.set_device(options.gpu)
        limit = timedelta(seconds=LIMIT_S)
        host, _, port = options.root.rpartition(":")
        self.store = dist.TCPStore(host, int(port), self.ranks, is_master=self.rank == 0, timeout=limit)
        dist.init_process_group("nccl", store=self.store, rank=self.rank, world_size=self.ranks, timeout=limit)
        self.groups = [dist.new_group(range(self.ranks), timeout=limit) for _ in range(options.comms)]
        self.done = torch.cuda.Event(blocking=True)
        self.threads: Counter[str] = Counter()
        self.wrong = 0
        self._begun = 0
        one = torch.ones(1, device="cuda")
        for group in self.groups:  # connects them
            dist.all_reduce(one, group=group)
        torch.cuda.synchronize()

    def run(self, phase: Phase) -> None:
        count = phase.size // 4
        ramp = torch.arange(count, device="cuda", dtype=torch.float32) % SLOPE
        total = ramp * self.ranks + sum(range(self.ranks))
        data = [torch.empty_like(ramp) for _ in range(self.at_once)]
        until = time.monotonic() + phase.seconds
        index = 0
        while self._goes_on(time.monotonic() < until):
            shift = index % 97
            for each in data:
                torch.add(ramp, self.rank + shift, out=each)
            first = index * self.at_once
            groups = [self.groups[(first + n) % len(self.groups)] for n in range(self.at_once)]
            before = threads_ns()
            spent = self._iteration(phase, data, groups, index)
            self.threads.update(threads_ns() - before)
            expected = (total + self.ranks * shift) * self.ranks ** (phase.ops - 1)
            wrong = sum(int((each != expected).sum().item()) for each in data)
            self.wrong += wrong
            say("iteration", phase=phase.name, index=index, **spent, wrong_elements=wrong)
            index += 1

    def _iteration(self, phase: Phase, data: list[torch.Tensor], groups: list[Any], index: int) -> dict[str, int]:
        torch.cuda.synchronize()
        self.store.add(f"{phase.name}/{index}", 1)
        while self.store.add(f"{phase.name}/{index}", 0) < self.ranks:  # all begin together
            time.sleep(0.0005)
        start_ns, start_cpu = time.monotonic_ns(), cpu_ns()
        works = []
        for _ in range(phase.ops):
            works = [dist.all_reduce(x, group=g, async_op=True) for x, g in zip(data, groups, strict=True)]
        for work in works:
            work.wait()
        self.done.record()
        self.done.synchronize()
        return {"start_ns": start_ns, "end_ns": time.monotonic_ns(), "cpu_ns": cpu_ns() - start_cpu}

    def _goes_on(self, wanted: bool) -> bool:
        """Rank 0 decides for all, so that all end at the same iteration."""
        self._begun += 1
        key = f"go/{self._begun}"
        if self.rank == 0:
            self.store.set(key, "1" if wanted else "0")
            return wanted
        return bool(self.store.get(key) == b"1")

    def close(self) -> None:
        dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--root", required=True, help="ADDR:PORT on the management network")
    parser.add_argument("--gpu", type=int, required=True)
    parser.add_argument("--comms", type=int, default=1, help="communicators")
    parser.add_argument("--at-once", type=int, default=1, help="how many of them carry an iteration")
    parser.add_argument(
        "--phase", action="append", required=True, type=Phase.parse, help="NAME:BYTES:OPS:SECONDS, in this order"
    )
    options = parser.parse_args()
    job = Job(options)
    say("ready", nccl=list(torch.cuda.nccl.version()), gpu=torch.cuda.get_device_name())
    for phase in options.phase:
        job.run(phase)
    say("end", threads=dict(job.threads), wrong_elements=job.wrong)
    job.close()
    sys.exit(1 if job.wrong else 0)


if __name__ == "__main__":
    main()
