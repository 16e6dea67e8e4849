"""Where a fault struck, by the lines of a run's journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def assert_struck_in(lines: Sequence[dict[str, Any]], earliest: int, index: int) -> None:
    """By the lines of one run it struck not before iteration `earliest` had begun, and while `index` was under way.

    A controller that waits for a core is late; it never is early.
    """
    (struck,) = [line for line in lines if line["event"] == "fault" and line["phase"] == "injected"]
    spans = [(line["index"], line["start_ns"], line["end_ns"]) for line in lines if line["event"] == "iteration"]
    begun = {at: min(start for each, start, _ in spans if each == at) for at in (earliest, index)}
    ended = max(end for each, _, end in spans if each == index)
    assert index >= earliest and begun[earliest] < struck["before_ns"]
    assert begun[index] <= struck["after_ns"] and struck["before_ns"] <= ended
