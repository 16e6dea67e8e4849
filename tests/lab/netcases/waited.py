"""Whether the machine was late: how long a case's own threads waited for a core, as the kernel counts it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

RUN_DELAY = 1
"""Its column in schedstat: nanoseconds, since the thread began."""


@dataclass
class Waited:
    """Of one process and all its threads that were there when it was looked at."""

    pid: int
    _ns: dict[str, int] = field(default_factory=dict)

    def look(self) -> None:
        for thread in self._threads():
            with suppress(OSError):  # it ends while it is looked at
                said = Path(f"/proc/{self.pid}/task/{thread}/schedstat").read_text().split()
                self._ns[thread] = int(said[RUN_DELAY])

    def _threads(self) -> list[str]:
        """None when it has ended."""
        with suppress(OSError):
            return [path.name for path in Path(f"/proc/{self.pid}/task").iterdir()]
        return []

    @property
    def ms(self) -> float:
        return sum(self._ns.values()) / 1e6


class Late(str):
    """A problem that says nothing of the net: it took too long by less than the case's threads waited for a core."""

    __slots__ = ()


def too_long(what: str, over_ms: float, waited_ms: float) -> str:
    """The problem that something took `over_ms` longer than it may."""
    return Late(f"{what} (the threads waited {waited_ms:.0f} ms for a core)") if over_ms <= waited_ms else what


def only_late(problems: Iterable[str]) -> bool:
    """Whether there are any, and the machine may have made them all."""
    found = list(problems)
    return bool(found) and all(isinstance(problem, Late) for problem in found)
