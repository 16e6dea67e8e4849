"""Any program as ranks: how it is started, and how its progress and its results are read (issue: your own job)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator

from harness.workloads.kinds.lines import LineReader
from harness.workloads.kinds.presets import PRESETS
from harness.workloads.kinds.steps import CommandLines, Wanted
from harness.workloads.kinds.workload import UNKNOWN, Count, Place, Seconds, Small, Workload

RUN = "R2CC_RUN"
"""Which run a process belongs to, wherever it went: by it all of them are found and ended."""
OUT = "R2CC_OUT"
"""The folder of a rank in one run, where it leaves files; made before it starts, gone afterwards."""
IN_FOLDER = 'mkdir -p "$R2CC_OUT" && cd "$1" && shift && exec "$@" 2>&1'
"""A fixed script. Its arguments: the folder to start in, and the program."""
Name = Annotated[StrictStr, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


def _pattern(text: str) -> str:
    try:
        found = re.compile(text.encode())
    except re.error as error:
        raise ValueError(f"it is no regular expression: {error}") from error
    if found.match(b""):
        raise ValueError("it matches an empty line, so it says nothing about progress")
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

    def regex(self) -> re.Pattern[bytes] | None:
        text = PRESETS[self.preset].pattern if self.preset is not None else self.step
        return None if text is None else re.compile(text.encode(), re.MULTILINE)


class Outcome(Part):
    """What a run comes to, besides its exit code: compared by `identical`."""

    pattern: Pattern | None = None
    """The groups of the last line that it finds, or all it found."""
    digest: Annotated[StrictStr, Field(min_length=1, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$")] | None = None
    """A file in $R2CC_OUT that at least one rank leaves: its text is the result."""


class Command(Workload):
    """Any program, started as it is. Ranks find their place in the variables that torchrun sets, too."""

    about = "Any program of yours, with progress read from what it prints or counted in NCCL."
    foreign: ClassVar[bool] = True
    example: ClassVar[Mapping[str, Any]] = {"argv": ["python3", "train.py"]}
    kind: Literal["command"]
    argv: Annotated[tuple[StrictStr, ...], Field(min_length=1)] | Annotated[StrictStr, Field(min_length=1)]
    """The program and its arguments; as one text it is run by `sh -c`."""
    env: Mapping[Name, StrictStr] = Field(default_factory=dict)
    """Of every rank, over all that we set."""
    cwd: StrictStr = "."
    """Where ranks start; on each host."""
    ranks_per_host: Small = 1
    gpus_per_rank: Annotated[StrictInt, Field(ge=0, le=64)] = 0
    """More than 0: ranks of a host share its GPUs out among them, by CUDA_VISIBLE_DEVICES."""
    preload: Literal["nccl", "plugin", "none"] = "none"
    """What puts R2CC under it: the patched libnccl.so.2, or the net plugin; none: it brings its own."""
    progress: Progress = Progress()
    result: Outcome = Outcome()
    iterations: Count = UNKNOWN
    """At most; how many there are says the program."""
    start_s: Seconds = 600.0
    """How long it may take until the first step."""

    @property
    def uses_gpus(self) -> bool:
        return self.gpus_per_rank > 0

    @property
    def has_nccl(self) -> bool:
        return True

    @property
    def counts(self) -> bool:
        return self.uses_gpus or self.progress.collectives is not None

    @property
    def preloads_nccl(self) -> bool:
        return self.preload == "nccl"

    @property
    def own_gpus(self) -> int | None:
        return max(1, self.ranks_per_host * self.gpus_per_rank)

    def per_host(self, gpus: int) -> int:
        return self.ranks_per_host

    def command(self, place: Place) -> list[str]:
        program = ["sh", "-c", self.argv] if isinstance(self.argv, str) else list(self.argv)
        unset = [word for name in place.unset for word in ("-u", name)]
        return [*(["env", *unset] if unset else []), "sh", "-c", IN_FOLDER, "r2cc", self.cwd, *program]

    def rank_env(self, base: Mapping[str, str], place: Place) -> dict[str, str]:
        rank, per_host = place.rank or 0, self.ranks_per_host
        address, _, port = place.root.rpartition(":")
        found = {
            **base,
            "RANK": f"{rank}",
            "WORLD_SIZE": f"{place.ranks}",
            "LOCAL_RANK": f"{rank % per_host}",
            "LOCAL_WORLD_SIZE": f"{per_host}",
            "NODE_RANK": f"{rank // per_host}",
            "MASTER_ADDR": address,
            "MASTER_PORT": port,
            "PYTHONUNBUFFERED": "1",
            OUT: f"/tmp/r2cc-out-{base.get(RUN, '0')}/rank{rank}",
        }
        if self.preload == "plugin":
            found["NCCL_NET_PLUGIN"] = str(place.programs.net)
        if self.gpus_per_rank and place.cards:
            own = per_host * self.gpus_per_rank
            first = rank // per_host * own
            visible = dict.fromkeys((first + index) % place.cards for index in range(own))
            found["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, visible))
        return {**found, **self.env}

    def reader(self, rank: int, ranks: int) -> LineReader:
        result = None if self.result.pattern is None else re.compile(self.result.pattern.encode(), re.MULTILINE)
        return CommandLines(Wanted(rank, ranks, self.warmup, self.progress.regex(), result, self.progress.collectives))

    def problems(self, hosts: int) -> Iterator[tuple[str, str]]:
        if self.preload == "nccl" and not self.gpus_per_rank:
            yield "preload", "the patched NCCL needs GPUs: say gpus_per_rank"
