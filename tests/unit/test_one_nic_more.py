"""One NIC more makes no plan slower: where that holds, and how far it does not elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.build import build_net
from harness.progress import silent
from harness.schedules import planner
from harness.schedules.costs import model
from harness.schedules.planner import Node, Request
from tests.unit.plan_cases import clusters, nodes_of

pytestmark = [pytest.mark.build, pytest.mark.timeout(400)]


@pytest.fixture(scope="module", autouse=True)
def _library() -> Iterator[None]:
    """Built already in `make test`; from nothing otherwise."""
    build_net(progress=silent)
    yield


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    clusters(least=2), st.sampled_from([1 << 14, 1 << 22, 1 << 28, 1 << 34]), st.sampled_from([0, 1, 2]),
    st.sampled_from(["lab", "roce-100g", "ib-400g", "nvlink"]), st.randoms(use_true_random=False),
)  # fmt: skip
def test_one_nic_more_never_makes_a_plan_slower(
    nodes: tuple[Node, ...], size: int, planes: int, profile: str, random: Random
) -> None:
    """Where there is a spine; where there is none and one node alone lost something. But for the margins by which a
    special schedule must be faster than another, and than what runs otherwise, to be taken; and chains' shapes are
    not searched to the end: 6.3 % is the most that was found, at 4 MiB, of NICs that lost parts of their rate."""
    broken = [(node, nic) for node, each in enumerate(nodes) for nic, it in enumerate(each.nics) if it.capacity < 1]
    assume(broken and (planes == 1 or len({node for node, _ in broken}) == 1))
    node, nic = random.choice(broken)
    nics = list(nodes[node].nics)
    nics[nic] = replace(nics[nic], capacity=1.0)
    mended = (*nodes[:node], replace(nodes[node], nics=tuple(nics)), *nodes[node + 1 :])
    before, after = (
        planner.plan(Request(each, size, planes=planes, **model.load(profile).values)) for each in (nodes, mended)
    )
    assert after.predicted_us <= before.predicted_us * 1.07


def one_more(nodes: tuple[Node, ...], random: Random) -> tuple[Node, ...]:
    """One of the NICs that lost something is whole again."""
    broken = [(node, nic) for node, each in enumerate(nodes) for nic, it in enumerate(each.nics) if it.capacity < 1]
    if not broken:
        return nodes
    node, nic = random.choice(broken)
    nics = list(nodes[node].nics)
    nics[nic] = replace(nics[nic], capacity=1.0)
    return (*nodes[:node], replace(nodes[node], nics=tuple(nics)), *nodes[node + 1 :])


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    clusters(least=2), st.integers(0, 3), st.sampled_from([1 << 14, 1 << 22, 1 << 28, 1 << 34]),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_one_nic_more_is_no_slower_where_connections_make_room(
    nodes: tuple[Node, ...], planes: int, size: int, random: Random
) -> None:
    """Whatever is gone or slower, on any fabric, but for two margins: among schedules, and over what runs otherwise.
    The same cases each time: where nodes stand in a tree is not searched to the end, and one case of 300 was over that
    once."""
    cost: planner.Cost = {"even_rails": 0}
    before, after = (
        planner.plan(Request(each, size, planes=planes, cost=cost)).predicted_us
        for each in (nodes, one_more(nodes, random))
    )
    assert after <= before * 1.02**2


@pytest.mark.parametrize(
    ("lefts", "more"),
    [
        ([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 0]], (0, 3)),  # alone on its rail: 1.29 x before
        ([[0, 1, 0], [0, 1, 1]], (0, 0)),  # alone, too, and nodes have as much left
        ([[1, 0], [0, 1]], (0, 1)),  # the first rail that two nodes share: 2.0 x
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], (0, 1)),
        ([[1, 1, 1, 0], [0, 0, 0.25, 0.25], [1, 0.8125, 0, 0.25]], (1, 3)),  # more than others take up: 1.21 x
        (
            [
                [0.8125, 0, 1],
                [0.25, 1, 1],
                [0.8125, 0.5, 1],
                [1, 0.8125, 0.8125],
                [1, 0.25, 0],
                [1, 0, 0],
                [0.8125, 1, 1],
            ],
            (6, 0),  # 1.23 x
        ),
        (
            [
                [1, 1, 0.5],
                [0, 1, 0.25],
                [0, 1, 0.25],
                [0.5, 1, 1],
                [1, 1, 0.5],
                [1, 1, 0.5],
                [1, 1, 0.5],
                [0, 0, 1],
                [0.25, 0, 0.8125],
            ],
            (0, 2),  # 1.065 x at 4 MiB: as if it had as little left as before suits better, though others have more
        ),
    ],
)
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_nic_that_nobody_reaches_or_that_does_not_suit_is_no_loss(
    lefts: list[list[float]], more: tuple[int, int], ranks: int
) -> None:
    mended = [list(left) for left in lefts]
    mended[more[0]][more[1]] = 1
    for size in (4 << 20, 1 << 32):
        before, after = (
            planner.plan(Request(nodes_of(each, ranks), size, cost={"even_rails": 0})).predicted_us
            for each in (lefts, mended)
        )
        assert after <= before * 1.021


def test_nodes_without_a_rail_in_common_have_a_way_as_wide_as_one_nic() -> None:
    plan = planner.plan(Request(nodes_of([[1, 1, 0, 0], [0, 0, 1, 1]]), 1 << 34))
    assert plan.bound_us == pytest.approx((1 << 34) / (10 * 125))
    assert "share no rail that works" in plan.why


def test_one_nic_more_is_rarely_slower_where_connections_spread_evenly() -> None:
    """No law: the net spreads a connection over all rails that both ends have, and none of these can be left out. The
    same 400 cases each time."""
    random = Random(11)
    ratios: list[float] = []
    while len(ratios) < 400:
        nics = random.randint(1, 4)
        lefts = [[random.choice([1.0, 1.0, 1.0, 0.0]) for _ in range(nics)] for _ in range(random.randint(2, 9))]
        if not all(any(left) for left in lefts):
            continue
        nodes = nodes_of(lefts, random.randint(1, 3))
        size = random.choice([1 << 14, 1 << 22, 1 << 28, 1 << 34])
        before, after = (planner.plan(Request(each, size)).predicted_us for each in (nodes, one_more(nodes, random)))
        ratios.append(after / before)
    assert sum(ratio > 1.02**2 for ratio in ratios) <= 12
    assert max(ratios) <= 1.34


def nccl_us(nodes: tuple[Node, ...], cycles: tuple[tuple[int, ...], ...]) -> float:
    """What `auto` takes on channels with homes, at the size that NCCL asks with."""
    homes = tuple(range(len(nodes[0].nics)))
    cost: planner.Cost = {"even_rails": 0, "chunk_bytes": 32 << 10, "most_chunk_bytes": 512 << 10}
    nccl = planner.NcclMachine(channels=max(2, len(homes)))
    asked = Request(nodes, 256 << 20, cycles=cycles, rewired=True, homes=homes, nccl=nccl, cost=cost)
    return planner.plan(asked).predicted_us


def test_one_nic_more_is_hardly_ever_slower_as_nccl_asks() -> None:
    """A channel at home on the NIC that is back leaves the others, and nothing can keep it from that. So this is no
    law: the same 200 cases each time (11.8 % was the furthest found in 2,500 others, of which three were slower by more
    than the margin)."""
    random = Random(7)
    ratios: list[float] = []
    while len(ratios) < 200:
        nics = random.randint(2, 4)
        lefts = [[1.0] * nics for _ in range(random.randint(3, 8))]
        gone = {(random.randrange(len(lefts)), random.randrange(1, nics)) for _ in range(random.randint(1, 4))}
        for node, nic in gone:
            lefts[node][nic] = 0.0
        nodes = nodes_of(lefts, random.randint(1, 2))
        orders = [random.sample(range(len(nodes)), len(nodes)) for _ in range(min(3, len(nodes) - 1))]
        cycles = tuple(tuple(rank for node in order for rank in nodes[node].ranks) for order in orders)
        ratios.append(nccl_us(one_more(nodes, random), cycles) / nccl_us(nodes, cycles))
    assert max(ratios) <= 1.02


Left = tuple[tuple[float, ...], ...]
CYCLES = {
    3: ((0, 1, 2), (0, 2, 1)),
    4: ((0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2)),
    5: ((0, 1, 2, 3, 4), (0, 2, 4, 1, 3), (0, 3, 1, 4, 2)),
}


def with_one_more(left: Left) -> Iterator[Left]:
    for node, nics in enumerate(left):
        for nic, capacity in enumerate(nics):
            if capacity == 0:
                yield (*left[:node], (*nics[:nic], 1.0, *nics[nic + 1 :]), *left[node + 1 :])


def slower_by_one_more(nodes: int, nics: int, most_lost: int) -> dict[tuple[Left, Left], float]:
    """Of every way in which up to so many NICs can be lost, and every one of these that comes back: what is slower by
    more than the margin."""
    each = [left for left in product((0.0, 1.0), repeat=nics) if any(left)]
    us: dict[Left, float] = {
        left: nccl_us(nodes_of([list(of) for of in left]), CYCLES[nodes])
        for left in product(each, repeat=nodes)
        if sum(nic == 0 for of in left for nic in of) <= most_lost
    }
    steps = ((left, more) for left in us for more in with_one_more(left))
    return {(left, more): us[more] / us[left] for left, more in steps if us[more] > us[left] * 1.02}


@pytest.mark.parametrize(("nodes", "nics", "most_lost"), [(3, 2, 3), (3, 3, 6), (4, 2, 4), (5, 2, 5), (3, 4, 3)])
def test_no_nic_more_makes_a_small_cluster_slower_as_nccl_asks(nodes: int, nics: int, most_lost: int) -> None:
    """All cases there are, not drawn ones."""
    assert slower_by_one_more(nodes, nics, most_lost) == {}


def test_of_four_nodes_those_are_slower_that_pair_by_what_they_lost() -> None:
    """All that is left of 4 nodes of 3 NICs that lost up to four: two nodes lost one NIC, two another one, and one of
    the four gets its own back. Its channels go home then, where the other's of its pair cannot. In one case of each
    ratio all ways in which chains and rings can lie on the channels were tried, by another program: none is less than
    6.6 % slower."""
    slower = slower_by_one_more(4, 3, 4)
    for (left, _), ratio in slower.items():
        assert all(left.count(of) == 2 and sum(of) == 2 for of in left) and ratio <= 1.12
    assert len(slower) == 16


@pytest.mark.parametrize(
    ("lefts", "more"),
    [([[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 1]], (0, 2)), ([[0, 1, 1], [0, 1, 0], [1, 0, 1]], (1, 2))],
)
def test_nodes_that_are_equally_slow_by_different_nics_get_more_than_a_ring(
    lefts: list[list[float]], more: tuple[int, int]
) -> None:
    """A plain ring took 1.50 and 1.31 times as long here as the plan with one NIC less."""
    mended = [list(left) for left in lefts]
    mended[more[0]][more[1]] = 1
    for cycles in (None, ((0, 1, 2), (1, 0, 2))):
        homes = None if cycles is None else tuple(range(len(lefts[0])))
        before, after = (
            planner.plan(Request(nodes_of(each), 1 << 32, cycles=cycles, homes=homes, cost={"even_rails": 0}))
            for each in (lefts, mended)
        )
        assert after.schedule != "ring" and "nodes have different NICs left" in after.why
        assert after.predicted_us <= before.predicted_us * 1.021
