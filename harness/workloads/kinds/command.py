"""Any program as ranks: how it is started, and how its progress and its results are read (issue: your own job)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictStr, model_validator

from harness.workloads.kinds.program import Program
from harness.workloads.kinds.workload import UNKNOWN, Count, Place
from harness.workloads.reading.lines import LineReader
from harness.workloads.reading.patterns import Finder, fault_of
from harness.workloads.reading.presets import PRESETS
from harness.workloads.reading.steps import CommandLines, Wanted

COUNTED_MS = "5"
"""How exactly the end of a step is known that is counted in collectives."""


def _pattern(text: str) -> str:
    fault = fault_of(text)
    if fault:
        raise ValueError(fault)
    return text


Pattern = Annotated[StrictStr, Field(min_length=1, max_length=2000), AfterValidator(_pattern)]
"""A regular expression (Python's) for one line of what the program prints."""


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Progress(Part):
    """How steps are seen. Nothing given: the whole program is one step."""

    preset: Literal[tuple(PRESETS)] | None = None  # type: ignore[valid-type]
    """A program whose lines are known."""
    step: Pattern | None = None
    """Found once a step. Groups: `step`, its number; `ms` or `s`, how long it took; `loss`; `result`, which is then
    compared by `identical`."""
    collectives: Count | None = None
    """A step is so many collectives of NCCL, which its profiler interface counts: nothing need be printed."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        given = [name for name in ("preset", "step", "collectives") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"give one of {' and '.join(given)}: they say the same in different ways")
        return self

    def finder(self) -> Finder | None:
        if self.preset is not None:
            return Finder(f"the preset {self.preset}", PRESETS[self.preset].pattern)
        return None if self.step is None else Finder("progress.step", self.step)


class Outcome(Part):
    """What a run comes to, besides its exit code: compared by `identical`."""

    pattern: Pattern | None = None
    """The groups of the last line that it finds, or all it found."""
    digest: Annotated[StrictStr, Field(min_length=1, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$")] | None = None
    """A file in $R2CC_OUT that at least one rank leaves: its text is the result."""


class Command(Program):
    """Any program, started as it is. Ranks find their place in the variables that torchrun sets, too."""

    about = "Any program of yours, with progress read from what it prints or counted in NCCL."
    example: ClassVar[Mapping[str, Any]] = {"argv": ["python3", "train.py"]}
    kind: Literal["command"]
    argv: Annotated[tuple[StrictStr, ...], Field(min_length=1)] | Annotated[StrictStr, Field(min_length=1)]
    """The program and its arguments; as one text it is run by `sh -c`."""
    progress: Progress = Progress()
    result: Outcome = Outcome()
    iterations: Count = UNKNOWN
    """At most; how many there are says the program."""

    @property
    def counts(self) -> bool:
        return self.uses_gpus or self.progress.collectives is not None

    @property
    def digest(self) -> str | None:
        return self.result.digest

    def command(self, place: Place) -> list[str]:
        return self.started(place, ["sh", "-c", self.argv] if isinstance(self.argv, str) else list(self.argv))

    def rank_env(self, base: Mapping[str, str], place: Place) -> dict[str, str]:
        counted = {} if self.progress.collectives is None else {"R2CC_PROGRESS_MS": COUNTED_MS}
        return super().rank_env({**base, **counted}, place)

    def reader(self, rank: int, ranks: int) -> LineReader:
        result = None if self.result.pattern is None else Finder("result.pattern", self.result.pattern)
        return CommandLines(Wanted(rank, ranks, self.warmup, self.progress.finder(), result, self.progress.collectives))
