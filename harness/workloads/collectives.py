"""Every collective that torch offers over NCCL, one after the other; all elements of all results are checked.

Values are whole numbers small enough for every sum and product to be exact in each type, for up to 8 ranks. Settings:
`ops` (names of OPS), `bytes` (of each rank's contribution), `dtypes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from harness.workloads.job import Job, Outcome

Pair = tuple[torch.Tensor, torch.Tensor]
Made = tuple[Callable[[], Any], Callable[[], list[Pair]]]
"""What runs the collective, and what then gives (result, expected) pairs."""
Op = Callable[["Inputs"], Made]
SPAN = 29
"""Values are below it: eight of them sum up to less than 256, which all types hold exactly."""
ROOT = 0


class Inputs:
    """Iteration `index`'s values in one type; `count` elements a rank."""

    def __init__(self, job: Job, ramp: torch.Tensor, index: int) -> None:
        self.job, self.ramp, self.index = job, ramp, index
        self.rank, self.ranks = job.rank, job.ranks

    def of(self, rank: int, part: int = 0) -> torch.Tensor:
        """What `rank` contributes; `part`: one of several tensors."""
        shift = (3 * rank + 7 * part + self.index) % SPAN
        return torch.remainder(self.ramp + shift, SPAN)

    def mine(self, part: int = 0) -> torch.Tensor:
        return self.of(self.rank, part)

    def total(self, part: int = 0) -> torch.Tensor:
        return sum(self.of(rank, part) for rank in range(self.ranks))

    def signs(self, rank: int) -> torch.Tensor:
        """Ones and twos: the product of all is a power of two."""
        return 1 + torch.remainder(self.ramp + rank + self.index, 2)

    def all(self, part: int = 0) -> list[torch.Tensor]:
        return [self.of(rank, part) for rank in range(self.ranks)]

    def parts(self, rank: int) -> list[torch.Tensor]:
        """One tensor for each peer."""
        return [self.of(rank, peer) for peer in range(self.ranks)]

    def blank(self) -> torch.Tensor:
        return torch.full_like(self.ramp, -1 if self.ramp.dtype.is_signed else 255)

    def blanks(self) -> list[torch.Tensor]:
        return [self.blank() for _ in range(self.ranks)]


def _reduce_with(op: Any, expected: Callable[[Inputs], torch.Tensor], mine: Callable[[Inputs], torch.Tensor]) -> Op:
    def made(inputs: Inputs) -> Made:
        x = mine(inputs)
        return (lambda: dist.all_reduce(x, op=op)), (lambda: [(x, expected(inputs))])

    return made


def _extreme(pick: Any) -> Callable[[Inputs], torch.Tensor]:
    def expected(inputs: Inputs) -> torch.Tensor:
        found = inputs.of(0)
        for rank in range(1, inputs.ranks):
            found = pick(found, inputs.of(rank))
        return found

    return expected


def _product(inputs: Inputs) -> torch.Tensor:
    found = inputs.signs(0)
    for rank in range(1, inputs.ranks):
        found = found * inputs.signs(rank)
    return found


def _mine(inputs: Inputs) -> torch.Tensor:
    return inputs.mine()


def broadcast(inputs: Inputs) -> Made:
    x = inputs.mine()
    return (lambda: dist.broadcast(x, ROOT)), (lambda: [(x, inputs.of(ROOT))])


def reduce(inputs: Inputs) -> Made:
    """Only the root's result means anything."""
    x = inputs.mine()
    root = inputs.rank == ROOT
    return (lambda: dist.reduce(x, ROOT)), (lambda: [(x, inputs.total())] if root else [])


def all_gather(inputs: Inputs) -> Made:
    x, out = inputs.mine(), inputs.blanks()
    return (lambda: dist.all_gather(out, x)), (lambda: list(zip(out, inputs.all(), strict=True)))


def all_gather_into_tensor(inputs: Inputs) -> Made:
    x, out = inputs.mine(), torch.cat(inputs.blanks())
    return (lambda: dist.all_gather_into_tensor(out, x)), (lambda: [(out, torch.cat(inputs.all()))])


def reduce_scatter(inputs: Inputs) -> Made:
    parts, out = inputs.parts(inputs.rank), inputs.blank()
    return (lambda: dist.reduce_scatter(out, parts)), (lambda: [(out, inputs.total(inputs.rank))])


def reduce_scatter_tensor(inputs: Inputs) -> Made:
    x, out = torch.cat(inputs.parts(inputs.rank)), inputs.blank()
    return (lambda: dist.reduce_scatter_tensor(out, x)), (lambda: [(out, inputs.total(inputs.rank))])


def all_to_all(inputs: Inputs) -> Made:
    parts, out = inputs.parts(inputs.rank), inputs.blanks()
    return (lambda: dist.all_to_all(out, parts)), (lambda: list(zip(out, _received(inputs), strict=True)))


def all_to_all_single(inputs: Inputs) -> Made:
    x, out = torch.cat(inputs.parts(inputs.rank)), torch.cat(inputs.blanks())
    return (lambda: dist.all_to_all_single(out, x)), (lambda: [(out, torch.cat(_received(inputs)))])


def all_to_all_uneven(inputs: Inputs) -> Made:
    """Rank r gives peer p a share of (p + 1) / ranks of what it could."""
    count = inputs.ramp.numel()
    share = [count * (peer + 1) // inputs.ranks for peer in range(inputs.ranks)]
    x = torch.cat([part[: share[peer]] for peer, part in enumerate(inputs.parts(inputs.rank))])
    out = torch.cat([blank[: share[inputs.rank]] for blank in inputs.blanks()])
    into = [share[inputs.rank]] * inputs.ranks
    expected = lambda: torch.cat([part[: share[inputs.rank]] for part in _received(inputs)])  # noqa: E731
    return (lambda: dist.all_to_all_single(out, x, into, share)), (lambda: [(out, expected())])


def _received(inputs: Inputs) -> list[torch.Tensor]:
    return [inputs.of(peer, inputs.rank) for peer in range(inputs.ranks)]


def gather(inputs: Inputs) -> Made:
    x = inputs.mine()
    out = inputs.blanks() if inputs.rank == ROOT else None
    return (lambda: dist.gather(x, out, ROOT)), (lambda: list(zip(out, inputs.all(), strict=True)) if out else [])


def scatter(inputs: Inputs) -> Made:
    out = inputs.blank()
    parts = inputs.parts(ROOT) if inputs.rank == ROOT else None
    return (lambda: dist.scatter(out, parts, ROOT)), (lambda: [(out, inputs.of(ROOT, inputs.rank))])


def send_recv(inputs: Inputs) -> Made:
    """Pairs: even ranks send first; of an odd number of ranks the last one rests."""
    peer = inputs.rank ^ 1
    if peer >= inputs.ranks:
        return (lambda: None), list
    x, out = inputs.mine(), inputs.blank()

    def run() -> None:
        for sends in (inputs.rank % 2 == 0, inputs.rank % 2 == 1):
            dist.send(x, peer) if sends else dist.recv(out, peer)

    return run, (lambda: [(out, inputs.of(peer))])


def batch_send_recv(inputs: Inputs) -> Made:
    """Round the ring, both ways at once."""
    after, before = (inputs.rank + 1) % inputs.ranks, (inputs.rank - 1) % inputs.ranks
    x, out = inputs.mine(), inputs.blank()

    def run() -> None:
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, x, after), dist.P2POp(dist.irecv, out, before)])
        for work in works:
            work.wait()

    return run, (lambda: [(out, inputs.of(before))])


def coalesced(inputs: Inputs) -> Made:
    """Several all-reduces as one group call."""
    parts = [inputs.mine(part) for part in range(4)]

    def run() -> None:
        with dist._coalescing_manager(device=inputs.job.device):
            for part in parts:
                dist.all_reduce(part)

    return run, (lambda: [(x, inputs.total(part)) for part, x in enumerate(parts)])


def at_once(inputs: Inputs) -> Made:
    """Asynchronous all-reduces that are waited for in the end."""
    parts = [inputs.mine(part) for part in range(4)]

    def run() -> None:
        for work in [dist.all_reduce(part, async_op=True) for part in parts]:
            work.wait()

    return run, (lambda: [(x, inputs.total(part)) for part, x in enumerate(parts)])


def barrier(inputs: Inputs) -> Made:
    return dist.barrier, list


OPS: dict[str, Op] = {
    "all_reduce": _reduce_with(dist.ReduceOp.SUM, Inputs.total, _mine),
    "all_reduce_prod": _reduce_with(dist.ReduceOp.PRODUCT, _product, lambda inputs: inputs.signs(inputs.rank)),
    "all_reduce_min": _reduce_with(dist.ReduceOp.MIN, _extreme(torch.minimum), _mine),
    "all_reduce_max": _reduce_with(dist.ReduceOp.MAX, _extreme(torch.maximum), _mine),
    "all_reduce_avg": _reduce_with(dist.ReduceOp.AVG, Inputs.total, lambda inputs: inputs.mine() * inputs.ranks),
    "broadcast": broadcast,
    "reduce": reduce,
    "all_gather": all_gather,
    "all_gather_into_tensor": all_gather_into_tensor,
    "reduce_scatter": reduce_scatter,
    "reduce_scatter_tensor": reduce_scatter_tensor,
    "all_to_all": all_to_all,
    "all_to_all_single": all_to_all_single,
    "all_to_all_uneven": all_to_all_uneven,
    "gather": gather,
    "scatter": scatter,
    "send_recv": send_recv,
    "batch_send_recv": batch_send_recv,
    "coalesced": coalesced,
    "at_once": at_once,
    "barrier": barrier,
}


def _ramp(count: int, dtype: torch.dtype, job: Job) -> torch.Tensor:
    return torch.remainder(torch.arange(count, device=job.device, dtype=torch.int32), SPAN).to(dtype)


ON_CPUS = (
    "all_reduce", "all_reduce_prod", "all_reduce_min", "all_reduce_max", "broadcast", "reduce", "all_gather", "gather",
    "scatter", "send_recv", "batch_send_recv", "at_once", "barrier",
)  # fmt: skip
"""What gloo has, in all versions of torch: without `ops`, they are tried there."""


class Workload:
    """One iteration is one of each of `ops` in each of `dtypes`; without `ops`, of all that the backend has."""

    def __init__(self, job: Job) -> None:
        self._job = job
        names = job.spec.get("ops") or (list(OPS) if job.cuda else list(ON_CPUS))
        unknown = [name for name in names if name not in OPS]
        if unknown:
            raise ValueError(f"no collective {', '.join(unknown)}; there are {', '.join(OPS)}")
        dtypes = [getattr(torch, name) for name in job.spec.get("dtypes") or ["float32"]]
        each = int(job.spec.get("bytes", 1 << 20))
        self._ramps = [_ramp(each // torch.empty(0, dtype=dtype).element_size(), dtype, job) for dtype in dtypes]
        self._ops = [(name, OPS[name]) for name in names]
        self._made: list[tuple[str, Made]] = []
        self.op = "allreduce" if (names, len(dtypes)) == (["all_reduce"], 1) else "collectives"
        self.bytes = each * len(names) * len(dtypes)
        self._corrupt = tuple(map(int, job.given.corrupt.split(":"))) if job.given.corrupt else None

    def prepare(self, index: int) -> None:
        self._made = [(name, op(Inputs(self._job, ramp, index))) for ramp in self._ramps for name, op in self._ops]

    def run(self, index: int) -> None:
        for name, (collective, _pairs) in self._made:
            if index < 0:  # what hangs, hangs the first time: say where
                self._job.finish()
                self._job.say("op", name=name, index=index)
            collective()

    def check(self, index: int) -> Outcome:
        wrong: dict[str, int] = {}
        for name, (_collective, pairs) in self._made:
            for got, expected in pairs():
                if self._corrupt == (self._job.rank, index):
                    got.view(-1)[0] += 1
                    self._corrupt = None
                missed = int((got != expected).sum().item())
                if missed:
                    wrong[name] = wrong.get(name, 0) + missed
        self._made = []
        return Outcome(sum(wrong.values()), {"wrong": wrong} if wrong else {})
