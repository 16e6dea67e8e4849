"""The load of a GPU over time, as columns: few bytes a sample, so that an hour of many GPUs fits in memory."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.typing import NDArray

FIELDS = (
    "sm",
    "busy",
    "memory_busy",
    "used_bytes",
    "sm_mhz",
    "memory_mhz",
    "nvlink_tx_bytes",
    "nvlink_rx_bytes",
    "pcie_tx_bytes",
    "pcie_rx_bytes",
)
"""Of a line `gpu` (docs/reference/contracts.md)."""
MISSING = float("nan")


class GpuLoad:
    """Samples of one GPU, in the order of the journal."""

    def __init__(self) -> None:
        self._t_ns = array("q")
        self._rows = array("d")

    def __len__(self) -> int:
        return len(self._t_ns)

    def add(self, line: Mapping[str, Any]) -> None:
        """One line of the journal; what this GPU does not measure is NaN."""
        row = array("d", (float(line.get(name, MISSING)) for name in FIELDS))
        self._t_ns.append(int(line["t_ns"]))
        self._rows.extend(row)

    def t_ns(self) -> NDArray[int64]:
        """When each was taken."""
        import numpy as np

        return np.array(self._t_ns, np.int64)

    def columns(self) -> dict[str, NDArray[float64]]:
        """Each of FIELDS over time."""
        import numpy as np

        rows = np.array(self._rows, float).reshape(-1, len(FIELDS))
        return {name: rows[:, place] for place, name in enumerate(FIELDS)}

    def measures_sm(self) -> bool:
        """Whether its multiprocessors are measured: on Hopper and later."""
        import numpy as np

        return not np.isnan(self.columns()["sm"]).all()

    def activity(self) -> NDArray[float64]:
        """The share of the GPU that worked: of its multiprocessors where they are measured, else of the time."""
        import numpy as np

        found = self.columns()
        return np.where(np.isnan(found["sm"]), found["busy"], found["sm"])
