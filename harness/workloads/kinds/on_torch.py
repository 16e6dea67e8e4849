"""Workloads on torch, one class each: their settings. What ranks do is in harness/workloads/KIND.py."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictInt, StrictStr

from harness.workloads.kinds.workload import MIB, Bytes, Count, GpuWorkload, Seconds, Small, Small16, Type, Workload


class Collectives(GpuWorkload):
    """Collectives through torch, all elements checked."""

    about = "Collectives through torch, all elements checked, one line an iteration."
    kind: Literal["collectives"]
    bytes: Bytes = MIB
    """Of each rank's contribution to each collective."""
    ops: tuple[StrictStr, ...] = ()
    """None: all that there are."""
    dtypes: tuple[Type, ...] = ("float32",)


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


class Decode(GpuWorkload):
    """Inference with tensor parallelism: an iteration is a batch of requests, prefill and all tokens."""

    about = "Inference with tensor parallelism: time to first token, time per token."
    kind: Literal["decode"]
    layers: Small = 8
    hidden: Small16 = 1024
    heads: Small = 16
    vocabulary: Count = 4096
    batch: Small = 8
    prompt: Small16 = 256
    tokens: Small16 = 64
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"


class Graphs(GpuWorkload):
    """CUDA graphs of all-reduces: an iteration is `replays` in a row, each with an all-reduce of no graph behind it."""

    about = "CUDA graphs of all-reduces, replayed and captured anew."
    kind: Literal["graphs"]
    bytes: Bytes = 4 * MIB
    count: Small = 8
    replays: Annotated[StrictInt, Field(ge=1, le=8)] = 1
    recapture_every: Annotated[StrictInt, Field(ge=0, le=1_000_000)] = 0
    """Replays; 0: never."""


class Lifecycle(GpuWorkload):
    """Communicators made, used and ended in every way; an iteration is one pass over all cases."""

    about = "Communicators made, used and ended in every way."
    kind: Literal["lifecycle"]
    cases: tuple[StrictStr, ...] = ()
    """None: all that there are."""
    limit_s: Seconds = 30.0
    """Of a case."""
    bytes: Bytes = 4 * MIB
    comms: Small = 4


class Megatron(GpuWorkload):
    """Training of a GPT with Megatron-core; ranks that tensor and pipeline parallelism leave are replicas."""

    about = "Training of a GPT with Megatron-core."
    kind: Literal["megatron"]
    tp: Small = 1
    pp: Small = 1
    layers: Small = 8
    hidden: Small16 = 1024
    heads: Small = 16
    sequence: Small16 = 512
    vocabulary: Count = 8192
    micro_batch: Small = 2
    micro_batches: Small = 2
    """Of a step."""
    dtype: Literal["float32", "bfloat16"] = "float32"
