"""The entry of a run, read from its directory. Its figures are those of summary.json."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harness.config import jsons
from harness.config.files import Missing, Unreadable, opened
from reports.store import names
from reports.store.entry import UNFINISHED, UNKNOWN_TAGS, UNREADABLE, Entry, Figure, Traffic
from reports.store.folders import ENVIRONMENT, JOURNAL, SUMMARY, is_simulated
from reports.store.tags import read_tags

if TYPE_CHECKING:
    from chaos.analysis.model import Arm as JudgedArm
    from chaos.analysis.model import Metric as Measured
    from chaos.analysis.model import Run
    from chaos.analysis.model import Summary as Judged
    from reports.store.shapes import Arm, Metric, Repeat, Summary

OF_FAULTS = ("detect_ms", "stall_ms", "iteration_ms", "longest_ms", "degraded_ms", "after_ms", "return_ms")
BOUNDS = {"iteration_ms": "iteration_bound_ms", "degraded_ms": "degraded_bound_ms"}
FIRST_LINE = 1 << 16
DAMAGED = (OSError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError)


def read(folder: Path) -> Entry:
    """The run in `folder`, whatever lies there: one that cannot be read is `unreadable`, and says why."""
    try:
        if problem := names.problem_of(folder.name):
            raise Unreadable(problem)
        if not folder.is_dir():
            raise Unreadable("it is a link that leads to no folder")
        return _read(folder)
    except Unreadable as error:
        return _unreadable(folder, str(error.message))
    except DAMAGED as error:
        return _unreadable(folder, f"it is damaged: {type(error).__name__}: {error}")


def _read(folder: Path) -> Entry:
    if is_simulated(folder):
        from reports.store import simulated

        return simulated.read(folder)
    from reports.store import shapes

    summary = shapes.read_if_there(folder / SUMMARY, shapes.Summary) or shapes.Summary()
    environment = shapes.read_if_there(folder / ENVIRONMENT, shapes.Environment) or shapes.Environment()
    check_journal(folder / JOURNAL)
    hardware = summary.hardware or environment.hardware or shapes.Hardware()
    return Entry(
        id=names.id_of(folder.name),
        made=names.made_of(folder.name),
        experiment=summary.experiment or _asked(folder) or names.experiment_of(folder.name),
        verdict=summary.verdict or UNFINISHED,
        exit_code=summary.exit_code,
        bed=summary.bed or "",
        fingerprint=hardware.fingerprint or "",
        build_id=summary.build_id or (environment.build or shapes.Build()).build_id or "",
        seed=summary.seed,
        arms=tuple(arm.name for arm in summary.arms),
        source=environment.source or "r2cc",
        tags=read_tags(folder),
        figures=tuple(figures(summary)),
        traffic=tuple(traffic(summary)),
    )


def _asked(folder: Path) -> str | None:
    """What was asked for: a run that was killed has nothing else."""
    from reports.store import shapes

    return shapes.fitted(shapes.asked(folder / "experiment.yaml"), shapes.Asked, "experiment.yaml").name


def check_journal(path: Path) -> None:
    """Unreadable for a journal that is no file, or that another version of r2cc began; damaged lines are the report's
    to count."""
    try:
        with opened(path, None) as file:
            first = file.readline(FIRST_LINE)
    except Missing:
        return
    try:
        value = jsons.loaded(first, path.name)
    except Unreadable:
        return
    if isinstance(value, dict):
        jsons.check_version(value, 1, path.name)


def _unreadable(folder: Path, reason: str) -> Entry:
    """As much as its name says, with the tags that protect it from being pruned."""
    try:
        made = names.made_of(folder.name) or _seen(folder)
    except ValueError:
        made = _seen(folder)
    try:
        tags = read_tags(folder)
    except (Unreadable, *DAMAGED):
        tags = UNKNOWN_TAGS
    known = (names.id_of(folder.name), made, names.experiment_of(folder.name))
    return Entry(*known, UNREADABLE, None, "", "", "", None, (), "", tags, reason=" ".join(reason.split()))


def _seen(folder: Path) -> datetime | None:
    """When its directory last changed."""
    try:
        return datetime.fromtimestamp(int(folder.stat().st_mtime), UTC)
    except (OSError, ValueError, OverflowError):
        return None


def figures(summary: Summary | Judged) -> Iterator[Figure]:
    """All numbers of a summary (docs/reference/contracts.md)."""
    for arm in summary.arms:
        for metric in arm.metrics:
            yield from _metric(arm.name, -1, metric)
        whole = [repeat for repeat in arm.runs if not repeat.cut] or arm.runs
        for repeat in [repeat for repeat in whole if not repeat.void] or whole:
            yield from (replace(figure, cut=repeat.cut or None) for figure in _of_repeat(arm, repeat))


def _of_repeat(arm: Arm | JudgedArm, repeat: Repeat | Run) -> Iterator[Figure]:
    yield from _time(arm.name, repeat.run, "healthy_ms", repeat.healthy_ms.median, None)
    for fault in repeat.faults:
        for name in OF_FAULTS:
            bound = getattr(fault, BOUNDS[name]) if name in BOUNDS else None
            yield from _time(arm.name, repeat.run, name, getattr(fault, name), bound)
    for metric in repeat.metrics:
        yield from _metric(arm.name, repeat.run, metric)


def _time(arm: str, repeat: int, name: str, value: float | None, bound: float | None) -> Iterator[Figure]:
    if value is not None:
        yield Figure(arm, repeat, name, "ms", None, value, bound)


def _metric(arm: str, repeat: int, metric: Metric | Measured) -> Iterator[Figure]:
    if metric.value is not None:
        yield Figure(arm, repeat, metric.name, metric.unit, metric.size_bytes, metric.value, metric.bound)


def traffic(summary: Summary) -> Iterator[Traffic]:
    """Sent bytes of every NIC, arm and repeat."""
    for arm in summary.arms:
        for repeat in arm.runs:
            for host, nics in repeat.bytes_per_nic.items():
                for nic, moved in nics.items():
                    if moved.tx_bytes is not None:
                        yield Traffic(arm.name, repeat.run, host, nic, moved.tx_bytes)
