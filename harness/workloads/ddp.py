"""Training of a small GPT with torch's DistributedDataParallel, the same bit by bit whenever nothing is lost.

Each iteration is a step; its `result` is the loss and a digest of all parameters, to be compared with another run's.
Settings: `layers`, `hidden`, `heads`, `sequence`, `batch` (of a rank), `vocabulary`, `bucket_mb`, `checkpoint_every`
(steps; 0: never) and `checkpoint`, a folder where steps are kept, and gone on from.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from harness.workloads.gpt import Gpt, deterministic, digest, loss_of
from harness.workloads.job import Job, Outcome

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA's libraries start

LEARNING_RATE = 3e-4


class Workload:
    """One step an iteration: forward, backward with DDP's all-reduces, the optimizer."""

    op = "ddp"

    def __init__(self, job: Job) -> None:
        self._job, spec = job, job.spec
        deterministic(job.cuda)
        torch.manual_seed(job.seed)
        shape = {key: int(spec.get(key, usual)) for key, usual in SHAPE.items()}
        self._batch, self._shape = int(spec.get("batch", 4)), shape
        model = Gpt(**shape).to(job.device)
        devices = [job.device.index] if job.cuda else None
        self._ddp = DistributedDataParallel(model, device_ids=devices, bucket_cap_mb=int(spec.get("bucket_mb", 4)))
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
        self.bytes = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
        self._every = int(spec.get("checkpoint_every", 0))
        self._kept = Path(spec["checkpoint"]) / "last.pt" if spec.get("checkpoint") else None
        self.first_index = self._restore()
        self._loss = torch.zeros(())
        self._tokens = torch.zeros(())
        self._corrupt = tuple(map(int, job.given.corrupt.split(":"))) if job.given.corrupt else None

    def prepare(self, index: int) -> None:
        """This rank's tokens of this step, from (seed, rank, step) alone; each token follows from the one before."""
        seed = (self._job.seed * 1_000_003 + index + 1_000) * 1_009 + self._job.rank
        draw = torch.Generator().manual_seed(seed)
        vocabulary, shape = self._shape["vocabulary"], (self._batch, self._shape["sequence"] + 1)
        first = torch.randint(0, vocabulary, (self._batch, 1), generator=draw)
        steps = torch.randint(1, 4, shape, generator=draw).cumsum(1)
        self._tokens = ((first + steps) % vocabulary).to(self._job.device)

    def run(self, index: int) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        self._loss = loss_of(self._ddp(self._tokens[:, :-1]), self._tokens[:, 1:])
        self._loss.backward()
        self._optimizer.step()

    def check(self, index: int) -> Outcome:
        """All ranks must have come to the same parameters."""
        if self._corrupt == (self._job.rank, index):
            word = next(self._ddp.parameters()).data.view(-1).view(torch.int32)
            word[0] ^= 1
        mine = digest(self._ddp.parameters())
        every: list[Any] = [None] * self._job.ranks
        dist.all_gather_object(every, mine)
        loss = float(self._loss.item())
        if self._every and (index + 1) % self._every == 0:
            self._keep(index)
        wrong = sum(other != every[0] for other in every) if self._job.rank == 0 else int(mine != every[0])
        return Outcome(wrong, {"loss": loss, "result": f"{loss.hex()} {mine}"})

    def _keep(self, index: int) -> None:
        """By rank 0, for all: their parameters and moments are the same. The old one stays until the new is whole."""
        if self._kept is not None and self._job.rank == 0:
            state = {
                "next": index + 1,
                "model": self._ddp.module.state_dict(),
                "optimizer": self._optimizer.state_dict(),
            }
            unfinished = self._kept.with_suffix(".new")
            torch.save(state, unfinished)
            unfinished.replace(self._kept)
        self._job.together()

    def _restore(self) -> int | None:
        """The step to go on with; None where nothing was kept."""
        if self._kept is None or not self._kept.is_file():
            return None
        state = torch.load(self._kept, map_location=self._job.device)
        self._ddp.module.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        return int(state["next"])


SHAPE = {"layers": 4, "hidden": 256, "heads": 4, "sequence": 128, "vocabulary": 512}
