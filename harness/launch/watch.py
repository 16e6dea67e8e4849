"""Whether a job moves: judged by its own pace, never by how long it takes in all. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

PATIENCE_S = 30.0
ITERATIONS = 10
KEPT = 1000
STARTING_S = 180.0
"""Until the first sign of progress: libraries are loaded, ranks meet."""


@dataclass
class Watch:
    """`moved` is called when anything begins or ends; `stuck` says for how long nothing did, once that is too long."""

    began_s: float
    starting_s: float = STARTING_S
    patience_s: float = PATIENCE_S
    growing: bool = False
    """What takes longer and longer is judged by the longest so far, else by the median."""
    moved_s: float | None = None
    forgiven_s: float = 0.0
    """Until when nothing that happened is held against the job."""
    paces_s: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))

    def moved(self, now_s: float, pace_s: float | None = None) -> None:
        """`pace_s`: how long what ended now had taken."""
        self.moved_s = now_s
        if pace_s is not None:
            self.paces_s.append(pace_s)

    def forgive(self, now_s: float) -> None:
        """That nothing moved until now has a reason that we know."""
        self.forgiven_s = now_s

    def still_s(self, now_s: float) -> float:
        """For how long nothing has moved, forgiven or not."""
        return now_s - (self.began_s if self.moved_s is None else self.moved_s)

    def allowed_s(self) -> float:
        if self.moved_s is None:
            return self.starting_s
        usual = max if self.growing else median
        pace_s = usual(self.paces_s) if self.paces_s else self.starting_s / ITERATIONS
        return max(self.patience_s, ITERATIONS * pace_s)

    def moves(self, now_s: float) -> bool:
        """Something moved so lately that its pace need not be known: asked for at every line that is read."""
        return self.still_s(now_s) <= min(self.patience_s, self.starting_s)

    def stuck(self, now_s: float) -> str:
        """Empty while all is well."""
        still_s = min(self.still_s(now_s), now_s - self.forgiven_s)
        if self.moves(now_s) or still_s <= self.allowed_s():
            return ""
        what = "no rank began an iteration" if self.moved_s is None else "nothing moved"
        return f"{what} for {still_s:.0f} s"
