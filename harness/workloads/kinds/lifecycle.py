"""Communicators from first to last; what ranks do is in harness/workloads/lifecycle.py."""

from __future__ import annotations

from typing import Literal

from pydantic import StrictStr

from harness.workloads.kinds.workload import MIB, Bytes, GpuWorkload, Seconds, Small


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
