"""What a plan takes that NCCL runs (nccl_model): hops, pipelines that fill, and the busiest NIC, link or thread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from harness.schedules.planner import Part, Plan
from tests.unit.nccl_model import (
    BYTES_PER_US_OF_GBIT,
    CHANNEL_GBPS,
    CHUNK,
    MOST_CHUNK,
    Cluster,
    ring_way,
    thread_us_per_byte,
)


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


def spread(cluster: Cluster, ends: tuple[int, int], home: int, turn: int | None) -> list[float]:
    """Each rail's share of what a channel sends: its home's, as far as both have it, and the others take the rest, as
    they are left. In turn: one of the others, where both have them whole."""
    both, whole = cluster.common(*ends), cluster.rate_gbit * BYTES_PER_US_OF_GBIT
    on = [rail for rail, rate in enumerate(both) if rate > 0]
    if not on:
        return [1.0] * len(both)  # the way is as wide as one NIC, and keeps all busy
    if turn is not None and home not in on and all(cluster.rates(end)[rail] == whole for end in ends for rail in on):
        on = [on[turn % len(on)]]
    others = sum(both[rail] for rail in on if rail != home)
    kept = both[home] / whole if others else 1.0
    shares = {rail: kept if rail == home else (1 - kept) * both[rail] / others for rail in on}
    return [shares.get(rail, 0.0) for rail in range(len(both))]


def busy_us(cluster: Cluster, plan: Plan, ring_load: float) -> float:
    """us a byte of the busiest NIC."""
    busy: dict[tuple[str, int, int], float] = defaultdict(float)

    def send(a: int, b: int, home: int, load: float, turn: int | None) -> None:
        for rail, share in enumerate(spread(cluster, (a, b), home, turn)):
            for way, node in (("out", a), ("in", b)):
                rate = cluster.rates(node)[rail]
                busy[way, node, rail] += load * share / rate if rate else 0.0

    for part, turn in zip(plan.parts, turns(plan), strict=True):
        homes = homes_of(cluster, part)
        each = part.share / len(homes)
        for home in homes:
            for a, b in lines(cluster, part):
                send(a, b, home, each * (ring_load if part.kind == "ring" else 1), turn)
                if part.kind != "ring":
                    send(b, a, home, each, turn)
    return max(busy.values())


def homes_of(cluster: Cluster, part: Part) -> list[int]:
    """Places in the nodes' lists of NICs."""
    homes = part.homes or range(cluster.nics)
    return [0 if cluster.pooled else home for home in homes]


class _Pipe(NamedTuple):
    """A channel of a chain or tree: its share of the message, and hops."""

    share: float
    hops: int

    def chunk(self, size: int) -> float:
        most = min(MOST_CHUNK, self.share * size / self.hops / 32)
        return min(max(CHUNK, most), self.share * size)


def ours(cluster: Cluster, plan: Plan, size: int) -> float:
    """Rings alone run as NCCL's ring/Simple does."""
    n, load = cluster.ranks, 2 * (cluster.ranks - 1) / cluster.ranks
    as_nccl = ring_way(cluster, size)
    pipes = [pipe for part in plan.parts if part.kind != "ring" for pipe in _pipes_of(cluster, part)]
    latency = max(_latency_us(cluster, part, as_nccl.latency_us) for part in plan.parts)
    us_per_byte = busy_us(cluster, plan, load / cluster.measured.ring_efficiency)
    if not pipes:
        us_per_byte = max(us_per_byte, thread_us_per_byte(cluster, load))
        return max(as_nccl.takes_us, latency + us_per_byte * size)
    of_a_channel = 500 * CHANNEL_GBPS[cluster.gpu]["tree"]
    us_per_byte = max(
        us_per_byte, *(pipe.share / of_a_channel for pipe in pipes), _thread_us(cluster, plan, pipes, size)
    )
    if n > cluster.nodes:
        us_per_byte = max(us_per_byte, 2 * sum(pipe.share for pipe in pipes) / 360e3)
    fills = [(pipe.hops - 1) * pipe.chunk(size) * us_per_byte / pipe.share for pipe in pipes]
    return latency + us_per_byte * size + sum(fills) / len(fills)


def _pipes_of(cluster: Cluster, part: Part) -> list[_Pipe]:
    channels = len(homes_of(cluster, part))
    return [_Pipe(part.share / channels, 2 * deepest(lines(cluster, part)))] * channels


def _latency_us(cluster: Cluster, part: Part, of_nccl: float) -> float:
    n, p, hop_us = cluster.ranks, cluster.nodes, cluster.own_hop_us
    if part.kind == "ring":
        return max(of_nccl, 2 * (n - 1) / n * (p * hop_us + (n - p) * 4))
    return 8.4 + 2 * deepest(lines(cluster, part)) * hop_us + 2 * (n - p) * 4


def _thread_us(cluster: Cluster, plan: Plan, pipes: list[_Pipe], size: int) -> float:
    """us a byte of the busiest rank's thread. Less than a chunk costs it as much; rings have chunks as small."""
    ring_load, each_us = 2 * (cluster.ranks - 1) / cluster.ranks, cluster.measured.rank_chunk_us
    least = min(max(pipe.chunk(size), CHUNK) for pipe in pipes)
    bytes_of: dict[int, float] = defaultdict(float)
    chunks_us: dict[int, float] = defaultdict(float)
    for part in plan.parts:
        chunk = least if part.kind == "ring" else _pipes_of(cluster, part)[0].chunk(size)
        for a, b in lines(cluster, part):
            for node, load in ((a, ring_load), (b, 0.0)) if part.kind == "ring" else ((a, 1.0), (b, 1.0)):
                bytes_of[node] += part.share * load
                chunks_us[node] += part.share * load * each_us / chunk
    return max(thread_us_per_byte(cluster, bytes_of[node]) + chunks_us[node] / cluster.gpus for node in bytes_of)
