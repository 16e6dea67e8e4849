"""What a workload is: its settings, and the command of one rank. Nothing runs here.

Ranks print the lines of docs/reference/contracts.md: `iteration` lines say how many elements were wrong, which is what
counts as right. A rank ends with 0 (all exact), 1 (wrong elements), 2 (usage) or 3 (a collective failed).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr

from harness.errors import UsageError
from harness.units import parse_bytes
from harness.workloads.bench import PROGRESS, without
from harness.workloads.reading.lines import JsonLines, LineReader

MIB = 1024 * 1024
UNKNOWN = 1_000_000
"""Iterations of a program that alone knows how many it has: no run has more."""
Count = Annotated[StrictInt, Field(gt=0, le=UNKNOWN)]
Small = Annotated[StrictInt, Field(gt=0, le=1024)]
Small16 = Annotated[StrictInt, Field(gt=0, le=65536)]


def sized(value: object) -> object:
    """A size in words as bytes; ValueError, for pydantic, for what is none."""
    if not isinstance(value, str):
        return value
    try:
        return parse_bytes(value)
    except UsageError as error:
        raise ValueError(error.message) from error


SIZE_IN_WORDS = r"^[0-9.]+ *[KMGTkmgt]?i?B?$"
Whole = Annotated[StrictInt, Field(ge=4, le=16 * 1024 * MIB, multiple_of=4)]
Bytes = Annotated[
    Whole, BeforeValidator(sized, json_schema_input_type=Whole | Annotated[str, Field(pattern=SIZE_IN_WORDS)])
]
"""As 67108864, 64M or 64MiB."""
Seconds = Annotated[float, Field(gt=0, le=86_400, strict=True, allow_inf_nan=False)]
"""A day at most."""
Type = Literal["float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8"]


@dataclass(frozen=True)
class Programs:
    """Where things lie on a rank's host."""

    bench: Path
    net: Path
    """The net library."""
    nccl: Path
    rank: Path
    """The ranks of workloads on torch: harness/workloads/rank.py."""
    python: str = "python3"
    """One with torch."""
    progress: Path = Path(PROGRESS)
    """The library that watches any NCCL (harness/workloads/bench.py)."""


@dataclass(frozen=True)
class Place:
    """Which rank of how many, and what all ranks share."""

    programs: Programs
    ranks: int
    root: str
    """ADDR:PORT of rank 0 on the management network."""
    rank: int | None = None
    """None: its launcher adds `--rank N`."""
    gpu: int | None = None
    """None: its launcher adds `--gpu N`, or there is none."""
    per_host: int = 1
    seed: int = 1
    corrupt: str = ""
    """Self-test of the check: RANK:ITERATION where something is changed afterwards."""
    late: tuple[tuple[int, int, int], ...] = ()
    """(rank, iteration, ms): who enters which iteration how late."""
    merge_nics: int = 1
    unset: tuple[str, ...] = ()
    """Variables that the command must not see."""
    cards: int = 0
    """GPUs of this machine, where hosts of the lab share them; 0: each host has its own."""


class Workload(BaseModel, ABC):
    """The `workload` section of an experiment. Unknown names are errors: a mistyped setting must not be one that is not
    there."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    about: ClassVar[str] = ""
    """In a sentence, for help."""
    on_gpus: ClassVar[bool] = False
    """One rank a GPU, with the patched NCCL under it; else one rank a host, with the net library."""
    foreign: ClassVar[bool] = False
    """Not ours: any exit code may come, processes may be left behind, and what counts as a step is read elsewhere."""
    example: ClassVar[Mapping[str, Any]] = {}
    """Settings without which it cannot be."""
    impossible: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Launchers that cannot start it: why, and what else to do."""
    usual_launcher: ClassVar[str] = "direct"
    """What starts it where nobody says."""
    mpi: ClassVar[bool] = False
    """Its ranks meet through MPI, and in no other way."""

    kind: StrictStr
    net: Literal["socket", "ib"] = "socket"
    """`ib` needs a bed with RDMA devices: --inventory vm."""
    iterations: Count = 40
    warmup: Annotated[StrictInt, Field(ge=0, le=1000)] = 2
    timeout_s: Seconds = 120.0
    seconds: Annotated[StrictInt, Field(ge=0, le=86400)] = 0
    """Not 0: iterations end after so many seconds, or when `iterations` are done, whichever is first."""

    @abstractmethod
    def command(self, place: Place) -> list[str]:
        """One rank. In an experiment every setting is given, so that the journal says all."""

    def reader(self, rank: int, ranks: int) -> LineReader:
        """What makes lines of the contract of what this rank prints, in one run."""
        return JsonLines()

    @property
    def uses_gpus(self) -> bool:
        return self.on_gpus

    @property
    def has_nccl(self) -> bool:
        """NCCL runs in its ranks."""
        return self.uses_gpus

    @property
    def counts(self) -> bool:
        """NCCL's profiler interface is asked in any case (harness/workloads/bench.py)."""
        return False

    @property
    def preloads_nccl(self) -> bool:
        """The patched libnccl.so.2 is put under it."""
        return self.uses_gpus

    @property
    def own_gpus(self) -> int | None:
        """How many GPUs it needs of each host; None: all that the site says there are."""
        return None if self.uses_gpus else 1

    @property
    def measured(self) -> int:
        """How many iterations there are, at most."""
        return self.iterations

    @property
    def looks_every(self) -> int:
        """Of so many iterations the result of one, the last, is looked at."""
        return 1

    @property
    def foreseen(self) -> int:
        """The first iteration whose begin is known when it comes, so that a fault can wait for it."""
        return 0

    def per_host(self, gpus: int) -> int:
        """How many ranks a host has, where it has so many GPUs."""
        return gpus if self.on_gpus else 1

    def rank_env(self, base: Mapping[str, str], place: Place) -> dict[str, str]:
        """The environment of one rank; `base`: what the arm and the testbed set."""
        return dict(base)

    def problems(self, hosts: int) -> Iterator[tuple[str, str]]:
        """What cannot be with so many hosts: (setting, why)."""
        return iter(())

    @classmethod
    def outside(cls) -> type[Workload]:
        """The same for `r2cc run`, where a user may say more than in an experiment."""
        return cls

    @classmethod
    def own(cls) -> dict[str, Any]:
        """The fields that are its kind's alone."""
        common = GpuWorkload if issubclass(cls, GpuWorkload) else Workload
        return {name: field for name, field in cls.model_fields.items() if name not in common.model_fields}


class GpuWorkload(Workload):
    """On torch, by harness/workloads/rank.py under the hosts' own Python; fields of its own are the rank's `--spec`."""

    on_gpus: ClassVar[bool] = True
    net: Literal["socket"] = "socket"
    corrupt: Annotated[StrictStr, Field(pattern=r"^\d+:\d+$")] | None = None
    """Self-test of the check: RANK:ITERATION where one element is changed afterwards."""
    restart_after_s: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """Arm `restart`: how long nothing moves before the job is ended and started again."""

    def spec(self, *, whole: bool = True) -> dict[str, Any]:
        """The settings of this kind alone; not `whole`: those that were given."""
        return self.model_dump(mode="json", include=set(self.own()), exclude_none=True, exclude_unset=not whole)

    def command(self, place: Place) -> list[str]:
        corrupt = place.corrupt or self.corrupt
        options: dict[str, object] = {
            **({} if place.rank is None else {"--rank": place.rank}),
            "--ranks": place.ranks,
            "--root": place.root,
            **({} if place.gpu is None else {"--gpu": place.gpu}),
            "--per-host": place.per_host,
            "--iterations": self.iterations,
            "--warmup": self.warmup,
            **({"--seconds": self.seconds} if self.seconds else {}),
            "--timeout-s": f"{self.timeout_s:g}",
            "--seed": place.seed,
            **({"--corrupt": corrupt} if corrupt else {}),
            "--spec": json.dumps(self.spec(whole=place.rank is not None), sort_keys=True),
        }
        words = [str(word) for option in options.items() for word in option]
        programs = place.programs
        return [*without(place.unset), programs.python, str(programs.rank), self.kind, *words]
