"""Whether a job moves: judged by its own pace, never by how long it takes in all. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

PATIENCE_S = 30.0
ITERATIONS = 10
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
    paces_s: list[float] = field(default_factory=list)

    def moved(self, now_s: float, pace_s: float | None = None) -> None:
        """`pace_s`: how long what ended now had taken."""
        self.moved_s = now_s
        if pace_s is not None:
            self.paces_s.append(pace_s)

    def allowed_s(self) -> float:
        if self.moved_s is None:
            return self.starting_s
        usual = max if self.growing else median
        pace_s = usual(self.paces_s) if self.paces_s else self.starting_s / ITERATIONS
        return max(self.patience_s, ITERATIONS * pace_s)

    def stuck(self, now_s: float) -> str:
        """Empty while all is well."""
        since_s = self.began_s if self.moved_s is None else self.moved_s
        if now_s - since_s <= self.allowed_s():
            return ""
        what = "no rank began an iteration" if self.moved_s is None else "nothing moved"
        return f"{what} for {now_s - since_s:.0f} s"
