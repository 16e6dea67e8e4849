"""What all workloads that are not ours share: ranks and their GPUs, what is put under them, where they start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictInt, StrictStr

from harness.facts.local_gpus import visible
from harness.workloads.bench import without
from harness.workloads.kinds.workload import Place, Seconds, Small, Workload

RUN = "R2CC_RUN"
"""Which run a process belongs to, wherever it went: by it all of them are found and ended."""
OUT = "R2CC_OUT"
"""The folder of a rank in one run, where it leaves files; made before it starts, gone afterwards."""
IN_FOLDER = 'mkdir -p "$R2CC_OUT" && cd "$1" && shift && exec "$@" 2>&1'
"""A fixed script. Its arguments: the folder to start in, and the program."""
Name = Annotated[StrictStr, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class Program(Workload):
    """Programs of others. Ranks find their place in the variables that torchrun sets, too."""

    foreign: ClassVar[bool] = True
    env: Mapping[Name, StrictStr] = Field(default_factory=dict)
    """Of every rank, over all that we set."""
    cwd: StrictStr = "."
    """Where ranks start; on each host."""
    ranks_per_host: Small = 1
    gpus_per_rank: Annotated[StrictInt, Field(ge=0, le=64)] = 0
    """More than 0: ranks of a host share its GPUs out among them, by CUDA_VISIBLE_DEVICES."""
    preload: Literal["nccl", "plugin", "none"] = "none"
    """What puts R2CC under it: the patched libnccl.so.2, or the net plugin; none: it brings its own."""
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
        return self.uses_gpus

    @property
    def preloads_nccl(self) -> bool:
        return self.preload == "nccl"

    @property
    def own_gpus(self) -> int | None:
        return max(1, self.ranks_per_host * self.gpus_per_rank)

    @property
    def digest(self) -> str | None:
        """A file in $R2CC_OUT with a rank's result."""
        return None

    def per_host(self, gpus: int) -> int:
        return self.ranks_per_host

    def started(self, place: Place, words: list[str], script: str = IN_FOLDER) -> list[str]:
        """These words, in the folder where ranks start, with what must not be seen taken from the environment."""
        return [*without(place.unset), "sh", "-c", script, "r2cc", self.cwd, *words]

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
            mine = dict.fromkeys((first + index) % place.cards for index in range(own))
            found["CUDA_VISIBLE_DEVICES"] = visible(list(mine))
        return {**found, **self.env}

    def problems(self, hosts: int) -> Iterator[tuple[str, str]]:
        if self.preload == "nccl" and not self.gpus_per_rank:
            yield "preload", "the patched NCCL needs GPUs: say gpus_per_rank"
