"""A program of upstream's nccl-tests as ranks, which the user has built with MPI."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr

from harness.repo import programs
from harness.workloads.kinds.program import Program
from harness.workloads.kinds.workload import MIB, Bytes, Count, Place
from harness.workloads.nccltests.spec import OPS, Spec, one_of_many
from harness.workloads.reading.lines import LineReader
from harness.workloads.reading.nccl_lines import FILE, Rows
from harness.workloads.reading.steps import Wanted

FOLDER = "R2CC_NCCL_TESTS"
"""The variable that says where the user's programs lie."""
TIMED = (
    'umask 077; mkdir -p "$R2CC_OUT" && cd "$1" && shift && exec "$@" -J "$R2CC_OUT/' + FILE + '" 2>&1'
)  # the JSON holds the whole environment
"""A fixed script, as program.py's: rank 0 leaves the time of every iteration."""
APART = "ranks of nccl-tests meet through MPI alone: started one by one, each would run by itself"
OTHER = "--launcher mpirun or srun"


class NcclTests(Program):
    """One operation, at one size or several, over and over; each element of the results is checked.

    A row is one size: its iterations out of place, then as many in place.
    """

    about = "A program of upstream's nccl-tests, which you have built with MPI."
    impossible: ClassVar[Mapping[str, tuple[str, str]]] = dict.fromkeys(("ssh", "torchrun"), (APART, OTHER))
    usual_launcher: ClassVar[str] = "mpirun"
    mpi: ClassVar[bool] = True
    example: ClassVar[Mapping[str, Any]] = {}
    kind: Literal["nccl_tests"]
    op: Literal[OPS] = "all_reduce"  # type: ignore[valid-type]
    bytes: Bytes = 64 * MIB
    """Of the only size, or of the first."""
    up_to: Bytes | None = None
    """Of the last size. None: there is one."""
    factor: Annotated[StrictInt, Field(ge=2, le=1024)] = 4
    """From one size to the next."""
    iterations: Count = 20
    """Of each size, out of place and in place each."""
    cycles: Annotated[StrictInt, Field(ge=2, le=100_000)] = 8
    """How often to go through the sizes. The first time shows how long everything takes: no fault waits for it."""
    warmup: Annotated[StrictInt, Field(ge=0, le=1000)] = 5
    datatype: StrictStr = "float"
    check: StrictBool = True
    """Every element, once a row out of place and in place each."""
    programs: Annotated[StrictStr, Field(min_length=1)] | None = None
    """The folder with the programs, on all hosts. None: $R2CC_NCCL_TESTS, or what r2cc build nccl-tests made."""
    gpus_per_rank: Annotated[StrictInt, Field(ge=0, le=64)] = 1
    preload: Literal["nccl", "plugin", "none"] = "nccl"

    @property
    def sizes(self) -> list[int]:
        """In bytes, as the program goes through them."""
        found = [self.bytes]
        while found[-1] * self.factor <= (self.up_to or 0):
            found.append(found[-1] * self.factor)
        return found

    @property
    def measured(self) -> int:
        return self.cycles * self.foreseen

    @property
    def looks_every(self) -> int:
        return self.iterations

    @property
    def foreseen(self) -> int:
        """From the second cycle on."""
        return len(self.sizes) * 2 * self.iterations

    @property
    def program(self) -> Path:
        """Where it should be, on each host."""
        return self._spec().program

    def _spec(self) -> Spec:
        return Spec(
            self.op, folder(self.programs), max(1, self.gpus_per_rank), str(self.bytes), str(self.sizes[-1]),
            self.factor, self.iterations, self.warmup, self.datatype, self.check, each_iteration=True,
            cycles=self.cycles,
        )  # fmt: skip

    def command(self, place: Place) -> list[str]:
        return self.started(place, list(one_of_many(self._spec())), TIMED)

    def reader(self, rank: int, ranks: int) -> LineReader:
        return Rows(Wanted(rank, ranks, 0), sizes=self.sizes, each=self.iterations, op=self.op)

    def problems(self, hosts: int) -> Iterator[tuple[str, str]]:
        yield from super().problems(hosts)
        if self.up_to is not None and self.up_to < self.bytes:
            yield "up_to", "it is less than bytes"


def folder(given: str | None) -> Path:
    """Where the user's programs lie."""
    return Path(given or os.environ.get(FOLDER) or programs().nccl.with_name("nccl-tests") / "bin")
