"""Reads the sample lines of a journal: nearly all of a long one, so they are read many at a time and never kept.

Lines that the journal's writer made begin alike, and without their digits thousands of them are equal. One is read as
JSON, to learn which NICs they are about; the numbers of all the others become columns at once. A line that is odd in
any way is read as JSON by itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reports.reading.counters import Counters, Sample
from reports.reading.trace import NicId

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

Json = dict[str, Any]
OUTSIDE = "-"
"""The arm of lines that belong to none."""
TAIL = b',"t_ns":'
EVENT = b',"event":"sample",'
EVENT_WITHIN = len(TAIL) + 20 + len(EVENT)
"""How far from the beginning of a tail its event must have ended."""
HEAD = re.compile(rb'\{"schema":1,"host":"([ -!#-\[\]-~]+)","arm":"([ -!#-\[\]-~]+)","run":(\d{1,9})')
NAME = re.compile(r"[ -!#-\[\]-~]+")
DIGITS = b"0123456789"
TO_SPACES = bytes(byte if byte in DIGITS else 0x20 for byte in range(256))
AT_ONCE = 8192
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""What a line raises that lacks a field, or has what is none."""


@dataclass(frozen=True)
class Layout:
    """Where the numbers of a line stand, its time being the first: digits of names, which are always the same, and the
    counters of each NIC, sent and then received."""

    nics: list[NicId]
    named: list[tuple[int, int]]
    sent: list[int]
    width: int


@dataclass
class Pending:
    """Lines of one host in one repeat of one arm that wait to be read together, without what they all begin with."""

    head: bytes
    host: str
    key: tuple[str, int]
    tails: list[bytes] = field(default_factory=list)
    usual: bytes = b""
    """What nearly all lines are without their digits."""
    layouts: dict[bytes, list[Layout]] = field(default_factory=dict)
    patterns: dict[str, str] = field(default_factory=dict)
    """Of each NIC's letters, where the digits stand among them."""


class Samples:
    """Takes lines of a journal and keeps the counters of its sample lines."""

    def __init__(self) -> None:
        self.by_run: dict[tuple[str, int], dict[NicId, Counters]] = {}
        self.odd: list[bytes] = []
        """Lines that were taken and are none after all; to be read as any other."""
        self._pending: dict[bytes, Pending | None] = {}

    def take(self, raw: bytes) -> bool:
        """True when `raw` looks like a sample line; the caller reads it if not."""
        cut = raw.find(TAIL)
        if cut < 0 or raw.find(EVENT, cut, cut + EVENT_WITHIN) < 0 or raw[-1:] != b"\n":
            return False
        head = raw[:cut]
        pending = self._pending[head] if head in self._pending else self._begin(head)
        if pending is None:
            return False
        pending.tails.append(raw[cut:])
        if len(pending.tails) >= AT_ONCE:
            self._read(pending)
        return True

    def add(self, line: Json) -> None:
        """One parsed line. UNREADABLE for one that lacks a field."""
        nics = [
            (NicId(str(line["host"]), str(nic)), int(counters["tx_bytes"]), int(counters["rx_bytes"]))
            for nic, counters in line["nics"].items()
        ]
        key, t_ns = (str(line["arm"]), int(line["run"])), int(line["t_ns"])
        for nic, sent, received in nics:
            self._of(key, nic).add(Sample(t_ns, sent, received))

    def finish(self) -> None:
        """Read what still waits."""
        for pending in self._pending.values():
            if pending is not None:
                self._read(pending)

    def ends(self) -> Iterator[Json]:
        """Two lines for each NIC, its first and last sample: bytes of a whole run need no more."""
        for (arm, run), nics in self.by_run.items():
            for nic, counters in nics.items():
                for sample in counters.ends():
                    moved = {"tx_bytes": sample.tx_bytes, "rx_bytes": sample.rx_bytes}
                    about = {"schema": 1, "host": nic.host, "arm": arm, "run": run, "t_ns": sample.t_ns}
                    yield {**about, "event": "sample", "nics": {nic.nic: moved}}

    def _begin(self, head: bytes) -> Pending | None:
        """None for lines that another writer made, or that belong to no arm."""
        found = HEAD.fullmatch(head)
        known = None
        if found is not None and found[2].decode() != OUTSIDE:
            known = Pending(head, found[1].decode(), (found[2].decode(), int(found[3])))
        self._pending[head] = known
        return known

    def _of(self, key: tuple[str, int], nic: NicId) -> Counters:
        nics = self.by_run.setdefault(key, {})
        if nic not in nics:
            nics[nic] = Counters()
        return nics[nic]

    def _read(self, pending: Pending) -> None:
        """Lines that are alike without their digits, together; of those nothing can be learned of, each by itself."""
        tails, pending.tails = pending.tails, []
        if not tails:
            return
        text = b"".join(tails)
        bare = text.translate(None, DIGITS)
        if pending.usual and bare == pending.usual * len(tails):
            self._read_alike(pending, pending.usual, tails, text)
            return
        alike: dict[bytes, list[bytes]] = {}
        for tail, each in zip(tails, bare.split(b"\n"), strict=False):
            alike.setdefault(each + b"\n", []).append(tail)
        pending.usual = max(alike, key=lambda each: len(alike[each]))
        for each, some in alike.items():
            self._read_alike(pending, each, some, b"".join(some))

    def _read_alike(self, pending: Pending, bare: bytes, tails: Sequence[bytes], text: bytes) -> None:
        import numpy as np

        layouts = pending.layouts.setdefault(bare, [])
        layouts = layouts or _learn(pending, bare, tails[0])
        numbers = np.fromstring(text.translate(TO_SPACES), dtype=np.int64, sep=" ")
        too_large = numbers.max() == np.iinfo(np.int64).max
        if not layouts or too_large or len(numbers) != layouts[0].width * len(tails):
            for tail in tails:
                self._read_one(pending.head + tail)
            return
        rows = numbers.reshape(len(tails), -1)
        left = np.arange(len(tails))
        while len(left):
            for layout in layouts:
                left = self._place(pending, layout, rows, left)
            if len(left):
                tail, left = tails[left[0]], left[1:]
                layouts = _learn(pending, bare, tail)[-1:]
                self._read_one(pending.head + tail)

    def _place(self, pending: Pending, layout: Layout, rows: NDArray[int64], left: NDArray[int64]) -> NDArray[int64]:
        """Keeps the counters of those rows that are about the layout's NICs; the others."""
        import numpy as np

        mine = rows[left] if len(left) < len(rows) else rows
        fits = np.ones(len(left), bool)
        for column, digits in layout.named:
            fits &= mine[:, column] == digits
        if not fits.all():
            mine = mine[fits]
        for nic, column in zip(layout.nics, layout.sent, strict=True):
            self._of(pending.key, nic).extend(mine[:, 0], mine[:, column], mine[:, column + 1])
        return left[~fits]

    def _read_one(self, raw: bytes) -> None:
        try:
            self.add(json.loads(raw))
        except UNREADABLE:
            self.odd.append(raw)


def _learn(pending: Pending, bare: bytes, tail: bytes) -> list[Layout]:
    """The layouts that are known of lines as `tail`, which is read for one more; none for a line that cannot be read
    by its numbers alone."""
    layouts = pending.layouts[bare]
    try:
        line = json.loads(pending.head + tail)
        names, usable = list(line["nics"]), tail == _tail(line["t_ns"], line["nics"])
    except UNREADABLE:
        return layouts
    if usable and all(_plain(pending.patterns, name) for name in names):
        layouts.append(_layout(pending.host, names))
    return layouts


def _tail(t_ns: int, nics: Mapping[str, Mapping[str, int]]) -> bytes:
    """As the journal's writer makes it."""
    each = [f'"{name}":{{"tx_bytes":{c["tx_bytes"]},"rx_bytes":{c["rx_bytes"]}}}' for name, c in nics.items()]
    return f',"t_ns":{t_ns},"event":"sample","nics":{{{",".join(each)}}}}}\n'.encode()


def _plain(patterns: dict[str, str], name: str) -> bool:
    """True for a NIC that no other of its host is like but for digits which stand elsewhere."""
    digits = re.findall(r"\d+", name)
    pattern = re.sub(r"\d+", "0", name)
    clear = all(text == str(int(text)) and len(text) < 10 for text in digits)
    return (
        clear and NAME.fullmatch(name) is not None and patterns.setdefault(re.sub(r"\d", "", name), pattern) == pattern
    )


def _layout(host: str, names: Sequence[str]) -> Layout:
    named: list[tuple[int, int]] = []
    sent: list[int] = []
    width = 1
    for name in names:
        digits = [int(text) for text in re.findall(r"\d+", name)]
        named += [(width + place, value) for place, value in enumerate(digits)]
        width += len(digits) + 2
        sent.append(width - 2)
    return Layout([NicId(host, name) for name in names], named, sent, width)
