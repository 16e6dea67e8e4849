"""Training with Megatron-core; what ranks do is in harness/workloads/megatron.py."""

from __future__ import annotations

from typing import Literal

from harness.workloads.kinds.workload import Count, GpuWorkload, Small, Small16


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
