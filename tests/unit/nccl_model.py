"""What NCCL's algorithms take, by NCCL's constants, written down again: tests hold the planner to it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from harness.schedules.planner import AlgorithmCost, Cost, Gpu, NcclMachine, Nic, Node, Request

MOST_CHANNELS, CHUNK, MOST_CHUNK = 24, 32 << 10, 512 << 10
PROTOCOLS = ("ll", "ll128", "simple")
SIMPLE = PROTOCOLS.index("simple")
BASE = {"ring": (6.6, 14, 8.4), "tree": (6.8, 14, 8.4)}
NET = {"ring": (2.7, 4.0, 14), "tree": (5.0, 8.5, 14)}
LOCAL = {"ring": (0.6, 1.9, 3.4), "tree": (0.6, 1.25, 4.0)}
# NCCL's src/graph/tuning.cc, of more than two nodes: GB/s of one channel, and the share that NVLS reaches. Blackwell's
# NVLSTree is 2.30's: 2.29 has 43.8.
CHANNEL_GBPS: dict[Gpu, dict[str, float]] = {
    "volta": {"tree": 10.0, "tree_ll128": 20.0, "ring_ll128": 20.0, "nvls": 0.0, "reaches": 0.0},
    "ampere": {"tree": 17.8, "tree_ll128": 20.0, "ring_ll128": 20.0, "nvls": 0.0, "reaches": 0.0},
    "hopper": {"tree": 36.0, "tree_ll128": 29.0, "ring_ll128": 36.7, "nvls": 45.5, "reaches": 0.85},
    "blackwell": {"tree": 24.0, "tree_ll128": 20.0, "ring_ll128": 40.0, "nvls": 80.0, "reaches": 0.74},
}
TREE_REACHES = {
    "ll": "1 1 1 1 .9 .8 .7 .7 .7 .7 .6 .5 .4 .4 .5 .6 .7 .8 .9 1 1 1 1",
    "ll128": "1 1 1 1 1 .9 .8 .8 .8 .7 .6 .6 .6 .6 .6 .6 .8 .9 .9 .9 .9 1 1",
    "simple": ".9 .9 .9 .9 .9 .9 .9 .8 .7 .6 .6 .5 .5 .5 .5 .6 .7 .8 .7 .7 .8 .9 .9",
}
WIRE = {"ll": 2.0, "ll128": 128 / 120, "simple": 1.0}
BYTES_PER_US_OF_GBIT, BYTES_PER_US_OF_GBPS = 125.0, 1000.0


@dataclass(frozen=True)
class Measured:
    """What a file of costs (R2CC_COSTS) says otherwise: of hops of protocol Simple between nodes, in us, what rings and
    trees reach of their bandwidth, and what a rank's thread moves, each way, and takes for a chunk."""

    ring_hop_us: float = 14
    tree_hop_us: float = 14
    ring_efficiency: float = 1
    tree_efficiency: float = 1
    rank_GBps: float = 0
    rank_chunk_us: float = 0


BY_TABLE = Measured()


@dataclass(frozen=True)
class Cluster:
    """With NVLink, a NIC on every rail; `lost`: node and rail; `partly`: node, rail and what is left. Rails are apart.

    `hop_us`: of schedules alone, at least, as through sockets; NCCL goes by its table. `one_home`: the communicator's
    channels are all at home on one NIC of each node, and others' on the rest."""

    nodes: int
    gpus: int
    nics: int
    rate_gbit: float
    nvls: bool
    lost: frozenset[tuple[int, int]]
    rewired: bool = False
    gpu: Gpu = "hopper"
    partly: frozenset[tuple[int, int, float]] = frozenset()
    hop_us: float = 0
    one_home: bool = False
    measured: Measured = BY_TABLE

    @property
    def ranks(self) -> int:
        return self.nodes * self.gpus

    @property
    def channels(self) -> int:
        return max(2, self.nics)

    @property
    def bus_GBps(self) -> float:
        return (1 if self.pooled else self.nics) * self.rate_gbit / 8

    @property
    def pooled(self) -> bool:
        """Rails do not count: it has its part of what a node has left."""
        return self.one_home and self.nics > 1

    def capacity(self, node: int, rail: int) -> float:
        partly = {(at, on): left for at, on, left in self.partly}
        return 0.0 if (node, rail) in self.lost else partly.get((node, rail), 1.0)

    def rates(self, node: int) -> list[float]:
        """Of each rail, what is left of it: bytes a us."""
        left = [self.capacity(node, rail) for rail in range(self.nics)]
        return [
            each * self.rate_gbit * BYTES_PER_US_OF_GBIT for each in ([sum(left) / self.nics] if self.pooled else left)
        ]

    def common(self, a: int, b: int) -> list[float]:
        """What both have left of each rail."""
        return [min(pair) for pair in zip(self.rates(a), self.rates(b), strict=True)]

    def exchange(self, a: int, b: int) -> float:
        """Over all rails; without any there is another way, as wide as the slowest NIC of either."""
        slowest = min(rate for node in (a, b) for rate in self.rates(node) if rate > 0)
        return sum(self.common(a, b)) or slowest

    def left(self, node: int) -> float:
        """What others can take up of a node's NICs; if that is nothing: the slowest, by another way."""
        every = [self.rates(other) for other in range(self.nodes) if other != node]
        mine = self.rates(node)
        reached = sum(min(rate, sum(other[rail] for other in every)) for rail, rate in enumerate(mine))
        return reached or min(rate for rate in mine if rate > 0)

    def request(self) -> Request:
        """As r2cc_patches/nccl/schedules.cc asks."""
        draw, count = Random(7), max(1, min(MOST_CHANNELS // self.nics, self.nodes - 1))
        ranks = [tuple(range(node * self.gpus, (node + 1) * self.gpus)) for node in range(self.nodes)]
        cycles = tuple(tuple(rank for node in draw.sample(ranks, self.nodes) for rank in node) for _ in range(count))

        def nics(node: int) -> tuple[Nic, ...]:
            return tuple(Nic(str(rail), self.rate_gbit, self.capacity(node, rail)) for rail in range(self.nics))

        return Request(
            tuple(Node(f"h{node}", ranks[node], nics(node)) for node in range(self.nodes)),
            256 << 20,
            channels=count + 1,
            cycles=cycles,
            homes=(0,) * self.nics if self.one_home else tuple(range(self.nics)),
            rewired=self.rewired,
            nccl=self._machine(),
            cost=self._cost(),
        )

    def _machine(self) -> NcclMachine:
        known = self.measured
        ring = AlgorithmCost(hop_us=known.ring_hop_us, efficiency=known.ring_efficiency)
        tree = AlgorithmCost(hop_us=known.tree_hop_us, efficiency=known.tree_efficiency)
        nvls = 1 if self.nvls else 0
        return NcclMachine(self.gpu, nvls=nvls, channels=self.channels, ring=ring, tree=tree)

    def _cost(self) -> Cost:
        cost: Cost = {"even_rails": 0, "chunk_bytes": CHUNK, "most_chunk_bytes": MOST_CHUNK}
        known = self.measured
        cost |= {"rank_GBps": known.rank_GBps, "rank_chunk_us": known.rank_chunk_us} if known.rank_GBps else {}
        return cost | {"hop_us": self.own_hop_us}  # type: ignore[return-value]

    @property
    def own_hop_us(self) -> float:
        """Chains run on NCCL's tree kernel."""
        return max(self.hop_us, self.measured.tree_hop_us)


class Way(NamedTuple):
    """An algorithm and protocol of NCCL. `us_per_byte`: of the busiest node on what it has left."""

    name: str
    table_us: float
    """on whole NICs: what NCCL chooses by"""
    takes_us: float
    """the same as it was measured"""
    latency_us: float
    us_per_byte: float

    def us(self, size: int) -> float:
        """The least that it can take on balanced paths."""
        return max(self.takes_us, self.latency_us + self.us_per_byte * size)


def ways(cluster: Cluster, size: int) -> Iterator[Way]:
    for index in range(len(PROTOCOLS)):
        yield ring_way(cluster, size, index)
        yield _tree_way(cluster, size, index)
    if cluster.nvls and cluster.gpus > 1 and CHANNEL_GBPS[cluster.gpu]["nvls"] > 0:
        yield _nvls_way(cluster, size)


def ring_way(cluster: Cluster, size: int, index: int = SIMPLE) -> Way:
    n, p, protocol, known = cluster.ranks, cluster.nodes, PROTOCOLS[index], cluster.measured
    most, channels, bus = CHANNEL_GBPS[cluster.gpu], cluster.channels, cluster.bus_GBps
    gbps = {"ll": min(20.4, bus / 2), "ll128": min(0.92 * bus, channels * most["ring_ll128"]), "simple": bus}[protocol]
    local = max(LOCAL["ring"][index], 3.0 if protocol == "simple" else 1.0)
    net = NET["tree" if cluster.gpus == 1 else "ring"]
    inside, hops = BASE["ring"][index] + (2 * (n - 1) - 2 * (p - 1)) * local, 2 * (p - 1) * net[index]
    latency = inside + hops * known.ring_hop_us / net[SIMPLE]
    plateau = 1.4 if protocol == "simple" and size // (channels * n) >= 64 else 1.0
    load, band = 2 * (n - 1) / n, size / (gbps * n / (2 * (n - 1)) * BYTES_PER_US_OF_GBPS)
    return Way(
        f"ring/{protocol}",
        (inside + hops) * plateau + band,
        latency * plateau + band / known.ring_efficiency,
        latency,
        _us_per_byte(cluster, ring(p, load), WIRE[protocol], known.ring_efficiency),
    )


def _tree_way(cluster: Cluster, size: int, index: int) -> Way:
    p, protocol, known = cluster.nodes, PROTOCOLS[index], cluster.measured
    most, channels = CHANNEL_GBPS[cluster.gpu], cluster.channels
    gbps = min(0.92 * cluster.bus_GBps, channels * most["tree"])
    if protocol != "simple":
        gbps = min(gbps / 3.8, 20.4) if protocol == "ll" else min(gbps * 120 / 128, channels * most["tree_ll128"])
    factors, step = TREE_REACHES[protocol].split(), int(math.log2(size)) - 6
    gbps *= float(factors[step]) if 0 <= step < len(factors) else 1.0
    inside = BASE["tree"][index] + 2 * (cluster.gpus - 1) * LOCAL["tree"][index]
    hops = 2 * int(math.log2(p)) * NET["tree"][index]
    band, latency = size / (gbps / 2 * BYTES_PER_US_OF_GBPS), inside + hops * known.tree_hop_us / NET["tree"][SIMPLE]
    return Way(
        f"tree/{protocol}",
        inside + hops + band,
        latency + band / known.tree_efficiency,
        latency,
        _us_per_byte(cluster, edges_of(p), WIRE[protocol], known.tree_efficiency),
    )


def _nvls_way(cluster: Cluster, size: int) -> Way:
    n, p, channels, most = cluster.ranks, cluster.nodes, cluster.channels, CHANNEL_GBPS[cluster.gpu]
    inside = 360 / channels * most["reaches"] * (channels - 1) / channels * 2
    gbps = channels * min(inside, cluster.bus_GBps / channels, most["nvls"]) * n / (2 * (n - 1))
    latency = 25 + 2 * int(math.log2(p)) * 20.9
    us = latency + size / (gbps * BYTES_PER_US_OF_GBPS)
    return Way("nvlstree/simple", us, us, latency, _us_per_byte(cluster, edges_of(p), 1, 1))


Edges = dict[tuple[int, int], float]


def _us_per_byte(cluster: Cluster, edges: Edges, wire: float, efficiency: float) -> float:
    """Of the busiest node, of the slowest two neighbours, and of the busiest rank's thread."""
    loads = loads_of(edges, cluster.nodes)
    slowest = max(busiest(cluster, loads), between(cluster, edges)) * wire / efficiency
    return max(slowest, thread_us_per_byte(cluster, max(loads) * wire))


def thread_us_per_byte(cluster: Cluster, load: float) -> float:
    """A node's ranks share what goes over the network."""
    moves = cluster.measured.rank_GBps * BYTES_PER_US_OF_GBPS
    return load / cluster.gpus / moves if moves else 0.0


def loads_of(edges: Edges, nodes: int) -> list[float]:
    """Messages that each node sends."""
    loads = [0.0] * nodes
    for (a, _), load in edges.items():
        loads[a] += load
    return loads


def edges_of(nodes: int) -> Edges:
    """NCCL's double tree by its children (the planner goes by parents), half of a message in each, both ways."""
    found: Edges = defaultdict(float)
    edges = [(0, 1 << (nodes - 1).bit_length() - 1)]
    for node in range(1, nodes):
        step = (node & -node) // 2
        edges += [(node, node - step)] if step else []
        while step and node + step >= nodes:
            step //= 2
        edges += [(node, node + step)] if step else []
    other = [nodes - 1 - node if nodes % 2 == 0 else (node + 1) % nodes for node in range(nodes)]
    for parent, child in edges:
        for a, b in ((parent, child), (child, parent)):
            found[a, b] += 0.5
            found[other[a], other[b]] += 0.5
    return found


def ring(nodes: int, load: float) -> Edges:
    return {(node, (node + 1) % nodes): load for node in range(nodes)}


def between(cluster: Cluster, edges: Edges) -> float:
    """us a byte of the slowest two neighbours."""
    return max(load / cluster.exchange(*ends) for ends, load in edges.items())


def busiest(cluster: Cluster, loads: list[float]) -> float:
    """us a byte."""
    return max(load / cluster.left(node) for node, load in enumerate(loads))


def balance(cluster: Cluster, size: int) -> tuple[str, float]:
    """What NCCL chooses, and the least that it can take on balanced paths."""
    way = min(ways(cluster, size), key=lambda way: way.table_us)
    return way.name, way.us(size)
