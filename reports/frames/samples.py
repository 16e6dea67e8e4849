"""What NICs and GPUs did over time, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.reading.gpus import FIELDS
from reports.reading.rundir import RunDir

if TYPE_CHECKING:
    from pandas import DataFrame

NIC = ("arm", "repeat", "host", "nic", "time_s", "tx_bytes", "rx_bytes")
GPU_NAMES = {"sm": "sm_ratio", "busy": "busy_ratio", "memory_busy": "memory_busy_ratio"} | {
    "sm_mhz": "sm_MHz",
    "memory_mhz": "memory_MHz",
}
GPU = ("arm", "repeat", "host", "gpu", "time_s", *(GPU_NAMES.get(name, name) for name in FIELDS))


def nics(run: RunDir) -> DataFrame:
    """One row a sample of a NIC. `time_s` as in `iterations`; the byte counters only grow, unless a NIC was made anew.

    A row is written when a counter has changed: between two rows it stood still, or grew evenly for at most 25 ms.
    """
    import pandas as pd

    parts = []
    for trace in run.traces:
        origin_ns = trace.origin_ns()
        for nic, counters in sorted(trace.samples.items()):
            found = counters.columns()
            about = {"arm": trace.arm, "repeat": trace.run, "host": nic.host, "nic": nic.nic}
            values = {"time_s": (found.t_ns - origin_ns) / 1e9, "tx_bytes": found.tx_bytes, "rx_bytes": found.rx_bytes}
            parts.append(pd.DataFrame({**about, **values}))
    return _joined(parts, NIC)


def gpus(run: RunDir) -> DataFrame:
    """One row a sample of a GPU; what it does not measure is NaN. The columns that end in `tx_bytes` and `rx_bytes` are
    counters, `sm_ratio` is the share of its multiprocessors at work, `busy_ratio` that of the time in which a kernel
    ran, even if it only waited."""
    import pandas as pd

    parts = []
    for trace in run.traces:
        origin_ns = trace.origin_ns()
        for gpu, load in sorted(trace.gpus.items()):
            about = {"arm": trace.arm, "repeat": trace.run, "host": gpu.host, "gpu": gpu.gpu}
            values = {GPU_NAMES.get(name, name): column for name, column in load.columns().items()}
            parts.append(pd.DataFrame({**about, "time_s": (load.t_ns() - origin_ns) / 1e9, **values}))
    return _joined(parts, GPU)


def _joined(parts: Sequence[DataFrame], columns: Sequence[str]) -> DataFrame:
    """With the columns, and numbers where they belong, also of a run that has none."""
    import pandas as pd

    if parts:
        return pd.concat(parts, ignore_index=True)
    numbers = [name for name in columns if name not in ("arm", "host", "nic")]
    return pd.DataFrame(columns=list(columns)).astype(dict.fromkeys(numbers, "float64"))
