"""The command lines of upstream's nccl-tests (2.19).

Ranks of several processes meet through MPI alone: without it one process drives all GPUs, which are of one host.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError

OPS = (
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv", "alltoall", "alltoallv", "reduce", "gather",
    "scatter", "hypercube",
)  # fmt: skip
SIZE = re.compile(r"^\d+(\.\d+)?[KMGkmg]?$")
BY_LINE = ("stdbuf", "-oL")
"""Rows as they come: what is no terminal gets them in blocks otherwise."""


@dataclass(frozen=True)
class Spec:
    """What one program of nccl-tests is told. `gpus`: of each host; sizes as it takes them, such as 8 or 1G."""

    op: str
    folder: Path
    gpus: int
    begin: str = "8"
    end: str = "1G"
    factor: int = 2
    iterations: int = 20
    warmup: int = 5
    datatype: str = "float"
    check: bool = True
    each_iteration: bool = False
    """The time of every single iteration, in the JSON."""
    cycles: int = 1
    """How often to go through the sizes; 0: for ever."""
    json: Path | None = None
    """Must not be there yet, and ends with .json. Written by rank 0, on its host."""

    def __post_init__(self) -> None:
        if self.op not in OPS:
            raise UsageError(f"nccl-tests: no operation {self.op!r}", f"there are {', '.join(OPS)}")
        for size in (self.begin, self.end):
            if not SIZE.match(size):
                raise UsageError(f"nccl-tests: {size!r} is no size", "for example 8, 64K, 1M or 1G")

    @property
    def program(self) -> Path:
        return self.folder / f"{self.op}_perf"


def one_of_many(spec: Spec) -> tuple[str, ...]:
    """A process that has one GPU and meets the others through MPI."""
    return (*BY_LINE, *program(spec, 1))


def program(spec: Spec, gpus: int) -> list[str]:
    options: dict[str, object] = {
        "-b": spec.begin,
        "-e": spec.end,
        "-f": spec.factor,
        "-g": gpus,
        "-n": spec.iterations,
        "-w": spec.warmup,
        "-d": spec.datatype,
        "-c": int(spec.check),
        **({"-I": 1} if spec.each_iteration else {}),
        **({"-N": spec.cycles} if spec.cycles != 1 else {}),
        **({"-J": spec.json} if spec.json is not None else {}),
    }
    return [str(spec.program), *(str(word) for option in options.items() for word in option)]
