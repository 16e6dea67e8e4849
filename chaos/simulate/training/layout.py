"""How a model is spread over GPUs: data, tensor and pipeline parallelism, and which hosts that makes a group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from chaos.simulate.training.models import Model
from harness.errors import InputErrors

SMALLEST, LARGEST = 2, 16384
DEFAULTS = {"gpt-7b": (1, 1, 1), "gpt-13b": (2, 1, 1), "gpt-175b": (8, 8, 3)}
"""Tensor, pipeline, interleave. 7B and 13B fit into one and two GPUs of 80 GB with a sharded optimizer (NeMo's
published ones for Llama 2 7B and 13B are 1 x 1 and 1 x 4); 175B is 8 x 8 x 3 as in Korthikanti et al. 2022, table 3."""


class Machines(Protocol):
    """What of a topology counts here (chaos.simulate.cluster.topology.Topology has it)."""

    @property
    def hosts(self) -> int: ...
    @property
    def gpus(self) -> int: ...
    @property
    def nics(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Layout:
    """Ranks are numbered tensor first, then data, then pipeline (Megatron's default order), hosts one after the other.

    `batch`: sequences of an iteration. `interleave`: model chunks a pipeline stage (SC'21, section 2.2.2)."""

    dp: int
    tp: int
    pp: int
    batch: int
    micro_batch: int = 1
    interleave: int = 1

    @property
    def gpus(self) -> int:
        return self.dp * self.tp * self.pp

    @property
    def microbatches(self) -> int:
        """Of each pipeline in an iteration."""
        return self.batch // (self.dp * self.micro_batch)


def default_layout(model: Model, gpus: int) -> Layout:
    """The layout that is written down for the model; the batch grows once data parallelism passes it.

    At least as many microbatches as pipeline stages, so that the pipeline fills."""
    tp, pp, interleave = DEFAULTS.get(model.name, (1, 1, 1))
    if gpus % (tp * pp):
        raise InputErrors([f"{model.name} is spread over {tp} x {pp} GPUs: {gpus} is no multiple of {tp * pp}"])
    dp = gpus // (tp * pp)
    step = dp * (pp if pp > 1 else 1)
    return Layout(dp=dp, tp=tp, pp=pp, batch=max(1, round(model.batch / step)) * step, interleave=interleave)


def check(layout: Layout, model: Model, topology: Machines) -> None:
    """Raises InputErrors with all that is wrong."""
    problems = list(_problems(layout, model, topology))
    if problems:
        raise InputErrors(problems)


def _problems(layout: Layout, model: Model, topology: Machines) -> Iterator[str]:
    there, local = topology.hosts * topology.gpus, topology.gpus
    small = {name: getattr(layout, name) for name in ("dp", "tp", "pp", "batch", "micro_batch", "interleave")}
    low = [f"{name} is {value}: at least 1" for name, value in small.items() if value < 1]
    if low:
        yield from low
        return
    if layout.gpus != there:
        shape = f"dp {layout.dp} x tp {layout.tp} x pp {layout.pp}"
        yield f"{shape} = {layout.gpus} GPUs, the topology has {topology.hosts} x {local} = {there}"
    if not SMALLEST <= layout.gpus <= LARGEST:
        yield f"{layout.gpus} GPUs: from {SMALLEST} to {LARGEST}"
    if local % layout.tp and layout.tp % local:
        yield f"tp {layout.tp} does not divide a host's {local} GPUs, nor is it a multiple of them"
    elif layout.tp > local and topology.nics == 0:
        yield f"tp {layout.tp} spans hosts, which have no NICs"
    stage = layout.dp * layout.tp
    if stage % local and local % stage:
        yield f"a pipeline stage has dp x tp = {stage} GPUs: neither whole hosts of {local} nor a part of one"
    if model.hidden % layout.tp or model.heads % layout.tp:
        yield f"tp {layout.tp} does not divide {model.name}'s {model.heads} heads"
    if model.layers % (layout.pp * layout.interleave):
        yield f"pp {layout.pp} x interleave {layout.interleave} does not divide {model.name}'s {model.layers} layers"
    if layout.batch % (layout.dp * layout.micro_batch):
        yield f"batch {layout.batch} is no multiple of dp {layout.dp} x micro_batch {layout.micro_batch}"
    elif layout.interleave > 1 and layout.microbatches % layout.pp:
        yield f"with interleave, {layout.microbatches} microbatches must be a multiple of pp {layout.pp}"


@dataclass(frozen=True, slots=True)
class Placement:
    """Which hosts form a data-parallel group: `nodes` of them, `ranks` of it on each, `groups` at once on them."""

    stage_hosts: int
    slots: int
    nodes: int
    ranks: int
    groups: int
    replicas_a_host: int

    def group(self, host: int) -> int:
        """Groups of hosts are numbered by stage, then by slot (tensor parallelism over several hosts)."""
        return (host // self.stage_hosts) * self.slots + host % self.slots

    def replica(self, host: int, gpu_share: float) -> int:
        """Which data-parallel replica the GPU at `gpu_share` (0 to 1, exclusive) of a host works for."""
        if self.slots > 1:
            return (host % self.stage_hosts) // self.slots
        return (host % self.stage_hosts) * self.replicas_a_host + int(gpu_share * self.replicas_a_host)


def placement(layout: Layout, topology: Machines) -> Placement:
    """With a stage that is smaller than a host, its group stays inside (nodes 1)."""
    local = topology.gpus
    slots = max(1, layout.tp // local)
    stage_hosts = max(1, layout.dp * layout.tp // local)
    ranks = max(1, min(local, layout.dp * layout.tp) // min(layout.tp, local))
    return Placement(stage_hosts, slots, stage_hosts // slots, ranks, min(layout.tp, local), ranks)
