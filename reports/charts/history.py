"""What this run's main figures were in the runs before it: of the same experiment on the same bed and hardware."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from chaos.analysis.model import Summary
from reports.charts import trend as history
from reports.charts.frame import WIDTH, Figure, Key, Panel
from reports.store import entries
from reports.store.entry import Entry
from reports.store.names import STAMP
from reports.words import names

MOST_RUNS = 200
"""The newest before this one; each is read."""
MOST_SHOWN = 8
SHOWN = {
    "stall_ms": "stall",
    "iteration_ms": "failover iteration",
    "degraded_ms": "iteration while degraded",
    "healthy_ms": "healthy iteration",
    "busbw": "bus bandwidth",
    "step_ms": "training step",
}
SIZE = history.Size(WIDTH, 150.0, 52.0, foot=24.0)
LEFT_OUT = "Runs that differ in their experiment, bed or hardware are left out, and so are void and failed ones."


def figure(path: Path, summary: Summary) -> Figure | None:
    """None unless the directory next to this one holds earlier runs to compare with."""
    runs = list(comparable(path, summary))
    if len(runs) < 2:
        return None
    found = [*_histories(runs)]
    if not found:
        return None
    panels = [_panel(number, each, runs[-1].id) for number, each in enumerate(found)]
    earlier = f"{len(runs) - 1} earlier run{'s' if len(runs) > 2 else ''}"
    caption = f"This run after {earlier}, oldest at the left; the median of each run’s repeats."
    title = "What it was in earlier runs"
    keys = [Key("rx", "median of a run"), Key("dot-hit", "this run")]
    shown, more = panels[:MOST_SHOWN], panels[MOST_SHOWN:]
    return Figure("history", title, f"{caption} {_lasting(found)} {LEFT_OUT}", shown, keys, more, "More figures")


def _lasting(found: Sequence[history.History]) -> str:
    """What changed for good, by the run that it changed with."""
    told: dict[str, list[str]] = {}
    for each in found:
        for change in each.changes:
            moved = f"{each.name} {(change.shift.ratio - 1) * 100:+.1f} %"
            told.setdefault(each.points[change.index].run.id, []).append(moved)
    said = [f"since {run}: {'; '.join(what)}" for run, what in sorted(told.items())]
    return f"Lasting changes {'. And '.join(said)}." if said else "No lasting change."


def comparable(path: Path, summary: Summary) -> Iterator[Entry]:
    """Earlier runs of the same experiment, bed and hardware, oldest first, and this one. Names of directories say which
    are tried, so that a store of many runs costs little; nothing is written there."""
    here = path.resolve()
    this = entries.read(here)
    stamp = STAMP.match(here.name)
    if stamp is None or this.verdict not in history.COUNTED:
        return
    told = (summary.experiment, this.bed, this.fingerprint)
    for name in _before(here, stamp[2]):
        other = entries.read(here.parent / name)
        if other.verdict in history.COUNTED and (other.experiment, other.bed, other.fingerprint) == told:
            yield other
    yield this


def _before(here: Path, experiment: str) -> Sequence[str]:
    """Directories of runs named as this one and made before it, the newest `MOST_RUNS`, oldest first."""
    try:
        there = sorted(each.name for each in here.parent.iterdir() if each.name < here.name)
    except OSError:
        return []
    return [name for name in there if (found := STAMP.match(name)) and found[2] == experiment][-MOST_RUNS:]


def _histories(runs: Sequence[Entry]) -> Iterator[history.History]:
    """Of every main figure of every arm of the newest run that an earlier one has too. Of several message sizes, the
    largest stands for all."""
    found = {run.id: run.figures for run in runs}
    series = dict.fromkeys((f.arm, f.name, f.size_bytes) for f in runs[-1].figures if f.repeat >= 0)
    largest = _largest(series)
    for what, called in SHOWN.items():
        for arm, name, size in series:
            if name == what and largest[arm, name] == (size or 0):
                told = history.of(runs, found, f"{names.arm(arm)}, {called}", (arm, name, size))
                if told is not None and len(told.points) > 1 and told.points[-1].run.id == runs[-1].id:
                    yield told


def _largest(series: Mapping[tuple[str, str, int | None], None]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for arm, name, size in series:
        found[arm, name] = max(found.get((arm, name), 0), size or 0)
    return found


def _panel(number: int, told: history.History, run: str) -> Panel:
    return Panel("", told.svg(SIZE, f"history-{number}", run), f"{told.name}, {told.unit}")
