"""Draws rounds from the whole matrix of faults: kind x side x how many x when x traffic. Pure: a seed gives a round."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Any

from chaos.experiment.model import Experiment, Hypothesis
from chaos.faults.catalogue import example
from chaos.faults.fault import Fault
from chaos.faults.registry import kinds, spec_of
from chaos.faults.spec import FaultSpec
from chaos.faults.support import beds
from harness.errors import UsageError
from harness.lab.topology import Topology
from harness.workloads.kinds.bench import Bench
from harness.workloads.kinds.nccl_tests import NcclTests
from harness.workloads.kinds.workload import Workload

Nic = tuple[str, str]

EXTENTS = {"one": 12, "both_ends": 3, "two": 3, "all_but_one": 2, "all": 1}
GAP_S = (0.15, 1.1)
"""From one fault to the next; the mean is about 0.6 s."""
TOGETHER_MS = (0.0, 15.0)
BACK_S = 0.1
"""The shortest probation: a fault this long after another one's end strikes while connections go home."""
MARGIN_S = 0.35
"""A NIC is left alone so long after a fault on it: undoing takes some time on a busy machine."""
SETTLE_S = 3
FIRST_S = 0.5
PACE_S = 0.3
"""No iteration of the bench takes longer on average: what strikes at an iteration comes early rather than never."""
MOST_CYCLES = 100_000


@dataclass(frozen=True)
class Shape:
    """A bed and its traffic."""

    hosts: int
    nics: int
    rate_gbit: float
    workload: Mapping[str, Any]
    rdma: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    """What the arm's ranks are told besides."""
    under: Experiment | None = None
    """Somebody's own: its topology, workload and arms are used."""
    cycle_s: float = 0.0
    """Of a program that is told how many cycles to run: how long one takes when nothing is broken."""

    @property
    def bed(self) -> str:
        """As the catalogue calls it."""
        return "vm lab" if self.rdma else "lab"

    @property
    def comes_late(self) -> bool:
        """Whether its ranks can be told to be late: the bench's can."""
        return self.under is None or isinstance(self.under.workload, Bench)

    @property
    def topology(self) -> dict[str, Any]:
        return {"hosts": self.hosts, "nics": self.nics, "rate_gbit": self.rate_gbit}

    @property
    def by_host(self) -> dict[str, list[str]]:
        return {f"h{host}": [f"eth{nic}" for nic in range(self.nics)] for host in range(self.hosts)}


SHAPES = (
    Shape(4, 4, 0.2, {"op": "allreduce", "bytes": 4 << 20, "channels": 4}),
    Shape(4, 4, 0.2, {"op": "allreduce", "bytes": 4 << 20, "channels": 4, "connections_per_peer": 4}),
    Shape(3, 2, 0.2, {"op": "alltoall", "bytes": 1 << 20, "channels": 2}),
    Shape(2, 4, 0.2, {"op": "stream", "bytes": 2 << 20, "channels": 1}),
    Shape(2, 2, 0.2, {"op": "stream", "bytes": 1 << 20, "channels": 16, "chunk_bytes": 16384}),
    Shape(3, 3, 0.2, {"op": "allreduce", "bytes": 1 << 20, "channels": 3, "chunk_bytes": 65536, "slots": 4}),
)

VM_TRAFFIC: tuple[dict[str, Any], ...] = (
    {"op": "allreduce", "bytes": 128 << 10, "slots": 4},
    {"op": "stream", "bytes": 128 << 10, "slots": 8},
    {"op": "alltoall", "bytes": 128 << 10, "slots": 2, "connections_per_peer": 2},
)
VM_ENV = {"NCCL_IB_TIMEOUT": "16", "R2CC_IB_DOWN_PORTS": "1"}
"""1.9 s of the NIC's own retries: 0.5 s end queue pairs that are well, where other work leaves guests no processor. A
port that is down while ranks start is one of theirs: as stock, they would leave it out for good, and nothing would
happen to them on it."""
VM_SHAPES = tuple(
    Shape(2, 2, 0.02, {"net": "ib", "channels": 2, "chunk_bytes": 8192, "idle_us": 2000, **traffic}, True, VM_ENV)
    for traffic in VM_TRAFFIC
)
"""One pair of guests with two soft-RoCE NICs each; iterations of a tenth of a second in emulation."""


def weights(shape: Shape) -> Mapping[str, int]:
    """How often each kind is drawn, relative to the others: all that the bed carries and that say how often, those of
    plug-ins, too."""
    found = {name: _weight(kind, shape) for name, kind in kinds().items()}
    return {name: weight for name, weight in found.items() if weight > 0 and carried(name, shape.bed)}


def carried(kind: str, bed: str) -> bool:
    """Whether such a bed can carry the kind at all."""
    return bed in beds(example(kind), example(kind, inside=True))


def _weight(kind: type[Fault], shape: Shape) -> int:
    if kind.Settings.by_workload and not shape.comes_late:
        return 0
    return kind.drawn if kind.drawn_over_rdma is None or not shape.rdma else kind.drawn_over_rdma


@dataclass
class Timeline:
    """Faults drawn so far, and until when each NIC and each rank or host is taken."""

    rng: random.Random
    shape: Shape
    faults: list[FaultSpec] = field(default_factory=list)
    taken: dict[Any, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.weights = weights(self.shape)

    def add(self, at_s: float, kind: str | None = None) -> float | None:
        """One fault at about that time; returns when it ends. None when what was drawn is broken already."""
        kind = kind or _pick(self.rng, self.weights)
        words = self._words(kind)
        words["at"] = self._at(kind, at_s)
        words |= {"id": f"f{len(self.faults):03}", "kind": kind, "allow_total_loss": True, "may_miss": True}
        spec = spec_of(words)
        places: list[Any] = spec.targets(self.shape.by_host) or [(kind, spec.rank, spec.host, spec.at.iteration)]
        if any(self.taken.get(place, 0.0) > at_s for place in places):
            return None
        end_s = at_s + spec.lasts_s
        self.taken |= dict.fromkeys(places, end_s + MARGIN_S if spec.at.iteration is None else inf)
        self.faults.append(spec)
        return end_s

    def _at(self, kind: str, at_s: float) -> dict[str, Any]:
        """What ranks do by themselves they do at an iteration, which is told them at their start."""
        if kinds()[kind].Settings.by_workload:
            return {"iteration": iteration_at(at_s)}
        return {"time_s": round(at_s, 4)}

    def _words(self, kind: str) -> dict[str, Any]:
        """Where, how long, how bad."""
        rng, where = self.rng, kinds()[kind].Settings.where
        words: dict[str, Any] = {}
        if where == "nics":
            words["nics"] = [f"{host}:{nic}" for host, nic in self._nics()]
        elif where == "rail":
            words["rail"] = rng.randrange(self.shape.nics)
        elif where == "rank":
            words["rank"] = rng.randrange(self.shape.hosts)
        else:
            words["host"] = f"h{rng.randrange(self.shape.hosts)}"
        return words | kinds()[kind].draw(rng)

    def _nics(self) -> list[Nic]:
        rng, hosts = self.rng, self.shape.by_host
        extent = _pick(rng, EXTENTS)
        host = rng.choice(list(hosts))
        names = hosts[host]
        if extent == "both_ends":
            other = rng.choice([name for name in hosts if name != host])
            return [(host, rng.choice(names)), (other, rng.choice(names))]
        count = {"one": 1, "two": min(2, len(names)), "all_but_one": len(names) - 1, "all": len(names)}[extent]
        return [(host, name) for name in sorted(rng.sample(names, max(1, count)))]


def round_of(seed: int, number: int, *, arm: str, seconds: float, shapes: Sequence[Shape] = SHAPES) -> Experiment:
    """Round `number` of the soak with that seed: the same every time, whatever rounds came before."""
    rng = random.Random(f"{seed}/{number}")
    shape = shapes[(number + seed) % len(shapes)]
    line = Timeline(rng, shape)
    at_s = FIRST_S
    while at_s < seconds:
        end_s = line.add(at_s)
        if end_s is not None and rng.random() < 0.25:
            line.add(at_s + rng.uniform(*TOGETHER_MS) / 1000)
        if end_s is not None and rng.random() < 0.15:
            line.add(end_s + BACK_S + rng.uniform(0, 0.05))
        at_s += rng.uniform(*GAP_S)
    faults = sorted(line.faults, key=time_of) + _while_connecting(rng, shape)
    return experiment_of(f"soak-{seed}-{number}", shape, faults, arm, seed=rng.randrange(2**31))


def _while_connecting(rng: random.Random, shape: Shape) -> list[FaultSpec]:
    """In half of the rounds one NIC is gone when the ranks start, and comes back while they connect."""
    if rng.random() < 0.5:
        return []
    nic = f"h{rng.randrange(shape.hosts)}:eth{rng.randrange(shape.nics)}"
    at = {"launch_s": round(rng.uniform(0.0, 0.3), 3)}
    words = {"id": "connect", "kind": rng.choice(("link_down", "black_hole")), "nics": [nic], "may_miss": True}
    return [spec_of({**words, "at": at, "duration_s": 0.4, "allow_total_loss": True})]


def own_shape(experiment: Experiment, topology: Topology) -> Shape:
    """That of somebody's own experiment. Raises UsageError where its workload cannot be told how long to run, or does
    not look at what it gets."""
    workload = experiment.workload
    if why := _unfit(workload):
        raise UsageError(
            f"--under: the workload {workload.kind} of {experiment.name} {why}",
            "name an experiment such as experiments/gpu/collectives.yaml",
        )
    if topology.hosts < 2:
        raise UsageError(f"--under: {experiment.name} has one host, and faults are between hosts", "name another one")
    return Shape(topology.hosts, topology.nics, topology.rate_gbit, {"net": workload.net}, under=experiment)


def _unfit(workload: Workload) -> str:
    """Why there can be no soak under it; empty: there can."""
    if workload.net != "socket":
        return "needs RDMA"
    if isinstance(workload, NcclTests):
        return "" if workload.check else "has check: false, so that nobody looks at its results"
    return "is a program of its own, which runs no given time" if workload.foreign else ""


def experiment_of(name: str, shape: Shape, faults: Sequence[FaultSpec], arm: str, *, seed: int) -> Experiment:
    """A round as an experiment; it ends some seconds after its last fault."""
    more = {"iterations": 1_000_000, "seconds": seconds_of(faults), "timeout_s": 60.0}
    if shape.under is not None:
        more["timeout_s"] = max(60.0, shape.under.workload.timeout_s)
        workload = shape.under.workload
        if not isinstance(workload, NcclTests):
            workload = workload.model_copy(update=more)
        elif shape.cycle_s:
            workload = cycling(workload, seconds_of(faults) / shape.cycle_s)
        judged = {"expect": "holds", "hypothesis": {}}
        alone = {each: own.model_copy(update=judged) for each, own in shape.under.arms.items() if each == arm}
        own = {"name": name, "workload": workload, "faults": tuple(faults), "seed": seed, "repeats": 1}
        return shape.under.model_copy(update={**own, "arms": alone, "hypothesis": Hypothesis()})
    words = {
        "name": name,
        "description": "A round of the soak.",
        "topology": shape.topology,
        "workload": {**shape.workload, **more},
        "faults": [fault.model_dump(exclude_none=True) for fault in faults],
        "arms": {arm: {"expect": "holds", "env": dict(shape.env)}},
        "seed": seed,
    }
    return Experiment.model_validate(words)


def cycling(workload: NcclTests, cycles: float) -> NcclTests:
    """With so many cycles; as the program has them, at least two."""
    return workload.model_copy(update={"cycles": min(MOST_CYCLES, max(2, ceil(cycles)))})


def cycles_of(shape: Shape) -> int | None:
    """Of a program that can be told only how many to do, as its experiment says; None of what is told for how long."""
    workload = None if shape.under is None else shape.under.workload
    return workload.cycles if isinstance(workload, NcclTests) else None


def lasting(experiment: Experiment, faults: Sequence[FaultSpec]) -> Workload:
    """The workload of a round that has only these of its faults."""
    workload = experiment.workload
    if isinstance(workload, NcclTests):
        return cycling(workload, workload.cycles * seconds_of(faults) / seconds_of(experiment.faults))
    return workload.model_copy(update={"seconds": seconds_of(faults)})


def iteration_at(time_s: float) -> int:
    """One that begins by then."""
    return 1 + int(time_s / PACE_S)


def time_of(fault: FaultSpec) -> float:
    """When it strikes, at the latest where that is at an iteration, in seconds after the first one began."""
    return fault.at.time_s or PACE_S * ((fault.at.iteration or 1) - 1)


def seconds_of(faults: Sequence[FaultSpec]) -> int:
    """How long the workload has to run for all of them."""
    ends = [time_of(fault) + fault.lasts_s for fault in faults]
    return int(max(ends, default=0.0)) + 1 + SETTLE_S


def _pick(rng: random.Random, weights: Mapping[str, int]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]
