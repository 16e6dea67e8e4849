"""The library that watches any NCCL (r2cc_patches/progress): what a rank's environment needs for it."""

from __future__ import annotations

from pathlib import Path

from harness.workloads.bench import EVENT_FILE

LIBRARY = "libr2cc_progress.so"


def progress_env(library: Path) -> dict[str, str]:
    """Has NCCL load it as its profiler: `comm`, `traffic` and `comm_end` lines come on the rank's stdout.

    For NCCL from 2.23 on; an older one has no profilers. A job has one profiler: this one, then.
    """
    return {"NCCL_PROFILER_PLUGIN": str(library), "R2CC_PROGRESS_FILE": EVENT_FILE}
