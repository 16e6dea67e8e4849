"""The host bench: collectives of the net library's own, on host memory; no GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, StrictInt, StrictStr

from harness.errors import UsageError
from harness.workloads.bench import BenchSpec, bench_command
from harness.workloads.kinds.workload import MIB, Bytes, Place, Workload


class Bench(Workload):
    """The host bench and its size; defaults are the demo's."""

    about = "The host bench: all-reduces that are checked bit by bit; no GPU."
    kind: Literal["bench"] = "bench"
    op: Literal["allreduce", "stream", "alltoall"] = "allreduce"
    bytes: Bytes = 64 * MIB
    channels: Annotated[StrictInt, Field(gt=0, le=64)] = 4
    chunk_bytes: Annotated[StrictInt, Field(ge=4, le=64 * MIB, multiple_of=4)] = 128 * 1024
    slots: Annotated[StrictInt, Field(gt=0, le=32)] = 8
    connections_per_peer: Annotated[StrictInt, Field(gt=0, le=16)] = 1
    in_a_row: Annotated[StrictInt, Field(ge=1, le=16)] = 1
    """Operations of an iteration, one after the other; `bytes` are those of one."""
    idle_us: Annotated[StrictInt, Field(ge=0, le=100_000)] = 200
    """How long a rank sleeps when nothing moved; longer for emulated machines."""
    told_by: Literal["all", "net"] = "all"
    """How a rank hears of another's end while data moves: also from rank 0 of the bench, or by the net alone."""
    corrupt_carrier: Annotated[StrictStr, Field(pattern=r"^\d+:[^:/]+:[1-9]\d*$")] | None = None
    """Self-test of tools: RANK:NIC:LOSSES flips one bit once that NIC has lost its carrier so often."""

    def problems(self, hosts: int) -> Iterator[tuple[str, str]]:
        """Sums of sums stay exact where every sum is a power of two times the first."""
        if self.in_a_row > 1 and self.op == "allreduce" and hosts & (hosts - 1):
            yield "in_a_row", "all-reduces need 2, 4, 8, ... hosts for it: sums of sums are exact there"

    def command(self, place: Place) -> list[str]:
        """UsageError for one rank alone."""
        if place.ranks < 2:
            raise UsageError("the host bench needs two ranks or more", "--ranks-per-host 2, or more hosts")
        rank, _, iteration = place.corrupt.partition(":")
        spec = BenchSpec(
            **self.model_dump(exclude={"kind", "timeout_s"}),
            seed=place.seed,
            merge_nics=place.merge_nics,
            timeout_s=max(1, round(self.timeout_s)),
            late=place.late,
            corrupt=(int(rank), int(iteration)) if rank else None,
        )
        programs = place.programs
        return bench_command(
            programs.bench, spec, rank=place.rank, ranks=place.ranks, root=place.root, library=programs.net,
            unset=place.unset,
        )  # fmt: skip
