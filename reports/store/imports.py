"""Figures of other tools as runs of the store: nccl-tests' JSON and text, Megatron's logs. The file itself is kept."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError
from harness.reading.files import Unreadable, bytes_of
from harness.reading.plain import printable
from harness.schemas import dumped
from harness.workloads import nccltests
from reports.store import megatron
from reports.store.names import when_of

if TYPE_CHECKING:
    from chaos.rundir import RunDir

Json = dict[str, Any]
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class Imported:
    """What a file came to. `metrics` as in a summary (docs/contracts.md)."""

    source: str
    metrics: list[Json]
    wrong: int
    completed: bool
    iterations: int
    healthy_ms: float | None = None


@dataclass(frozen=True)
class About:
    """What the file does not say."""

    name: str
    arm: str = "stock"
    bed: str = "imported"
    hardware: str = ""
    """Figures are comparable among runs with the same word here."""
    build_id: str = ""


@dataclass(frozen=True)
class Degraded:
    """The same measured while NICs were missing; `left` is the share of the bandwidth that there still was."""

    file: Path
    left: float | None = None


def detect(text: str) -> str:
    """`nccl-tests` or `megatron`. UsageError for what is neither."""
    if text.lstrip().startswith("{") and '"results"' in text:
        return "nccl-tests"
    if re.search(r"^#\s+size\s+count\s+type", text, re.MULTILINE):
        return "nccl-tests"
    if megatron.ITERATION.search(text):
        return "megatron"
    raise UsageError(
        "this is no file of nccl-tests (its JSON or what it prints) and no log of Megatron-LM", "say which with --kind"
    )


def parse(text: str, kind: str) -> Imported:
    """UsageError when there is not one figure in it."""
    found = READERS[kind](text)
    if not found.metrics:
        raise UsageError(f"there is no figure of {kind} in it", "is it the right file, and is it whole?")
    return found


def _nccl_tests(text: str) -> Imported:
    if text.lstrip().startswith("{"):
        report = nccltests.read_json(text)
        rows, completed = report.rows, report.complete and not report.errors
    else:
        lines = nccltests.Lines()
        for line in text.splitlines(keepends=True):
            lines.add(line)
        rows, completed = lines.rows, "Avg bus bandwidth" in text
    metrics = [metric for row in rows for metric in _of_row(row)]
    return Imported("nccl-tests", metrics, sum(row.wrong or 0 for row in rows), completed, len(rows))


def _of_row(row: nccltests.Row) -> list[Json]:
    place = "_in_place" if row.in_place else ""
    values = (("busbw", "GBps", row.busbw_GBps), ("algbw", "GBps", row.algbw_GBps), ("latency_us", "us", row.time_us))
    return [_metric(f"{name}{place}", unit, value, row.size_bytes) for name, unit, value in values if value is not None]


def _megatron(text: str) -> Imported:
    steps = megatron.read(text)
    if not steps:
        return Imported("megatron", [], 0, completed=False, iterations=0)
    step_ms = median(step.step_ms for step in steps)
    flops = [step.tflops_per_gpu for step in steps if step.tflops_per_gpu is not None]
    losses = [step.loss for step in steps if step.loss is not None]
    metrics = [_metric("step_ms", "ms", step_ms), _metric("step_ms_worst", "ms", max(s.step_ms for s in steps))]
    metrics += [_metric("tflops_per_gpu", "TFLOP/s", median(flops))] if flops else []
    metrics += [_metric("loss_last", "nats", losses[-1])] if losses else []
    last = re.findall(megatron.ITERATION, text)[-1]
    return Imported("megatron", metrics, 0, last[0] == last[1], steps[-1].iteration, step_ms)


READERS: dict[str, Callable[[str], Imported]] = {"nccl-tests": _nccl_tests, "megatron": _megatron}


def with_degraded(healthy: Imported, degraded: Imported, left: float | None) -> Imported:
    """Both as one run. What is left of the healthy bandwidth bounds the degraded one, size by size."""
    whole = {metric["size_bytes"]: metric["value"] for metric in healthy.metrics if metric["name"] == "busbw"}
    bounds = {size: value * left for size, value in whole.items()} if left is not None else {}
    added = [
        {**metric, "name": "busbw_degraded", "bound": bounds.get(metric["size_bytes"])}
        for metric in degraded.metrics
        if metric["name"] == "busbw"
    ]
    return replace(
        healthy,
        metrics=[*healthy.metrics, *added],
        wrong=healthy.wrong + degraded.wrong,
        completed=healthy.completed and degraded.completed,
        iterations=healthy.iterations + degraded.iterations,
    )


def _metric(name: str, unit: str, value: float, size: int | None = None) -> Json:
    return {"name": name, "unit": unit, "size_bytes": size, "value": value, "bound": None}


def summary(found: Imported, about: About) -> Json:
    """summary.json of a run with one arm."""
    verdict = "deviated" if found.wrong else "holds" if found.completed else "failed"
    check = {"name": "exact", "outcome": "deviated" if found.wrong else "holds", "value": found.wrong, "bound": 0}
    run = {
        "run": 0,
        "completed": found.completed,
        "iterations": found.iterations,
        "wrong_elements": found.wrong,
        "healthy_ms": {"median": found.healthy_ms, "p99": None},
        "bytes_per_nic": {},
        "faults": [],
        "metrics": found.metrics,
        "verdict": verdict,
        "void": [],
        "checks": [{**check, "unit": "elements"}],
        "errors": [],
    }
    judged = None if verdict == "failed" else verdict == "holds"
    arm = {"name": about.arm, "mode": 0, "expect": "holds", "verdict": verdict, "as_expected": judged}
    return {
        "schema": 1,
        "verdict": verdict,
        "exit_code": {"holds": 0, "deviated": 1}.get(verdict, 3),
        "experiment": about.name,
        "bed": about.bed,
        "hardware": {"fingerprint": about.hardware, "cpu": "", "cores": 0, "memory_bytes": 0},
        "build_id": about.build_id or None,
        "seed": 0,
        "arms": [{**arm, "runs": [run], "metrics": [], "checks": []}],
        "reasons": [] if verdict == "holds" else [f"{found.wrong} wrong elements" if found.wrong else "it did not end"],
    }


def bring_in(
    store: Path, files: Sequence[Path], about: About, kind: str | None = None, degraded: Degraded | None = None
) -> list[Path]:
    """A run directory for each file. UsageError, before any is made, for a file that cannot be read or says nothing."""
    if not NAME.fullmatch(about.name):
        raise UsageError(f"'{about.name}' is no name of an experiment", "small letters, digits, - and _")
    if degraded is not None and len(files) != 1:
        raise UsageError("a degraded measurement belongs to one healthy one", "name one FILE with --degraded")
    read = [(file, _read(file, kind)) for file in files]
    if degraded is None:
        return _write_all(store, [([file], found) for file, found in read], about)
    ((healthy, found),) = read
    both = with_degraded(found, _read(degraded.file, "nccl-tests"), degraded.left)
    return _write_all(store, [([healthy, degraded.file], both)], about)


def _read(file: Path, kind: str | None) -> Imported:
    try:
        text = bytes_of(file.resolve(), MOST_BYTES).decode("utf-8", errors="replace")
        return parse(text, kind or detect(text))
    except Unreadable as error:
        raise UsageError(f"cannot read {file}: {error.message}", "check the path") from error
    except UsageError as error:
        raise UsageError(f"{file}: {error.message}", error.hint) from error


def _write_all(store: Path, runs: Sequence[tuple[Sequence[Path], Imported]], about: About) -> list[Path]:
    """All or none, whenever it is killed."""
    from reports.store.staging import batch

    with batch(store) as made:
        for files, found in runs:
            _fill(made.begin(about.name, when_of(files[0])), files, found, about)
    return made.made


def _fill(run: RunDir, files: Sequence[Path], found: Imported, about: About) -> None:
    run.raw.mkdir()
    for number, file in enumerate(files):
        shutil.copyfile(file, run.raw / (file.name if not number else f"degraded-{file.name}"))
    origin = {"schema": 1, "source": found.source, "file": printable(files[0].name)}
    run.write_json("environment.json", "environment", origin)
    run.write_text("summary.json", dumped("summary", summary(found, about), 1) + "\n")
