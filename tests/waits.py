"""How long a test waits for what must come: long enough for a machine that is busy with ten other things.

What goes wrong is seen at the end of it; what goes well takes as long as it takes. It is never the point of a test.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LIMIT_S = 60.0


def until(holds: Callable[[], object], what: str = "", limit_s: float = LIMIT_S) -> None:
    """Fails the test with `what` when it does not hold in time."""
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, what or "it never came"
        time.sleep(0.01)
