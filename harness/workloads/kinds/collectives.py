"""Collectives through torch; what ranks do is in harness/workloads/collectives.py."""

from __future__ import annotations

from typing import Literal

from pydantic import StrictStr

from harness.workloads.kinds.workload import MIB, Bytes, GpuWorkload, Type


class Collectives(GpuWorkload):
    """Collectives through torch, all elements checked."""

    about = "Collectives through torch, all elements checked, one line an iteration."
    kind: Literal["collectives"]
    bytes: Bytes = MIB
    """Of each rank's contribution to each collective."""
    ops: tuple[StrictStr, ...] = ()
    """None: all that there are."""
    dtypes: tuple[Type, ...] = ("float32",)
