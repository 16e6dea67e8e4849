"""Training of a small GPT with torch's DistributedDataParallel, the same bit by bit whenever nothing is lost.

Each iteration is a step; its `result` is the loss and a digest of all parameters, to be compared with another run's.
Settings: `layers`, `hidden`, `heads`, `sequence`, `batch` (of a rank), `vocabulary`, `bucket_mb`, `checkpoint_every`
(steps; 0: never) and `checkpoint`, a folder that all ranks share, where steps are kept and gone on from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from harness.workloads import gpt
from harness.workloads.job import Job, Outcome

SHAPE = {"layers": 4, "hidden": 256, "heads": 4, "sequence": 128, "vocabulary": 512}
USUAL = {**SHAPE, "batch": 4, "bucket_mb": 4}
LEARNING_RATE = 3e-4


class Workload:
    """One step an iteration: forward, backward with DDP's all-reduces, the optimizer."""

    op = "ddp"

    def __init__(self, job: Job) -> None:
        self._job = job
        self._asked = gpt.settings(job.spec, USUAL)
        self._every = job.spec.get("checkpoint_every", 0)
        self._kept = Path(job.spec["checkpoint"]) / "last.pt" if job.spec.get("checkpoint") else None
        self._corrupt = gpt.corruption(job)
        gpt.deterministic()
        torch.manual_seed(job.seed)
        model = gpt.Gpt(**{name: self._asked[name] for name in SHAPE}).to(job.device)
        devices = [job.device.index] if job.cuda else None
        self._ddp = DistributedDataParallel(model, device_ids=devices, bucket_cap_mb=self._asked["bucket_mb"])
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
        self.bytes = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
        self._settle()
        self.first_index = self._restore()

    def _settle(self) -> None:
        """DDP regroups its buckets after the first step of a process, and then adds up in another order: have it done,
        so that a training that goes on from a checkpoint adds up as one without a break does."""
        self.prepare(0)
        self._backward()

    def prepare(self, index: int) -> None:
        shape = (self._asked["batch"], self._asked["sequence"] + 1)
        drawn = gpt.tokens_of(self._job.seed, self._job.rank, index, shape, self._asked["vocabulary"])
        self._tokens = drawn.to(self._job.device)

    def run(self, index: int) -> None:
        self._backward()
        self._optimizer.step()

    def _backward(self) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        self._loss = gpt.loss_of(self._ddp(self._tokens[:, :-1]), self._tokens[:, 1:])
        self._loss.backward()

    def check(self, index: int) -> Outcome:
        """All ranks must have come to rank 0's parameters."""
        if self._corrupt == (self._job.rank, index):
            gpt.flip(next(self._ddp.parameters()))
        mine = gpt.digest(self._ddp.parameters())
        wrong = int(mine != gpt.told(self._job, index, mine)[0])
        if self._kept is not None and self._every and (index + 1) % self._every == 0:
            self._keep(self._kept, index)
        loss = float(self._loss.item())
        return Outcome(wrong, {"loss": loss, "result": f"{loss.hex()} {mine}"})

    def _keep(self, kept: Path, index: int) -> None:
        """By rank 0, for all: their parameters and moments are the same. The old one stays until the new is whole."""
        if self._job.rank == 0:
            kept.parent.mkdir(parents=True, exist_ok=True)
            unfinished = kept.with_suffix(".new")
            model, optimizer = self._ddp.module.state_dict(), self._optimizer.state_dict()
            state = {"next": index + 1, "asked": self._settings(), "model": model, "optimizer": optimizer}
            torch.save(state, unfinished)
            unfinished.replace(kept)
        self._job.together()

    def _restore(self) -> int | None:
        """The step to go on with; None where nothing was kept. Raises ValueError where that was another training."""
        state: dict[str, Any] = {"next": None}
        if self._kept is not None and self._kept.is_file():
            state = torch.load(self._kept, map_location="cpu")
            if state["asked"] != self._settings():
                raise ValueError(f"{self._kept} is of other settings: {state['asked']}, not {self._settings()}")
            self._ddp.module.load_state_dict(state["model"])
            self._optimizer.load_state_dict(state["optimizer"])
        found = gpt.told(self._job, "restored", str(state["next"]))
        if len(set(found)) > 1:
            raise ValueError(f"ranks found different checkpoints in {self._kept}: {', '.join(found)}")
        return state["next"]

    def _settings(self) -> dict[str, int]:
        """All that the numbers depend on."""
        return {**self._asked, "seed": self._job.seed, "ranks": self._job.ranks}
