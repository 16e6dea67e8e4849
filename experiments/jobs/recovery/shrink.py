"""All-reduces that go on without the ranks that are lost: after an error the others shrink the communicator.

A rank of a host without any path gets R2CC's error after R2CC_HOLD_MS, and leaves. The others agree who is left, call
ncclCommShrink, and repeat what not all of them had finished. Every element is checked. With --cpu it runs over gloo,
which cannot shrink: the group is made anew; `--leave 2:5` makes rank 2 leave in step 5, as if its host were lost, and
`--leave 2:5 --leave 1:9` another one of what was shrunk.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import os
import socket
import sys
import time
from abc import ABC, abstractmethod
from datetime import timedelta
from pathlib import Path

try:
    import torch
    import torch.distributed as dist
except ModuleNotFoundError as error:
    print(f"shrink.py needs torch: this Python has no {error.name}", file=sys.stderr)
    sys.exit(2)

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from harness.workloads.nccl_api import SHRINK_ABORT, Comm, Nccl, NcclError

LOST = f"no link at {socket.gethostname()}: "
"""What R2CC's error says where this host has lost its links, also when a peer has said so first."""
POLL_S = 0.001
LEAVES, STEP_0 = 1, 2
"""What a rank answers: that it leaves, or this more than its step. 0: nothing yet."""


class Lost(RuntimeError):
    """The collective did not end well; says why."""


class Group(ABC):
    """Ranks that add up numbers; after Lost, only `without` may be called."""

    @abstractmethod
    def add(self, data: torch.Tensor) -> None:
        """All-reduce in place. Raises Lost."""

    @abstractmethod
    def without(self, places: list[int], name: str) -> Group:
        """The same without those at these places."""

    @abstractmethod
    def end(self, *, abort: bool) -> None: ...


class NcclGroup(Group):
    def __init__(self, comm: Comm, nccl: Nccl) -> None:
        self._comm, self._nccl = comm, nccl

    def add(self, data: torch.Tensor) -> None:
        done, stream = torch.cuda.Event(), torch.cuda.current_stream()
        try:
            self._comm.all_reduce(data.data_ptr(), data.numel(), stream.cuda_stream)
            done.record(stream)
            while not done.query():
                if self._comm.failed():
                    raise Lost(self._nccl.last_error())
                time.sleep(POLL_S)
        except NcclError as error:
            raise Lost(f"{error}: {self._nccl.last_error()}") from error

    def without(self, places: list[int], name: str) -> Group:
        old = self._comm
        child = NcclGroup(old.shrink(places, SHRINK_ABORT), self._nccl)
        old.abort()
        return child

    def end(self, *, abort: bool) -> None:
        self._comm.abort() if abort else self._comm.destroy()


class GlooGroup(Group):
    def __init__(self, store: dist.Store, place: int, size: int, name: str, limit_s: float) -> None:
        self._store, self._place, self._size, self._limit_s = store, place, size, limit_s
        limit = timedelta(seconds=limit_s)
        dist.init_process_group("gloo", store=dist.PrefixStore(name, store), rank=place, world_size=size, timeout=limit)

    def add(self, data: torch.Tensor) -> None:
        try:
            dist.all_reduce(data)
            return
        except RuntimeError as error:
            why = str(error).splitlines()[0]
        # Who waits for this rank hears of it when its sockets close. They do: the error, which held the group, is gone.
        self.end(abort=True)
        raise Lost(why)

    def without(self, places: list[int], name: str) -> Group:
        self.end(abort=True)
        below = sum(each < self._place for each in places)
        return GlooGroup(self._store, self._place - below, self._size - len(places), name, self._limit_s)

    def end(self, *, abort: bool) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()


class Job:
    """One rank: its group, who is in it, and what each step came to."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.members = list(range(ranks))
        self.args, self.epoch, self.step = args, 0, 0
        self.results: dict[int, bytes] = {}
        leader = self.rank == 0
        port = int(os.environ["MASTER_PORT"])
        self.store = dist.TCPStore(os.environ["MASTER_ADDR"], port, ranks, leader, timedelta(seconds=120))
        self.leave = [tuple(map(int, each.split(":"))) for each in args.leave]
        self.device, self.group = self._begin(ranks)
        self.places = torch.arange(args.mib << 18, device=self.device, dtype=torch.int64)

    def _begin(self, ranks: int) -> tuple[torch.device, Group]:
        if self.args.cpu:
            return torch.device("cpu"), GlooGroup(self.store, self.rank, ranks, "0", self.args.limit_s)
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        torch.cuda.set_device(device)
        torch.zeros(1, device=device)
        nccl = Nccl()
        if self.rank == 0:
            self.store.set("id", nccl.unique_id())
        return device, NcclGroup(nccl.init(ranks, self.store.get("id"), self.rank), nccl)

    def run(self) -> int:
        while self.step < self.args.steps:
            if (self.rank, self.step) in self.leave:
                return self.left("it was asked to")
            try:
                self.one()
            except Lost as error:
                print(f"rank {self.rank} lost step {self.step}: {error}", flush=True)
                if LOST in str(error):
                    return self.left("its host has no link left")
                self.go_on()
        digest = hashlib.sha256(b"".join(self.results[step] for step in range(self.args.steps))).hexdigest()
        if out := os.environ.get("R2CC_OUT"):
            (Path(out) / "digest").write_text(digest)
        print(f"digest {digest} of ranks {self.members}", flush=True)
        self.say_over()
        return 0

    def one(self) -> None:
        """Whole numbers far below 2^24: their sum is exact in any order."""
        base = (self.places + self.step) % 1009
        data = (base * (self.rank + 1)).float()
        self.group.add(data)
        wrong = int((data != (base * sum(each + 1 for each in self.members)).float()).sum())
        if wrong:
            sys.exit(f"step {self.step}: {wrong} wrong elements")
        there = data.cpu()  # read without NumPy, which torch does not need
        bits = ctypes.string_at(there.data_ptr(), there.numel() * there.element_size())
        self.results[self.step] = hashlib.sha256(bits).digest()
        print(f"step {self.step} result {self.results[self.step].hex()[:16]}", flush=True)
        self.step += 1

    def left(self, why: str) -> int:
        print(f"rank {self.rank} leaves: {why}", flush=True)
        self.store.add(f"{self.epoch}/{self.rank}", LEAVES)
        self.group.end(abort=True)
        return 0

    def go_on(self) -> None:
        """Says how far this rank came, hears who is left and from which step, and goes on with them."""
        began = time.monotonic()
        self.store.add(f"{self.epoch}/{self.rank}", STEP_0 + self.step)
        if self.rank == 0:
            self.store.set(f"{self.epoch}/plan", " ".join(map(str, self.plan())))
        self.step, *members = map(int, self.store.get(f"{self.epoch}/plan").split())
        if self.rank not in members:
            sys.exit(f"rank {self.rank}: the others went on without it, as it did not answer in their --wait-s")
        places = [place for place, rank in enumerate(self.members) if rank not in members]
        self.epoch += 1
        self.group = self.group.without(places, str(self.epoch))
        self.members = members
        took_ms = (time.monotonic() - began) * 1000
        print(f"rank {self.rank} goes on at step {self.step} with ranks {members} after {took_ms:.0f} ms", flush=True)

    def plan(self) -> list[int]:
        """The first step that somebody lacks, and who is left: those that answer in --wait-s, and do not leave."""
        deadline = time.monotonic() + self.args.wait_s
        answers: dict[int, int] = {}
        while not all(answers.get(rank) for rank in self.members) and time.monotonic() < deadline:
            answers = {rank: self.store.add(f"{self.epoch}/{rank}", 0) for rank in self.members}
            time.sleep(POLL_S)
        steps = {rank: said - STEP_0 for rank, said in answers.items() if said >= STEP_0}
        return [min(steps.values()), *sorted(steps)]

    def say_over(self) -> None:
        """Rank 0 keeps the store: it ends last."""
        self.group.end(abort=False)
        self.store.add("over", 1)
        deadline = time.monotonic() + self.args.wait_s
        while self.rank == 0 and self.store.add("over", 0) < len(self.members) and time.monotonic() < deadline:
            time.sleep(POLL_S)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--mib", type=int, default=64, help="size of one all-reduce")
    parser.add_argument("--wait-s", type=float, default=15.0, help="how long a rank may take to say that it is left")
    parser.add_argument("--cpu", action="store_true", help="gloo instead of NCCL, for a test without GPUs")
    parser.add_argument("--limit-s", type=float, default=20.0, help="with --cpu: how long an all-reduce may take")
    parser.add_argument(
        "--leave",
        metavar="RANK:STEP",
        action="append",
        default=[],
        help="that rank leaves by itself; not rank 0; several",
    )
    return Job(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
