"""Reads the sample lines of a journal: nearly all of a long one, so they are read many at a time and never kept.

A line exactly as the journal's writer makes it is only cut in two; the counters of thousands of such lines become
numbers at once. Every other line, and every one of those that turns out to be odd, is read as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reports.counters import Counters, Sample
from reports.trace import NicId

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

Json = dict[str, Any]
OUTSIDE = "-"
"""The arm of lines that belong to none."""
HEAD = re.compile(
    rb'(\{"schema":1,"host":"([ -!#-\[\]-~]+)","arm":"([ -!#-\[\]-~]+)","run":(\d{1,9})),"t_ns":(\d{1,18}),'
    rb'"event":"sample","nics":\{'
)
NAME = re.compile(rb'"([ -!#-\[\]-~]+)":\{"tx_bytes":')
MIDDLE = b',"t_ns":%s,"event":"sample","nics":{'
SHAPE = re.compile(rb"(?:[\x80-\xff] \},)*[\x80-\xff] \}\}\}")
"""A line of known NICs without its digits, each NIC's name a byte that no ASCII text has."""
MOST_NAMES = 128
DIGITS = b"0123456789"
TO_SPACES = bytes(byte if byte in DIGITS else 0x20 for byte in range(256))
AT_ONCE = 8192


@dataclass
class Pending:
    """Lines of one host in one repeat of one arm that wait to be read together."""

    head: bytes
    host: str
    arm: str
    run: int
    names: list[bytes] = field(default_factory=list)
    times: list[bytes] = field(default_factory=list)
    tails: list[bytes] = field(default_factory=list)


class Samples:
    """Takes lines of a journal and keeps the counters of its sample lines."""

    def __init__(self) -> None:
        self.by_run: dict[tuple[str, int], dict[NicId, Counters]] = {}
        self._pending: dict[bytes, Pending] = {}
        self.odd: list[bytes] = []
        """Lines that were taken and are none after all; to be read as any other."""

    def take(self, raw: bytes) -> bool:
        """True when `raw` looks like a sample line; the caller reads it if not."""
        found = HEAD.match(raw)
        if found is None or raw[-4:] != b"}}}\n":
            return False
        head, host, arm, run, t_ns = found.groups()
        pending = self._pending.get(head)
        if pending is None:
            pending = self._pending[head] = Pending(head, host.decode(), arm.decode(), int(run))
        pending.times.append(t_ns)
        pending.tails.append(raw[found.end() :])
        if len(pending.times) >= AT_ONCE:
            self._read(pending)
        return True

    def add(self, line: Json) -> None:
        """One parsed line. KeyError, TypeError, ValueError, AttributeError for one that lacks a field."""
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
            self._read(pending)

    def ends(self) -> Iterator[Json]:
        """Two lines for each NIC, its first and last sample: bytes of a whole run need no more."""
        for (arm, run), nics in self.by_run.items():
            for nic, counters in nics.items():
                for sample in counters.ends():
                    moved = {"tx_bytes": sample.tx_bytes, "rx_bytes": sample.rx_bytes}
                    about = {"schema": 1, "host": nic.host, "arm": arm, "run": run, "t_ns": sample.t_ns}
                    yield {**about, "event": "sample", "nics": {nic.nic: moved}}

    def _of(self, key: tuple[str, int], nic: NicId) -> Counters:
        nics = self.by_run.setdefault(key, {})
        if nic not in nics:
            nics[nic] = Counters()
        return nics[nic]

    def _read(self, pending: Pending) -> None:
        times, tails = pending.times, pending.tails
        pending.times, pending.tails = [], []
        if not times or pending.arm == OUTSIDE:
            return
        if not pending.names:
            _learn(pending, tails[0])
        strange = self._read_known(pending, times, tails)
        for number in strange:
            _learn(pending, tails[number])
            self._read_one(pending.head + MIDDLE % times[number] + tails[number])

    def _read_known(self, pending: Pending, times: Sequence[bytes], tails: Sequence[bytes]) -> Sequence[int]:
        """Reads the lines whose NICs are known; the places of the others."""
        import numpy as np

        text = b"".join(tails)
        for number, name in enumerate(pending.names):
            text = text.replace(b'"%s":{"tx_bytes":' % name, bytes([0x80 + number]))
        text = text.replace(b',"rx_bytes":', b" ")
        shapes = text.translate(None, DIGITS).split(b"\n")[:-1]
        known = {shape: _columns(shape) for shape in dict.fromkeys(shapes)}
        if any(not columns for columns in known.values()):
            text = b"\n".join(line for line, shape in zip(text.split(b"\n"), shapes, strict=False) if known[shape])
        numbers = np.fromstring(text.translate(TO_SPACES), dtype=np.int64, sep=" ")
        counts = np.array([2 * len(known[shape]) for shape in shapes])
        if len(shapes) != len(times) or len(numbers) != counts.sum():
            return range(len(times))
        moments = np.fromiter(map(int, times), np.int64, len(times))
        self._place(pending, shapes, known, (moments, numbers, np.cumsum(counts) - counts))
        return [number for number, shape in enumerate(shapes) if not known[shape]]

    def _place(
        self,
        pending: Pending,
        shapes: Sequence[bytes],
        known: dict[bytes, list[int]],
        values: tuple[NDArray[int64], NDArray[int64], NDArray[int64]],
    ) -> None:
        """`values`: when each line was written, all their numbers, and where those of each line begin."""
        import numpy as np

        moments, numbers, begin = values
        for shape, columns in known.items():
            whole = len(known) == 1
            lines = np.arange(len(shapes)) if whole else np.flatnonzero([each == shape for each in shapes])
            for place, number in enumerate(columns):
                nic = NicId(pending.host, pending.names[number].decode())
                first = begin[lines] + 2 * place
                counters = self._of((pending.arm, pending.run), nic)
                counters.extend(moments[lines], numbers[first], numbers[first + 1])

    def _read_one(self, raw: bytes) -> None:
        try:
            self.add(json.loads(raw))
        except (ValueError, KeyError, TypeError, AttributeError):
            self.odd.append(raw)


def _learn(pending: Pending, tail: bytes) -> None:
    for name in NAME.findall(tail):
        if name not in pending.names and len(pending.names) < MOST_NAMES:
            pending.names.append(name)


def _columns(shape: bytes) -> list[int]:
    """Which NICs a line is about, in its order; none for a line that must be read as JSON."""
    return [byte - 0x80 for byte in shape if byte >= 0x80] if SHAPE.fullmatch(shape) else []
