"""What nccl_figures.py asks of nccl_rank.py: a series of all-reduces. No torch here: only ranks need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class Phase:
    """`ops` all-reduces of `size` bytes in a row are one iteration; iterations begin for `seconds`."""

    name: str
    size: int
    ops: int
    seconds: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """From NAME:BYTES:OPS:SECONDS. Raises ValueError."""
        name, size, ops, seconds = text.split(":")
        return cls(name, int(size), int(ops), float(seconds))

    @property
    def words(self) -> list[str]:
        return ["--phase", f"{self.name}:{self.size}:{self.ops}:{self.seconds}"]
