"""R2CC from Python: run experiments, open their runs, have everything as pandas DataFrames.

    import r2cc

    run = r2cc.run("experiments/nic_down.yaml", arms=["stock", "migrate"])
    run.arm("migrate").stall_ms
    run.iterations().groupby("arm").duration_ms.describe()

Errors are those of the command line. `R2ccError` is the base; `UsageError` is bad input, of which `InputErrors` has
every mistake of one file; `InfraError` says that machines failed, and `RunFailed` is one that has a run. Importing this
imports nothing heavy.
"""

from __future__ import annotations

from harness.errors import InfraError, InputErrors, R2ccError, UsageError
from r2cc.results import Arm, Run, open
from r2cc.running import RunFailed, run
from r2cc.stored import Store, store

__all__ = [
    "Arm",
    "InfraError",
    "InputErrors",
    "R2ccError",
    "Run",
    "RunFailed",
    "Store",
    "UsageError",
    "open",
    "run",
    "store",
]
