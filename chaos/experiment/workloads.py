"""The `workload` section of an experiment: the host bench, or a workload on GPUs (harness/workloads), by its `kind`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StrictInt, StrictStr, Tag

from chaos.faults.spec import Model, Seconds
from harness.launch import settings
from harness.launch.settings import MIB, Bytes, Count, Small


class Workload(Model):
    """What all kinds have."""

    kind: StrictStr = "bench"
    net: Literal["socket", "ib"] = "socket"
    """`ib` needs a bed with RDMA devices: --inventory vm."""
    iterations: Count = 40
    warmup: Annotated[StrictInt, Field(ge=0, le=1000)] = 2
    timeout_s: Seconds = 120.0
    seconds: Annotated[StrictInt, Field(ge=0, le=86400)] = 0
    """Not 0: iterations end after so many seconds, or when `iterations` are done, whichever is first."""


class Bench(Workload):
    """The host bench and its size; defaults are the demo's."""

    kind: Literal["bench"] = "bench"
    op: Literal["allreduce", "stream", "alltoall"] = "allreduce"
    bytes: Bytes = 64 * MIB
    channels: Annotated[StrictInt, Field(gt=0, le=64)] = 4
    chunk_bytes: Annotated[StrictInt, Field(ge=4, le=64 * MIB, multiple_of=4)] = 128 * 1024
    slots: Annotated[StrictInt, Field(gt=0, le=32)] = 8
    connections_per_peer: Annotated[StrictInt, Field(gt=0, le=16)] = 1
    in_a_row: Annotated[StrictInt, Field(ge=1, le=16)] = 1
    """All-reduces of an iteration, one after the other; `bytes` are those of one."""
    idle_us: Annotated[StrictInt, Field(ge=0, le=100_000)] = 200
    """How long a rank sleeps when nothing moved; longer for emulated machines."""
    corrupt_carrier: Annotated[StrictStr, Field(pattern=r"^\d+:[^:/]+:[1-9]\d*$")] | None = None
    """Self-test of tools: RANK:NIC:LOSSES flips one bit once that NIC has lost its carrier so often."""


class GpuWorkload(Workload):
    """Runs under real NCCL, one rank a GPU; fields beyond Workload's are the rank's `--spec`."""

    net: Literal["socket"] = "socket"
    corrupt: Annotated[StrictStr, Field(pattern=r"^\d+:\d+$")] | None = None
    """Self-test of the check: RANK:ITERATION where one element is changed afterwards."""
    restart_after_s: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """Arm `restart`: how long nothing moves before the job is ended and started again."""

    def spec(self) -> dict[str, Any]:
        """The settings of this kind alone."""
        return {name: value for name, value in self.model_dump().items() if name not in GpuWorkload.model_fields}


class Collectives(settings.Collectives, GpuWorkload):
    """Collectives through torch, all elements checked."""

    kind: Literal["collectives"]


class Ddp(settings.Ddp, GpuWorkload):
    """Training of a small GPT with torch's DistributedDataParallel."""

    kind: Literal["ddp"]


class Megatron(settings.Megatron, GpuWorkload):
    """Training of a GPT with Megatron-core; ranks that tensor and pipeline parallelism leave are replicas."""

    kind: Literal["megatron"]


class Decode(settings.Decode, GpuWorkload):
    """Inference with tensor parallelism: an iteration is a batch of requests, prefill and all tokens."""

    kind: Literal["decode"]


class Graphs(GpuWorkload):
    """CUDA graphs of all-reduces: an iteration is a replay."""

    kind: Literal["graphs"]
    bytes: Bytes = 4 * MIB
    count: Small = 8
    recapture_every: Annotated[StrictInt, Field(ge=0, le=1_000_000)] = 0
    """Iterations; 0: never."""


class Lifecycle(GpuWorkload):
    """Communicators made, used and ended in every way; an iteration is one pass over all cases."""

    kind: Literal["lifecycle"]
    cases: tuple[StrictStr, ...] = ()
    """None: all that there are."""
    limit_s: Seconds = 30.0
    """Of a case."""
    bytes: Bytes = 4 * MIB
    comms: Small = 4


KINDS: dict[str, type[Workload]] = {
    "bench": Bench,
    "collectives": Collectives,
    "ddp": Ddp,
    "megatron": Megatron,
    "decode": Decode,
    "graphs": Graphs,
    "lifecycle": Lifecycle,
}


def kind_of(section: Any) -> str:
    """Of a `workload` section: the bench where none is named, or none that there is (whose model then says so)."""
    kind = section.get("kind") if isinstance(section, dict) else getattr(section, "kind", None)
    return kind if isinstance(kind, str) and kind in KINDS else "bench"


AnyWorkload = Annotated[
    Annotated[Bench, Tag("bench")]
    | Annotated[Collectives, Tag("collectives")]
    | Annotated[Ddp, Tag("ddp")]
    | Annotated[Megatron, Tag("megatron")]
    | Annotated[Decode, Tag("decode")]
    | Annotated[Graphs, Tag("graphs")]
    | Annotated[Lifecycle, Tag("lifecycle")],
    Discriminator(kind_of),
]
