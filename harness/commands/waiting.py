"""What a terminal shows while hosts answer: a few lines that are redrawn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.hosts.parallel import Outcome

REDRAWS_PER_S = 8
MOST_NAMES_SHOWN = 8


@contextmanager
def waiting(names: Iterable[str], afterwards: str) -> Iterator[Callable[[Outcome[Any]], None]]:
    """How many have answered, which are waited for, which failed. It yields what hears of each host; `afterwards` is
    what goes on when all have answered."""
    from rich.live import Live
    from rich.text import Text

    left, failed, started = dict.fromkeys(names), list[str](), time.monotonic()
    total = len(left)

    def view() -> Text:
        some = [*left][:MOST_NAMES_SHOWN]
        more = f" and {len(left) - len(some)} more" if len(left) > len(some) else ""
        seconds = time.monotonic() - started
        text = Text(f"{total - len(left)} of {total} hosts answered, {len(failed)} failed ({seconds:.1f} s)\n")
        text.append(f"waiting for {', '.join(some)}{more}\n" if some else f"{afterwards}\n", "dim")
        text.append("".join(f"{name} failed\n" for name in failed[-MOST_NAMES_SHOWN:]), "red")
        return text

    def told(outcome: Outcome[Any]) -> None:
        left.pop(outcome.host, None)
        if outcome.error is not None:
            failed.append(outcome.host)

    with Live(get_renderable=view, refresh_per_second=REDRAWS_PER_S, transient=True):
        yield told
