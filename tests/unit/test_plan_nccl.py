"""Never slower than what NCCL would run: the planner as NCCL asks it, against NCCL's constants, written down again."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.build import build_net
from harness.progress import silent
from harness.schedules import planner
from harness.schedules.planner import Gpu, NcclMachine, Nic, Node, Part, Plan, Request

pytestmark = [pytest.mark.build, pytest.mark.timeout(400)]
SIZES = (*(1 << power for power in range(3, 33)), 3 << 20, 3 << 28)
NO_SLOWER = 1.02
MOST_CHANNELS, CHUNK, MOST_CHUNK = 24, 32 << 10, 512 << 10
GPUS: tuple[Gpu, ...] = ("volta", "ampere", "hopper", "blackwell")
PROTOCOLS = ("ll", "ll128", "simple")
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


@pytest.fixture(scope="module", autouse=True)
def _library() -> Iterator[None]:
    build_net(progress=silent)
    yield


@dataclass(frozen=True)
class Cluster:
    """With NVLink, a NIC on every rail; `lost`: node and rail. Rails are apart."""

    nodes: int
    gpus: int
    nics: int
    rate_gbit: float
    nvls: bool
    lost: frozenset[tuple[int, int]]
    rewired: bool = False
    gpu: Gpu = "hopper"

    @property
    def ranks(self) -> int:
        return self.nodes * self.gpus

    @property
    def nic_bytes_per_us(self) -> float:
        return self.rate_gbit * 125

    @property
    def channels(self) -> int:
        return max(2, self.nics)

    def common(self, a: int, b: int) -> list[int]:
        """Rails that both have left."""
        return [rail for rail in range(self.nics) if not {(a, rail), (b, rail)} & self.lost]

    def left(self, node: int) -> int:
        """NICs that another node reaches; one if there is none: then there is another way."""
        return max(1, len({rail for other in range(self.nodes) if other != node for rail in self.common(node, other)}))

    def request(self) -> Request:
        """As r2cc_patches/nccl/schedules.cc asks."""
        draw, count = Random(7), max(1, min(MOST_CHANNELS // self.nics, self.nodes - 1))
        ranks = [tuple(range(node * self.gpus, (node + 1) * self.gpus)) for node in range(self.nodes)]
        cycles = tuple(tuple(rank for node in draw.sample(ranks, self.nodes) for rank in node) for _ in range(count))

        def nics(node: int) -> tuple[Nic, ...]:
            return tuple(
                Nic(str(rail), self.rate_gbit, 0.0 if (node, rail) in self.lost else 1.0) for rail in range(self.nics)
            )

        return Request(
            tuple(Node(f"h{node}", ranks[node], nics(node)) for node in range(self.nodes)),
            256 << 20,
            channels=count + 1,
            cycles=cycles,
            homes=tuple(range(self.nics)),
            rewired=self.rewired,
            nccl=NcclMachine(self.gpu, nvls=1 if self.nvls else 0, channels=self.channels),
            cost={"even_rails": 0, "chunk_bytes": CHUNK, "most_chunk_bytes": MOST_CHUNK},
        )


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    nodes, nics = draw(st.sampled_from([4, 5, 8, 16, 31, 64])), draw(st.sampled_from([1, 2, 4, 8]))
    lost: frozenset[tuple[int, int]] = frozenset()
    if nics > 1:
        pairs = st.tuples(st.integers(0, nodes - 1), st.integers(0, nics - 1))
        some = st.frozensets(pairs, min_size=1, max_size=draw(st.sampled_from([3, 10])))
        lost = draw(some.filter(lambda gone: all(sum(at == node for at, _ in gone) < nics for node in range(nodes))))
    rate = draw(st.sampled_from([2.0, 25.0, 100.0, 400.0]))
    return Cluster(
        nodes,
        draw(st.sampled_from([1, 2, 4, 8])),
        nics,
        rate,
        draw(st.booleans()),
        lost,
        draw(st.booleans()),
        draw(st.sampled_from(GPUS)),
    )


def ways(cluster: Cluster, size: int) -> Iterator[tuple[str, float, float, float]]:
    """Of each algorithm and protocol: name, us on whole NICs by NCCL's table, us of latency, us a byte of the busiest
    node on what it has left."""
    n, p, bus = cluster.ranks, cluster.nodes, cluster.nics * cluster.rate_gbit / 8
    most, channels = CHANNEL_GBPS[cluster.gpu], cluster.channels
    for index, protocol in enumerate(PROTOCOLS):
        gbps = {"ll": min(20.4, bus / 2), "ll128": min(0.92 * bus, channels * most["ring_ll128"]), "simple": bus}[
            protocol
        ]
        local = max(LOCAL["ring"][index], 3.0 if protocol == "simple" else 1.0)
        net = NET["tree" if cluster.gpus == 1 else "ring"][index]
        latency = BASE["ring"][index] + (2 * (n - 1) - 2 * (p - 1)) * local + 2 * (p - 1) * net
        plateau = 1.4 if protocol == "simple" and size // (channels * n) >= 64 else 1.0
        load = 2 * (n - 1) / n
        yield (
            f"ring/{protocol}",
            latency * plateau + size / (gbps * n / (2 * (n - 1)) * 1000),
            latency,
            WIRE[protocol] * max(busiest(cluster, [load] * p), between(cluster, ring(p, load))),
        )
        gbps = min(0.92 * bus, channels * most["tree"])
        if protocol != "simple":
            gbps = min(gbps / 3.8, 20.4) if protocol == "ll" else min(gbps * 120 / 128, channels * most["tree_ll128"])
        factors, step = TREE_REACHES[protocol].split(), int(math.log2(size)) - 6
        gbps *= float(factors[step]) if 0 <= step < len(factors) else 1.0
        latency = BASE["tree"][index] + 2 * (
            (cluster.gpus - 1) * LOCAL["tree"][index] + int(math.log2(p)) * NET["tree"][index]
        )
        yield (
            f"tree/{protocol}",
            latency + size / (gbps / 2 * 1000),
            latency,
            WIRE[protocol] * max(busiest(cluster, tree(p)), between(cluster, edges_of(p))),
        )
    if cluster.nvls and cluster.gpus > 1 and most["nvls"] > 0:
        inside = 360 / channels * most["reaches"] * (channels - 1) / channels * 2
        gbps = channels * min(inside, bus / channels, most["nvls"]) * n / (2 * (n - 1))
        latency = 25 + 2 * int(math.log2(p)) * 20.9
        yield (
            "nvlstree/simple",
            latency + size / (gbps * 1000),
            latency,
            max(busiest(cluster, tree(p)), between(cluster, edges_of(p))),
        )


def tree(nodes: int) -> list[float]:
    """NCCL's double tree by its children (the planner goes by parents): messages that each node sends, half in each."""
    loads = [0.0] * nodes
    for (a, _), load in edges_of(nodes).items():
        loads[a] += load
    return loads


def edges_of(nodes: int) -> dict[tuple[int, int], float]:
    """The same from node to node."""
    found: dict[tuple[int, int], float] = defaultdict(float)
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


def ring(nodes: int, load: float) -> dict[tuple[int, int], float]:
    return {(node, (node + 1) % nodes): load for node in range(nodes)}


def between(cluster: Cluster, edges: dict[tuple[int, int], float]) -> float:
    """us a byte of the slowest two neighbours, on the rails that both have left; of none on as much as one."""
    rails = {(a, b): max(1, len(cluster.common(a, b))) for a, b in edges}
    return max(load / (rails[ends] * cluster.nic_bytes_per_us) for ends, load in edges.items())


def busiest(cluster: Cluster, loads: list[float]) -> float:
    """us a byte."""
    return max(load / (cluster.left(node) * cluster.nic_bytes_per_us) for node, load in enumerate(loads))


def balance(cluster: Cluster, size: int) -> tuple[str, float]:
    """What NCCL chooses, and the least that it can take on balanced paths."""
    name, us, latency, us_per_byte = min(ways(cluster, size), key=lambda way: way[1])
    return name, max(us, latency + us_per_byte * size)


def tree_links(cluster: Cluster, part: Part) -> list[tuple[int, int]]:
    """Parent and child, of nodes, from the root down."""
    at = [rank // cluster.gpus for rank in part.order]
    ends = zip(part.parents or (), at, strict=True)
    return [(at[parent], node) for parent, node in ends if parent >= 0 and at[parent] != node]


def deepest(links: list[tuple[int, int]]) -> int:
    depth: dict[int, int] = defaultdict(int)
    for above, below in links:
        depth[below] = depth[above] + 1
    return max(depth.values())


def turns(plan: Plan) -> list[int | None]:
    """Of each part that goes over the NICs that are left in turn (docs/internals/schedules-in-nccl.md): the number of
    its cycle, as each has one channel at home on each NIC. None: it spreads over them."""
    return [part.cycle if plan.in_turn else None for part in plan.parts]


def nodes_of(cluster: Cluster, ranks: Sequence[int]) -> list[int]:
    """In the order in which they are met."""
    return list(dict.fromkeys(rank // cluster.gpus for rank in ranks))


def lines(cluster: Cluster, part: Part) -> list[tuple[int, int]]:
    """Who sends whom, of nodes: round a ring; along a chain or tree down alone."""
    order = nodes_of(cluster, part.order)
    if part.kind == "ring":
        return list(zip(order, [*order[1:], order[0]], strict=True))
    return list(pairwise(order)) if part.kind == "chain" else tree_links(cluster, part)


def busy_us(cluster: Cluster, plan: Plan, ring_load: float) -> float:
    """us a byte of the busiest NIC."""
    busy: dict[tuple[str, int, int], float] = defaultdict(float)

    def send(a: int, b: int, home: int, load: float, turn: int | None) -> None:
        both = cluster.common(a, b)
        over = [home] if home in both else both
        if turn is not None and over:
            over = [over[turn % len(over)]]
        for rail in over or range(cluster.nics):  # without any the way is as wide as one NIC, and keeps all busy
            busy["out", a, rail] += load / max(1, len(over))
            busy["in", b, rail] += load / max(1, len(over))

    for part, turn in zip(plan.parts, turns(plan), strict=True):
        homes = part.homes or tuple(range(cluster.nics))
        each = part.share / len(homes)
        for home in homes:
            for a, b in lines(cluster, part):
                send(a, b, home, each * (ring_load if part.kind == "ring" else 1), turn)
                if part.kind != "ring":
                    send(b, a, home, each, turn)
    return max(busy.values()) / cluster.nic_bytes_per_us


def ours(cluster: Cluster, plan: Plan, size: int) -> float:
    """Chains or trees beside a ring: hops, filling, and the busiest NIC, block of threads or link inside a node."""
    n, p = cluster.ranks, cluster.nodes
    latency, chained, local = 0.0, 0.0, 2 * (n - p)
    fills: list[tuple[float, int]] = []  # of each channel of chains and trees: its share, and hops
    for part in plan.parts:
        homes = part.homes or tuple(range(cluster.nics))
        each = part.share / len(homes)
        if part.kind == "ring":
            latency = max(latency, 2 * (n - 1) / n * (p * 14 + (n - p) * 4))
            continue
        hops = 2 * deepest(lines(cluster, part))
        chained += part.share
        fills += [(each, hops)] * len(homes)
        latency = max(latency, 8.4 + hops * 14 + local * 4)
    us_per_byte = busy_us(cluster, plan, 2 * (n - 1) / n)
    us_per_byte = max(us_per_byte, *(each / (500 * CHANNEL_GBPS[cluster.gpu]["tree"]) for each, _ in fills))
    if cluster.gpus > 1:
        us_per_byte = max(us_per_byte, 2 * chained / 360e3)
    fill = 0.0
    for each, hops in fills:
        chunk = min(max(CHUNK, min(MOST_CHUNK, each * size / hops / 32)), each * size)
        fill += (hops - 1) * chunk * us_per_byte / each / len(fills)
    return latency + us_per_byte * size + fill


@given(cluster=clusters())
@example(cluster=Cluster(4, 8, 4, 2.0, nvls=True, lost=frozenset({(1, 0)}), rewired=False))  # in turn
@example(cluster=Cluster(4, 1, 8, 2.0, nvls=False, lost=frozenset({(0, 6)})))  # two of its cycles are alike
@settings(max_examples=60, deadline=None)
def test_a_schedule_never_runs_where_nccl_on_balanced_paths_is_faster(cluster: Cluster) -> None:
    plan = planner.plan(cluster.request())
    assert plan.baselines is not None
    beaten = {each.name: each.beaten_from_bytes for each in plan.baselines}
    if all(part.kind == "ring" for part in plan.parts):
        return
    for size in SIZES:
        name, us = balance(cluster, size)
        least = beaten[name]
        if least is not None and size >= least:
            assert ours(cluster, plan, size) <= NO_SLOWER * us, (name, size)


@given(cluster=clusters(), op=st.sampled_from(["allgather", "reducescatter"]))
@settings(max_examples=60, deadline=None)
def test_rings_in_another_order_gather_no_slower_than_the_ring_on_balanced_paths(
    cluster: Cluster, op: Literal["allgather", "reducescatter"]
) -> None:
    """These have no table of costs here: NCCL's ring is what they are compared with, by the busiest NIC."""
    p, half = cluster.nodes, (cluster.ranks - 1) / cluster.ranks
    balanced = max(busiest(cluster, [half] * p), between(cluster, ring(p, half)))
    plan = planner.plan(replace(cluster.request(), op=op, nccl=None))
    assert all(part.kind == "ring" for part in plan.parts)
    if plan.schedule == "reranked":
        assert busy_us(cluster, plan, half) <= NO_SLOWER * balanced


@pytest.mark.parametrize("nodes", [3, 4, 7, 16, 33, 100])
def test_two_slots_of_the_double_tree_are_light_or_one(nodes: int) -> None:
    loads = tree(nodes)
    assert sum(loads) == 2 * (nodes - 1) and max(loads) <= 2.0
    assert [node for node, load in enumerate(loads) if load == 1.0] == ([0, nodes - 1] if nodes % 2 == 0 else [1])


def test_known_cases() -> None:
    four = Cluster(4, 8, 8, 400.0, nvls=True, lost=frozenset({(1, 0)}))
    assert {name: round(latency, 1) for name, _, latency, _ in ways(four, 64)}["tree/ll"] == 35.2
    for size in (64, 16 << 10, 1 << 20):
        plan = planner.plan(replace(four.request(), bytes=size))
        assert plan.schedule == "ring" and "NCCL's" in plan.why
    tiny = planner.plan(replace(four.request(), bytes=64))
    found = {each.name: each for each in tiny.baselines or ()}
    assert found["tree/ll"].healthy_us == pytest.approx(35.2, abs=0.1)
    assert {part.kind for part in tiny.parts} == {"ring"}
    many = Cluster(16, 8, 8, 400.0, nvls=True, lost=frozenset({(1, 0)}))
    plan = planner.plan(replace(many.request(), bytes=64 << 20))
    assert {each.name: round(each.healthy_us) for each in plan.baselines or ()}["nvlstree/simple"] == 558
    assert plan.schedule == "ring"


def test_slow_nics_take_chains() -> None:
    lab = Cluster(4, 1, 2, 2.0, nvls=False, lost=frozenset({(0, 0)}))
    plan = planner.plan(replace(lab.request(), bytes=64 << 20))
    assert plan.schedule == "chain" and plan.threshold_bytes is not None and plan.threshold_bytes <= 4 << 20
    assert balance(lab, 64 << 20)[0].startswith("ring")
