"""Communicators made, used and ended in every way there is, through NCCL's own interface; no hang, no crash, no leak.

An iteration is one pass over `cases`. Each is given `limit_s`; one that takes longer ends the rank with an error, for
what hangs holds a lock. Its line has `cases_ms`, `open_fds`, `threads`, `rss_bytes` and, on a GPU, `gpu_used_mib` (by
all its processes). Settings: `cases` (names of CASES), `limit_s`, `bytes`, `comms`, `library` (else torch's own).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import torch

from harness.workloads.job import Job, Outcome
from harness.workloads.nccl_api import SHRINK_ABORT, SHRINK_DEFAULT, Comm, Nccl, NcclError

SPAN = 97
ALLOWED = {"open_fds": 8, "threads": 8, "gpu_used_mib": 32}
"""What may come and go of what a process holds; a communicator alone takes more of its GPU."""
SETTLE_S = 2.0
"""How long it may take to go."""
LATE_S, HELD_S, POLL_S = 0.02, 0.5, 0.001
CHILD_SHARE = 0.8
"""Of a case's limit: a child has ended when its parent gives up."""
ONLY_RANK = Path(__file__).with_name("rank.py")
RUSAGE_PAGES = 1


class Workload:
    """All cases in turn, each with communicators of its own."""

    op = "lifecycle"

    def __init__(self, job: Job) -> None:
        self.job, spec = job, job.spec
        if job.ranks < 2:
            raise ValueError("one rank has nobody to leave")
        self.limit_s = float(spec.get("limit_s", 30.0))
        self.nccl = Nccl(spec.get("library"), self.limit_s)
        names = spec.get("cases") or list(CASES)
        unknown = [name for name in names if name not in CASES]
        if unknown:
            raise ValueError(f"no case {', '.join(unknown)}; there are {', '.join(CASES)}")
        self.cases = [(name, CASES[name]) for name in names]
        self.bytes = int(spec.get("bytes", 4 << 20))
        self.comms = int(spec.get("comms", 4))
        self.leave = bool(spec.get("leave"))
        self.ramp = torch.arange(self.bytes // 4, device=job.device, dtype=torch.int32).remainder(SPAN).float()
        self.turn = self.pass_number = 0
        self._first: dict[str, int] = {}
        self._took: dict[str, float] = {}
        self._wrong: dict[str, int] = {}
        self._corrupt = tuple(map(int, job.given.corrupt.split(":"))) if job.given.corrupt else None
        self._index = 0

    # ---- what cases are made of

    def comm(self, *, blocking: bool = True) -> Comm:
        """A new communicator of all ranks, connected."""
        self.turn += 1
        key = f"lifecycle/{self.turn}"
        if self.job.rank == 0:
            self.job.store.set(key, self.nccl.unique_id())
        return self.nccl.init(self.job.ranks, self.job.store.get(key), self.job.rank, blocking=blocking)

    def values(self, rank: int) -> torch.Tensor:
        return self.ramp + rank

    def mine(self, comm: Comm, count: int = 1) -> list[torch.Tensor]:
        """So many tensors of what this rank adds, ready for any stream."""
        made = [self.values(comm.rank) for _ in range(count)]
        self.job.finish()
        return made

    def reduce(self, comm: Comm, x: torch.Tensor, stream: Any = None) -> None:
        """Begins an all-reduce; the GPU is given nothing else, for that might wait for it."""
        comm.all_reduce(x.data_ptr(), x.numel(), self.stream(stream))

    def wrong(self, comm: Comm, x: torch.Tensor) -> int:
        """Elements of an all-reduce that has ended."""
        if self._corrupt == (self.job.rank, self._index):
            x[0] += 1
            self._corrupt = None
        return int((x != self.ramp * comm.ranks + sum(range(comm.ranks))).sum().item())

    def checked(self, comm: Comm) -> int:
        (x,) = self.mine(comm)
        self.reduce(comm, x)
        self.job.finish()
        return self.wrong(comm, x)

    def arrive(self, what: str) -> None:
        self.job.store.add(f"lifecycle/{self.turn}/{what}", 1)

    def wait_for(self, what: str, count: int) -> None:
        """Until so many ranks have arrived there; who waits too long meets the case's limit."""
        while self.job.store.add(f"lifecycle/{self.turn}/{what}", 0) < count:
            time.sleep(POLL_S)

    def stream(self, stream: Any = None) -> int:
        return int((stream or torch.cuda.current_stream()).cuda_stream) if self.job.cuda else 0

    # ---- the three steps of an iteration

    def prepare(self, index: int) -> None:
        self._took, self._wrong, self._index = {}, {}, index

    def run(self, index: int) -> None:
        for name, case in self.cases:
            self.job.say("op", name=name, index=index)
            began = time.monotonic()
            wrong = self._within_limit(name, case)
            self._took[name] = round((time.monotonic() - began) * 1e3, 3)
            if wrong:
                self._wrong[name] = wrong
        self.pass_number += 1

    def _within_limit(self, name: str, case: Callable[[Workload], int]) -> int:
        """In a thread of its own: nothing else could be done about a call that never returns."""
        answer: list[Any] = []

        def work() -> None:
            try:
                if self.job.cuda:
                    torch.cuda.set_device(self.job.device)
                answer.append(case(self))
            except Exception as error:  # noqa: BLE001 - raised again where it is waited for
                answer.append(error)

        thread = threading.Thread(target=work, name=f"case {name}", daemon=True)
        thread.start()
        thread.join(self.limit_s)
        if not answer:
            raise TimeoutError(f"{name} has not come to its end in {self.limit_s:g} s")
        failure = answer[0] if isinstance(answer[0], Exception) else None
        if failure is not None:
            raise RuntimeError(f"{name}: {failure}") from failure
        return int(answer[0])

    def check(self, index: int) -> Outcome:
        self.job.together()  # a GPU that ranks share shows what each of them still holds
        held = self._settled()
        if self.pass_number == 1:
            self._first = held
        for key, now in held.items():
            if now > (first := self._first[key]) + ALLOWED[key]:
                raise RuntimeError(f"a leak: {key} is {now}; after the first pass it was {first}")
        more = {"cases_ms": self._took, "rss_bytes": rss_bytes(), "nccl": self.nccl.version, **held}
        return Outcome(sum(self._wrong.values()), {**more, **({"wrong": self._wrong} if self._wrong else {})})

    def _settled(self) -> dict[str, int]:
        """What this process holds, once what ends in the background has ended."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            held = {"open_fds": count("/proc/self/fd"), "threads": count("/proc/self/task")}
            if self.job.cuda:
                torch.cuda.empty_cache()
                free, total = torch.cuda.mem_get_info(self.job.device)
                held["gpu_used_mib"] = (total - free) >> 20
            small = self._first and all(held[key] <= self._first[key] + ALLOWED[key] for key in held)
            if small or time.monotonic() > deadline:
                return held
            time.sleep(0.05)


def count(folder: str) -> int:
    return sum(1 for _entry in Path(folder).iterdir())


def rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[RUSAGE_PAGES])
    return pages * os.sysconf("SC_PAGE_SIZE")


# ---- the cases ----------------------------------------------------------------------------------------------------


def destroy(w: Workload) -> int:
    """Finalized and destroyed, the last rank first. With `leave`: the process ends without either."""
    comm = w.comm()
    wrong = w.checked(comm)
    if w.leave:
        leave(w, 1 if wrong else 0)
    time.sleep(LATE_S * (w.job.ranks - 1 - w.job.rank))
    comm.finalize()
    comm.destroy()
    return wrong


def abort(w: Workload) -> int:
    """Aborted by all ranks with work under way."""
    comm = w.comm()
    wrong = w.checked(comm)
    xs = w.mine(comm, 4)
    for x in xs:
        w.reduce(comm, x)
    comm.abort()
    w.job.finish()
    return wrong


def abort_one(w: Workload) -> int:
    """Rank 0 aborts and never joins the others' collective; they abort when they hear of it, or have had enough."""
    comm = w.comm()
    wrong = w.checked(comm)
    xs = w.mine(comm)
    if w.job.rank:
        hold(w, comm, xs[0])
    comm.abort()
    w.job.finish()
    return wrong


def hold(w: Workload, comm: Comm, x: torch.Tensor) -> None:
    """A collective that somebody never joins. That an error tells so is no fault."""
    enough = time.monotonic() + HELD_S
    try:
        w.reduce(comm, x)
    except NcclError:
        return
    while time.monotonic() < enough and not comm.failed():
        time.sleep(POLL_S)


def split(w: Workload) -> int:
    """By parity and all together; children end before their parent and after it, in turn."""
    parent, rank, ranks = w.comm(), w.job.rank, w.job.ranks
    alike = range(rank % 2, ranks, 2)
    children = [parent.split(rank % 2, rank, rank // 2, len(alike)), parent.split(0, rank, rank, ranks)]
    wrong = sum(w.checked(comm) for comm in (*children, parent))
    order = [*children, parent] if w.pass_number % 2 else [parent, *children]
    for comm in order:
        comm.destroy()
    return wrong


def shrink(w: Workload) -> int:
    """The last rank is left out; every other pass with work under way that it never joins."""
    parent, last = w.comm(), w.job.ranks - 1
    wrong = w.checked(parent)
    broken = w.pass_number % 2 == 1
    if w.job.rank != last:
        xs = w.mine(parent)
        if broken:
            w.reduce(parent, xs[0])
        child = parent.shrink((last,), SHRINK_ABORT if broken else SHRINK_DEFAULT)
        w.arrive("shrunk")
        wrong += w.checked(child)
        child.destroy()
    elif broken:
        w.wait_for("shrunk", last)
    if broken:
        parent.abort()
    else:
        parent.destroy()
    return wrong


def many(w: Workload) -> int:
    """Several at once, each with a stream of its own; odd ranks destroy them the other way round."""
    comms = [w.comm() for _ in range(w.comms)]
    streams = [torch.cuda.Stream() if w.job.cuda else None for _ in comms]
    each = [(comm, stream, w.mine(comm, 3)) for comm, stream in zip(comms, streams)]  # noqa: B905
    for turn in range(3):
        for comm, stream, xs in each:
            w.reduce(comm, xs[turn], stream)
    for stream in filter(None, streams):
        stream.synchronize()
    wrong = sum(w.wrong(comm, x) for comm, _stream, xs in each for x in xs)
    for comm in reversed(comms) if w.job.rank % 2 else comms:
        comm.destroy()
    return wrong


def group(w: Workload) -> int:
    """All-reduces, and sends round the ring, as one operation."""
    comm, rank, ranks = w.comm(), w.job.rank, w.job.ranks
    before, after = (rank - 1) % ranks, (rank + 1) % ranks
    got = torch.full_like(w.ramp, -1)
    mine, *xs = w.mine(comm, 4)
    w.nccl.group(start=True)
    for x in xs:
        w.reduce(comm, x)
    comm.send(mine.data_ptr(), mine.numel(), after, w.stream())
    comm.recv(got.data_ptr(), got.numel(), before, w.stream())
    w.nccl.group(start=False)
    w.job.finish()
    wrong = sum(w.wrong(comm, x) for x in xs) + int((got != w.values(before)).sum().item())
    comm.destroy()
    return wrong


def nonblocking(w: Workload) -> int:
    """No call waits: the communicator is asked how far it is."""
    comm = w.comm(blocking=False)
    wrong = w.checked(comm)
    comm.finalize()
    comm.destroy()
    return wrong


def exit_without(w: Workload) -> int:
    """A process of its own that ends without destroying anything. Children meet in our store: a port of their own might
    be another's."""
    given, limit_s = w.job.given, CHILD_SHARE * w.limit_s
    w.turn += 1
    spec = {**w.job.spec, "cases": ["destroy"], "leave": True, "store": f"lifecycle/{w.turn}"}
    argv = [sys.executable, str(ONLY_RANK), "lifecycle", "--rank", str(w.job.rank), "--ranks", str(w.job.ranks)]
    argv += ["--root", given.root, "--per-host", str(given.per_host)]
    argv += ["--iterations", "1", "--warmup", "0", "--timeout-s", str(limit_s), "--spec", json.dumps(spec)]
    argv += ["--gpu", str(given.gpu)] if w.job.cuda else []
    done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=limit_s, check=False)
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-500:].decode(errors='replace')}")
    return 0


def leave(w: Workload, code: int) -> NoReturn:
    """Ends the process as it is, when all ranks have their results."""
    w.arrive("done")
    w.wait_for("done", w.job.ranks)
    os._exit(code)


CASES: dict[str, Callable[[Workload], int]] = {
    "destroy": destroy,
    "abort": abort,
    "abort_one": abort_one,
    "split": split,
    "shrink": shrink,
    "many": many,
    "group": group,
    "nonblocking": nonblocking,
    "exit": exit_without,
}
