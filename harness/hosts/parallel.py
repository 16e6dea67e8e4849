"""The same work on all hosts at once. One that fails, or hangs until its limit, hides nothing of the others."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from harness.errors import InfraError, R2ccError

MOST_AT_ONCE = 128

Value = TypeVar("Value")


@dataclass(frozen=True)
class Outcome(Generic[Value]):
    """What came of one host's work: a value or an error."""

    host: str
    value: Value | None
    error: R2ccError | None
    elapsed_s: float

    @property
    def why(self) -> str:
        """The error, for a line that begins with the host: without its name."""
        return str(self.error).removeprefix(f"{self.host}: ")


def on_all(
    work: Mapping[str, Callable[[], Value]], told: Callable[[Outcome[Value]], None] = lambda _outcome: None
) -> dict[str, Outcome[Value]]:
    """Outcomes in the order of `work`; `told` hears of each as it comes, in the caller's thread.

    The work must end by itself: it is bounded by its own limits. When the caller is interrupted nothing is waited for.
    """
    todo: queue.SimpleQueue[tuple[str, Callable[[], Value]]] = queue.SimpleQueue()
    done: queue.SimpleQueue[Outcome[Value]] = queue.SimpleQueue()
    for item in work.items():
        todo.put(item)
    for number in range(min(len(work), MOST_AT_ONCE)):
        threading.Thread(target=_worker, args=(todo, done), name=f"host worker {number}", daemon=True).start()
    found: dict[str, Outcome[Value]] = {}
    for _ in work:
        outcome = done.get()
        found[outcome.host] = outcome
        told(outcome)
    return {host: found[host] for host in work}


def all_of(work: Mapping[str, Callable[[], Value]], hint: str | None = None) -> dict[str, Value]:
    """What came of it on every host. InfraError naming all hosts on which it failed."""
    outcomes = on_all(work).values()
    errors = [str(outcome.error) for outcome in outcomes if outcome.error is not None]
    if errors:
        raise InfraError("\n".join(dict.fromkeys(errors)), hint)
    return {outcome.host: outcome.value for outcome in outcomes if outcome.value is not None}


def _worker(todo: queue.SimpleQueue[tuple[str, Callable[[], Value]]], done: queue.SimpleQueue[Outcome[Value]]) -> None:
    while True:
        try:
            host, call = todo.get_nowait()
        except queue.Empty:
            return
        done.put(_outcome(host, call))


def _outcome(host: str, call: Callable[[], Value]) -> Outcome[Value]:
    started = time.monotonic()
    try:
        value, error = call(), None
    except R2ccError as known:
        value, error = None, known
    except Exception as unknown:  # noqa: BLE001 - a mistake of ours on one host must not hide the others' results
        value, error = (
            None,
            InfraError(f"{host}: internal error, please report it: {type(unknown).__name__}: {unknown}"),
        )
    return Outcome(host, value, error, time.monotonic() - started)
