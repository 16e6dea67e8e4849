"""Training with torch's DistributedDataParallel; what ranks do is in harness/workloads/ddp.py."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictInt, StrictStr

from harness.workloads.kinds.workload import Count, GpuWorkload, Small, Small16, Workload


class Ddp(GpuWorkload):
    """Training of a small GPT with torch's DistributedDataParallel."""

    about = "Training of a small GPT with torch's DistributedDataParallel."
    kind: Literal["ddp"]
    layers: Small = 4
    hidden: Small16 = 256
    heads: Small = 4
    sequence: Small16 = 128
    vocabulary: Count = 512
    batch: Small = 4
    """Sequences of a rank."""
    bucket_mb: Small = 4
    checkpoint_every: Annotated[StrictInt, Field(ge=0, le=1_000_000)] = 0
    """Steps; the arm `restart` goes on from the last one kept. 0: never."""

    @classmethod
    def outside(cls) -> type[Workload]:
        return DdpOutside


class DdpOutside(Ddp):
    """Outside of an experiment the user says where checkpoints lie."""

    checkpoint: Annotated[StrictStr, Field(min_length=1)] | None = None
