"""Lines that Megatron-LM prints, one an interval: ` iteration 10/ 100 | elapsed time per iteration (ms): 512.3 |`."""

from __future__ import annotations

import re
from dataclasses import dataclass

ITERATION = re.compile(r"iteration\s+(\d+)\s*/\s*(\d+)\s*\|")
FIELD = re.compile(r"\|\s*([^|:]+?)\s*:\s*([-+.\deE]+)\s*(?=\|)")
STEP, FLOPS, LOSS = "elapsed time per iteration (ms)", "throughput per GPU (TFLOP/s/GPU)", "lm loss"


@dataclass(frozen=True)
class Step:
    """One line. `step_ms` is the mean since the line before it."""

    iteration: int
    step_ms: float
    tflops_per_gpu: float | None
    loss: float | None
    skipped: int


def read(text: str) -> list[Step]:
    """Every whole line of a log; what other parts of the job print between is passed over."""
    return [step for line in text.splitlines() if (step := _step(line)) is not None]


def _step(line: str) -> Step | None:
    found = ITERATION.search(line)
    fields = dict(FIELD.findall(line))
    if found is None or STEP not in fields:
        return None
    try:
        numbers = {name: float(value) for name, value in fields.items()}
    except ValueError:
        return None
    return Step(
        int(found[1]),
        numbers[STEP],
        numbers.get(FLOPS),
        numbers.get(LOSS),
        int(numbers.get("number of skipped iterations", 0)),
    )
