"""Megatron-LM and what grew from it (Megatron-DeepSpeed, Megatron-LLM, Bridge, NeMo): one line each interval.

` iteration 10/ 100 | elapsed time per iteration (ms): 512.3 | throughput per GPU (TFLOP/s/GPU): 100.5 | lm loss: 9.5 |`
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from chaos.analysis.model import Metric
from harness.errors import UsageError
from reports.store.readers import trainings
from reports.store.readers.lines import Line, lines
from reports.store.readers.model import Content, Reading, metric, named
from reports.store.readers.origin import word
from reports.store.readers.tags import joined
from reports.store.readers.trainings import Step, Training

SOURCE: Final = "megatron"
ITERATION = re.compile(r"(?:Training epoch \d+,\s*)?\biteration\s+(\d{1,18})\s*/\s*(\d{1,18}|infinity)\s*\|")
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
STEP = re.compile(r"elapsed time(?: per iteration)?\s*(?:\((\w+)\))?|train_step_timing in (s)")
UNITS_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "sec": 1e3, "secs": 1e3, "seconds": 1e3}
FLOPS = re.compile(r"(?:throughput(?: per gpu)? \()?(?:model )?tflop\S*(?: per gpu)?", re.IGNORECASE)
LOSSES = ("lm loss", "reduced_train_loss", "loss")
LARGEST = 2**53
"""Of what counts are given as floats."""
SKIPPED, NAN, BATCH = (
    "number of skipped iterations",
    "number of nan iterations",
    ("global batch size", "global_batch_size"),
)
"""Of an interval, not since the beginning."""


def is_log(text: str) -> bool:
    return "iteration" in text and ITERATION.search(text) is not None


def read(text: str) -> Content:
    """One reading for each training: a job that was started again is another. UsageError where two are mixed."""
    log = _Log()
    for line in joined(lines(text)):
        log.take(line)
    found = trainings.found(log.steps, log.ends)
    return Content(named([_reading(training) for training in found]), log.notes())


@dataclass
class _Log:
    steps: list[Step] = field(default_factory=list)
    ends: list[trainings.End] = field(default_factory=list)
    lost: dict[int, str] = field(default_factory=dict)
    """Lines that could not be read, and why."""
    last: int = 0

    def notes(self) -> list[str]:
        """Not of the very last line: a log that was cut short ends amid one."""
        told = {number: why for number, why in self.lost.items() if number != self.last or not self.steps}
        return [f"line {number}: {why}: left out" for number, why in told.items()]

    def take(self, line: Line) -> None:
        self.last = line.number if line.text.strip() else self.last
        matches = list(ITERATION.finditer(line.text)) if "iteration" in line.text else []
        for place, match in enumerate(matches):
            last = place + 1 == len(matches)
            text = line.text[match.end() : None if last else matches[place + 1].start()]
            self._step(line, match, fields(text, whole=line.whole or not last))
        if not matches and (end := trainings.end_of(line)) is not None:
            self.ends.append(end)

    def _step(self, line: Line, match: re.Match[str], told: Mapping[str, float]) -> None:
        try:
            self.steps.append(_step(line, match, told))
        except UsageError as error:
            self.lost[line.number] = error.message


def fields(text: str, *, whole: bool) -> dict[str, float]:
    """The numbers between bars, by their names. What follows the last bar counts when the line is `whole`."""
    *parts, last = text.split("|")
    pairs = [part.rpartition(":") for part in ([*parts, last] if whole else parts)]
    return {name.strip(): float(value) for name, _, value in pairs if NUMBER.fullmatch(value.strip())}


def _step(line: Line, match: re.Match[str], told: Mapping[str, float]) -> Step:
    """Raises UsageError where the line does not say how long an iteration took."""
    loss = next((told[name] for name in LOSSES if name in told), None)
    flops = [value for name, value in told.items() if FLOPS.match(name) and math.isfinite(value)]
    return Step(
        line=line.number,
        before=line.text[: match.start()],
        iteration=int(match[1]),
        total=None if match[2] == "infinity" else int(match[2]),
        step_ms=_step_ms(told),
        tflops_per_gpu=flops[0] if flops else None,
        loss=loss,
        skipped=_count(told.get(SKIPPED)),
        nan=_count(told.get(NAN)),
        batch=_count(next((told[name] for name in BATCH if name in told), None)),
    )


def _count(value: float | None) -> int | None:
    return int(value) if value is not None and abs(value) < LARGEST else None


def _step_ms(told: Mapping[str, float]) -> float:
    for name, value in told.items():
        if (found := STEP.fullmatch(name)) is not None:
            unit = found[1] or found[2]
            if unit in UNITS_MS and math.isfinite(value * UNITS_MS[unit]):
                return value * UNITS_MS[unit]
            raise UsageError(f"'{name}: {value:g}' is no time in ms or s")
    raise UsageError(f"it has no 'elapsed time per iteration (ms)' or '(s)', only {', '.join(told) or 'no number'}")


def _reading(training: Training) -> Reading:
    steps, last = training.steps, training.steps[-1]
    times = [step.step_ms for step in steps]
    flops = [step.tflops_per_gpu for step in steps if step.tflops_per_gpu is not None]
    metrics = [metric("step_ms", "ms", median(times)), metric("step_ms_worst", "ms", max(times))]
    metrics += [metric("tflops_per_gpu", "TFLOP/s", median(flops))] if flops else []
    metrics += [metric("loss_last", "nats", last.loss)] if last.loss is not None and math.isfinite(last.loss) else []
    for name, counts in (("skipped", [s.skipped for s in steps]), ("nan", [s.nan for s in steps])):
        metrics += _sum(f"{name}_iterations", counts)
    return Reading(
        SOURCE, metrics, training.completed, last.iteration,
        healthy_ms=median(times), doubt=_doubt(last), why=training.why, line=steps[0].line, traits=_traits(training),
    )  # fmt: skip


def _sum(name: str, counts: Iterable[int | None]) -> list[Metric]:
    told = [count for count in counts if count is not None]
    return [metric(name, "iterations", sum(told))] if told else []


def _doubt(last: Step) -> str:
    """Megatron leaves the loss out of a line when it is no number, and counts that."""
    if last.loss is not None and not math.isfinite(last.loss):
        return f"the last loss is {last.loss:g} (line {last.line})"
    if last.loss is None and last.nan:
        return f"the last loss is nan: {last.nan} nan iterations (line {last.line})"
    return ""


def _traits(training: Training) -> dict[str, str]:
    last = training.steps[-1]
    return {
        "process": word(training.origin),
        "total": f"{last.total or 'endless'}iterations",
        "batch": f"batch{last.batch}" if last.batch is not None else "",
    }
