"""A rank's part of a torch job: its process group, its iterations, and the lines that tell of them."""

from __future__ import annotations

import json
import os
import re
import resource
import time
from argparse import Namespace
from dataclasses import dataclass, field
from datetime import timedelta
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist

from harness.workloads.interfaces import chosen

NICS = Path("/sys/class/net")
POLL_S = 0.0005


@dataclass(frozen=True)
class Outcome:
    """What an iteration came to: elements that were not as they must be, and what else its line says."""

    wrong: int
    more: dict[str, Any] = field(default_factory=dict)


class Workload(Protocol):
    """Three steps an iteration, of which only the second is timed. Warm-up has negative indices."""

    op: str
    """`allreduce` where one iteration is one all-reduce, as nccl-tests' bus bandwidth takes it."""
    bytes: int
    """What a rank contributes to an iteration's collectives."""

    def prepare(self, index: int) -> None: ...
    def run(self, index: int) -> None: ...
    def check(self, index: int) -> Outcome: ...


class Job:
    """Joins the process group; `run` does all iterations. Raises what torch raises when a collective fails.

    Spec: `store`, where the root is the store of another job: what all keys begin with there.
    """

    def __init__(self, given: Namespace) -> None:
        self.given = given
        self.spec: dict[str, Any] = given.spec
        self.rank, self.ranks, self.seed = given.rank, given.ranks, given.seed
        self.local_rank = given.rank % given.per_host
        self.cuda = given.gpu is not None
        self.device = torch.device("cuda", given.gpu) if self.cuda else torch.device("cpu")
        if self.cuda:
            torch.cuda.set_device(self.device)
        limit = timedelta(seconds=given.timeout_s)
        host, _, port = given.root.rpartition(":")
        within = self.spec.get("store")
        first = self.rank == 0 and within is None
        store = dist.TCPStore(host, int(port), self.ranks, first, limit, wait_for_workers=within is None)
        self.store = store if within is None else dist.PrefixStore(within, store)
        backend = "nccl" if self.cuda else "gloo"
        dist.init_process_group(backend, store=self.store, rank=self.rank, world_size=self.ranks, timeout=limit)
        self._done = torch.cuda.Event(blocking=True) if self.cuda else None
        self._turn = 0

    def say(self, event: str, **fields: Any) -> None:
        """One line by one write: the net library writes between ours. JSON has no word for what is not a number."""
        told = {name: None if isinstance(of, float) and not isfinite(of) else of for name, of in fields.items()}
        line = {"event": event, "t_ns": time.monotonic_ns(), "rank": self.rank, **told}
        os.write(1, (json.dumps(line) + "\n").encode())

    def finish(self) -> None:
        """Until the GPU has done all that it was given; sleeps, so that what is counted is not torch's waiting."""
        if self._done is not None:
            self._done.record()
            self._done.synchronize()

    def together(self, wanted: bool = True) -> bool:
        """Returns on all ranks at about the same time, with what rank 0 wants."""
        self._turn += 1
        key = f"turn/{self._turn}"
        if self.rank == 0:
            self.store.set(f"{key}/wanted", "1" if wanted else "0")
        self._all(key, self.ranks)
        return bool(self.store.get(f"{key}/wanted") == b"1")

    def _all(self, key: str, count: int, come: int = 1) -> None:
        """Until so many have come."""
        deadline = time.monotonic() + self.given.timeout_s
        self.store.add(key, come)
        while self.store.add(key, 0) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"not all ranks came to {key} in {self.given.timeout_s:g} s")
            time.sleep(POLL_S)

    def run(self, workload: Workload) -> int:
        """All iterations; returns how many elements were wrong."""
        self.say("bench_start", op=workload.op, bytes=workload.bytes, ranks=self.ranks, **self._about())
        wrong, index = 0, self._first(workload)
        until = None
        while index < self.given.iterations:
            if index == 0 and self.given.seconds:
                until = time.monotonic() + self.given.seconds
            workload.prepare(index)
            self.finish()
            if not self.together(until is None or time.monotonic() < until):
                break
            start_ns = time.monotonic_ns()
            self.say("progress", index=index, start_ns=start_ns)
            workload.run(index)
            self.finish()
            end_ns = time.monotonic_ns()
            outcome = workload.check(index)
            wrong += outcome.wrong
            more = {"bytes": workload.bytes, "wrong_elements": outcome.wrong, **outcome.more}
            self.say("iteration", index=index, start_ns=start_ns, end_ns=end_ns, **more)
            index += 1
        used = resource.getrusage(resource.RUSAGE_SELF)
        spent = {"max_rss_bytes": peak_memory_bytes(), "cpu_s": used.ru_utime + used.ru_stime}
        self.say("bench_end", completed=max(0, index), wrong_elements=wrong, **spent)
        return wrong

    def _first(self, workload: Workload) -> int:
        """Where a checkpoint ends, or where the others say; else the warm-up's first."""
        told = (getattr(workload, "first_index", None), self.given.first)
        return next((index for index in told if index is not None), -self.given.warmup)

    def _about(self) -> dict[str, Any]:
        """Connections are NCCL's own business: the net library's `path` lines name them."""
        nics = chosen(os.environ.get("NCCL_SOCKET_IFNAME", "eth"), (path.name for path in NICS.iterdir()))
        versions = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name() if self.cuda else None}
        mode = int(os.environ.get("R2CC_MODE", "0"))
        unknown = {"channels": 0, "chunk_bytes": 0, "slots": 0, "connections": []}
        return {**unknown, "mode": mode, "nics": nics, **versions}

    def close(self) -> None:
        """Rank 0 goes last: the store is part of it, and goes with it."""
        self.together()
        dist.destroy_process_group()
        if self.rank:
            self.store.add("gone", 1)
        else:
            self._all("gone", self.ranks - 1, come=0)


def peak_memory_bytes() -> int:
    """The most of this program alone: getrusage also counts what the process had before it became this program."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0
