"""The byte counters of a NIC over time, as columns: 24 bytes a sample, so that an hour of many NICs fits in memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Sample:
    """The byte counters of a NIC at one moment. They only grow, unless the NIC was re-created."""

    t_ns: int
    tx_bytes: int
    rx_bytes: int


@dataclass(frozen=True)
class Columns:
    """All samples in the order of time, no two at the same moment."""

    t_ns: NDArray[int64]
    tx_bytes: NDArray[int64]
    rx_bytes: NDArray[int64]


class Counters:
    """Samples of one NIC, added one by one or many at once."""

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self._blocks: list[NDArray[int64]] = []
        self._rows = array("q")
        self._found: Columns | None = None
        for sample in samples:
            self.add(sample)

    def __len__(self) -> int:
        return len(self._rows) // 3 + sum(int(block.shape[1]) for block in self._blocks)

    def add(self, sample: Sample) -> None:
        """OverflowError for what no 64-bit counter holds."""
        self._found = None
        self._rows.extend(array("q", (sample.t_ns, sample.tx_bytes, sample.rx_bytes)))

    def extend(self, t_ns: NDArray[int64], tx_bytes: NDArray[int64], rx_bytes: NDArray[int64]) -> None:
        """Many samples, a column each."""
        import numpy as np

        self._found = None
        self._blocks.append(np.stack((t_ns, tx_bytes, rx_bytes)))

    def columns(self) -> Columns:
        """Of samples of one moment the last one counts. Put in order once, however often they are asked for."""
        if self._found is None:
            self._blocks = [_in_order(self._whole())]
            self._found = Columns(*self._blocks[0])
        return self._found

    def _whole(self) -> NDArray[int64]:
        import numpy as np

        if self._rows:
            self._blocks.append(np.frombuffer(self._rows, np.int64).reshape(-1, 3).T.copy())
            self._rows = array("q")
        if len(self._blocks) == 1:
            return self._blocks[0]
        return np.concatenate(self._blocks, axis=1) if self._blocks else np.empty((3, 0), np.int64)

    def ends(self) -> Sequence[Sample]:
        """The first sample and the last; none when there is none."""
        found = self.columns()
        rows = (found.t_ns, found.tx_bytes, found.rx_bytes)
        return [Sample(*(int(row[at]) for row in rows)) for at in (0, -1)] if len(found.t_ns) else []


def _in_order(block: NDArray[int64]) -> NDArray[int64]:
    import numpy as np

    steps = np.diff(block[0])
    if (steps > 0).all():
        return block
    block = block[:, np.argsort(block[0], kind="stable")]
    last = np.append(np.diff(block[0]) > 0, True)
    return block[:, last]
