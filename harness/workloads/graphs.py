"""CUDA graphs of all-reduces: captured once, replayed every iteration, and captured anew, whatever the NICs do.

An all-reduce of no graph comes right behind each replay. NCCL does the host's part of that one, too, when the GPU comes
to it.

NCCL's part of a graph is its kernels and a host node that hands the operation to the progress thread at every replay;
which NICs carry it is decided below both. Settings: `bytes`, `count` (all-reduces in the graph), `replays` (in a row),
`recapture_every` (replays; 0: never). Every element of every result is checked. The graph must be gone when the process
group goes: NCCL waits for it then. So nobody may keep the workload after its last iteration.
"""

from __future__ import annotations

import inspect

import torch
import torch.distributed as dist

from harness.workloads.job import Job, Outcome

SPAN = 29
MODE = "capture_error_mode"
ONLY_OURS = {MODE: "thread_local"} if MODE in inspect.signature(torch.cuda.graph.__init__).parameters else {}
"""What torch's watchdog and NCCL's threads ask of CUDA meanwhile does not spoil the capture (torch 2.1 and later)."""


class Workload:
    """One iteration is some replays in a row, with an all-reduce behind each."""

    op = "graphs"

    def __init__(self, job: Job) -> None:
        if not job.cuda:
            raise ValueError("CUDA graphs need a GPU")
        self._job = job
        size, count = int(job.spec.get("bytes", 4 << 20)), int(job.spec.get("count", 8))
        self._every = int(job.spec.get("recapture_every", 0))
        self._replays = int(job.spec.get("replays", 1))
        self.bytes = size * (count + 1) * self._replays
        ramp = torch.arange(size // 4, device=job.device, dtype=torch.int32)
        self._ramps = [torch.remainder(ramp + part, SPAN).float() for part in range(count)]
        self._sources = [torch.empty_like(ramp) for ramp in self._ramps]
        self._results = [torch.empty_like(ramp) for ramp in self._ramps]
        self._behind = torch.empty_like(ramp, dtype=torch.float32)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._captured = 0
        self._replayed_since = 0
        self._corrupt = tuple(map(int, job.given.corrupt.split(":"))) if job.given.corrupt else None
        self._side = torch.cuda.Stream()
        self._connect()

    def _connect(self) -> None:
        """What cannot be captured: NCCL makes its connections when they are first needed."""
        self._side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._side):
            self._reduce_all()
        self._side.synchronize()

    def _reduce_all(self) -> None:
        """From a source each time: what a replay left behind is not summed again."""
        for result, source in zip(self._results, self._sources):  # noqa: B905
            result.copy_(source)
            dist.all_reduce(result)

    def _capture(self) -> None:
        """The old graph goes first: NCCL keeps what a graph needs as long as there is the graph."""
        self._graph = None
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._side, **ONLY_OURS):
            self._reduce_all()
        self._graph = graph
        self._captured += 1
        self._replayed_since = 0

    def prepare(self, index: int) -> None:
        if self._graph is None or (self._every and self._replayed_since >= self._every):
            self._capture()
        for source, ramp in zip(self._sources, self._ramps):  # noqa: B905
            torch.add(ramp, self._job.rank + index % SPAN, out=source)
        for result in self._results:
            result.fill_(-1)
        torch.add(self._ramps[-1], self._job.rank + index % SPAN, out=self._behind)

    def run(self, index: int) -> None:
        assert self._graph is not None
        for _ in range(self._replays):
            self._graph.replay()
            dist.all_reduce(self._behind)
        self._replayed_since += self._replays

    def check(self, index: int) -> Outcome:
        ranks = self._job.ranks
        added = sum(range(ranks)) + ranks * (index % SPAN)
        if self._corrupt == (self._job.rank, index):
            self._results[0].view(-1)[0] += 1
        wrong = sum(int((got != ramp * ranks + added).sum().item()) for got, ramp in zip(self._results, self._ramps))  # noqa: B905
        again = ranks ** (self._replays - 1)  # it sums what it summed before
        wrong += int((self._behind != (self._ramps[-1] * ranks + added) * again).sum().item())
        return Outcome(wrong, {"captured": self._captured})
