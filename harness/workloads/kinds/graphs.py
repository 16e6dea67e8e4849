"""CUDA graphs; what ranks do is in harness/workloads/graphs.py."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictInt

from harness.workloads.kinds.workload import MIB, Bytes, GpuWorkload, Small


class Graphs(GpuWorkload):
    """CUDA graphs of all-reduces: an iteration is a replay."""

    about = "CUDA graphs of all-reduces, replayed and captured anew."
    kind: Literal["graphs"]
    bytes: Bytes = 4 * MIB
    count: Small = 8
    recapture_every: Annotated[StrictInt, Field(ge=0, le=1_000_000)] = 0
    """Iterations; 0: never."""
