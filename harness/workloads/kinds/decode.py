"""Inference with tensor parallelism; what ranks do is in harness/workloads/decode.py."""

from __future__ import annotations

from typing import Literal

from harness.workloads.kinds.workload import Count, GpuWorkload, Small, Small16


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
