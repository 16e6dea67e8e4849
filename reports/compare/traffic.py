"""Bytes per NIC on two sides: which NICs carry more of an arm's traffic, and which less. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated

from harness.schemas.form import Limits, Share
from reports.store.entry import Entry

SAME_POINTS = 0.1
NicKey = tuple[str, str, str]
"""Arm, host, NIC."""


@dataclass(frozen=True)
class NicRow:
    """What one NIC sent: medians of the runs, and their share of what all NICs of the arm sent; None: not measured."""

    arm: str
    host: str
    nic: str
    before_bytes: int | None
    after_bytes: int | None
    before_share: Share | None
    after_share: Share | None
    share_change: Annotated[float, Limits(minimum=-1, maximum=1)] | None
    """0.1 is ten percentage points more"""


def nic_rows(before: Sequence[Entry], after: Sequence[Entry]) -> tuple[NicRow, ...]:
    """Every NIC that either side saw, in order."""
    ours, theirs = _sent(before), _sent(after)
    totals = [_totals(side) for side in (ours, theirs)]
    return tuple(
        _row(key, (ours.get(key), theirs.get(key)), _share(key, ours, totals[0]), _share(key, theirs, totals[1]))
        for key in sorted({*ours, *theirs})
    )


def _row(key: NicKey, sent: tuple[int | None, int | None], before: float | None, after: float | None) -> NicRow:
    return NicRow(*key, *sent, before, after, None if before is None or after is None else after - before)


def largest(rows: Sequence[NicRow]) -> tuple[NicRow, ...]:
    """Of each arm the NIC whose share changed most."""
    found: dict[str, NicRow] = {}
    for row in rows:
        if row.share_change is not None and (
            row.arm not in found or abs(row.share_change) > abs(found[row.arm].share_change or 0.0)
        ):
            found[row.arm] = row
    return tuple(found.values())


def _sent(runs: Sequence[Entry]) -> dict[NicKey, int]:
    moved: dict[NicKey, list[int]] = {}
    for each in (each for run in runs for each in run.traffic):
        moved.setdefault((each.arm, each.host, each.nic), []).append(each.tx_bytes)
    return {key: round(median(values)) for key, values in moved.items()}


def _totals(sent: dict[NicKey, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for (arm, _, _), count in sent.items():
        found[arm] = found.get(arm, 0) + count
    return found


def _share(key: NicKey, sent: dict[NicKey, int], totals: dict[str, int]) -> float | None:
    return sent[key] / totals[key[0]] if key in sent and totals[key[0]] > 0 else None


def sentences(rows: Sequence[NicRow]) -> Iterator[str]:
    """The largest change of each arm, for people."""
    for row in largest(rows):
        before, after = (100 * (share or 0.0) for share in (row.before_share, row.after_share))
        arm = "" if row.arm == "*" else f"{row.arm}: "
        if abs(after - before) < SAME_POINTS:
            yield f"bytes per NIC, {arm}every share is as before, to {SAME_POINTS} points"
            continue
        yield (
            f"bytes per NIC, {arm}the largest change is {row.host}/{row.nic}: "
            f"{before:.1f} % of all sent bytes -> {after:.1f} % ({after - before:+.1f} points)"
        )
