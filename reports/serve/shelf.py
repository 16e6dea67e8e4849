"""One store for many requests at once: one connection, one look at the folder a second, and pages kept while nothing
changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from reports.store.store import Store, opened

PATIENCE_S = 1.0
MOST_KEPT = 128
MOST_BYTES = 4 << 20
"""Larger answers are made again."""
Key = tuple[Hashable, ...]
T = TypeVar("T")


class Shelf:
    """Its methods may be called from any thread. Whoever asks while another one's answer is being made waits, and
    finds it made where both ask the same: Python would compute them in turns anyway."""

    def __init__(self, store: Store) -> None:
        self.folder = store.folder
        self._store = store
        self._lock = threading.RLock()
        self._kept: OrderedDict[Key, bytes] = OrderedDict()

    def ask(self, question: Callable[[Store], T]) -> T:
        """What the store says."""
        with self._lock:
            return question(self._store)

    def kept(self, key: Key, make: Callable[[], bytes]) -> bytes:
        """What `make` made of `key` since the store last changed; made now if it was not."""
        with self._lock:
            self._store.refresh()
            whole = (self._store.version, *key)
            found = self._kept.pop(whole, None)
            self._kept[whole] = made = make() if found is None else found
            if len(made) > MOST_BYTES:
                del self._kept[whole]
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
            return made


@contextmanager
def shelf(folder: Path) -> Iterator[Shelf]:
    """UsageError when there is no such folder."""
    with opened(folder, PATIENCE_S) as store:
        yield Shelf(store)
