"""Nodes that the planner is asked about."""

from __future__ import annotations

from hypothesis import strategies as st

from harness.schedules.planner import Nic, Node


def nodes_of(lefts: list[list[float]], ranks: int = 1, rate_gbit: float = 10.0) -> tuple[Node, ...]:
    return tuple(
        Node(
            f"h{index}",
            tuple(range(index * ranks, (index + 1) * ranks)),
            tuple(Nic(f"eth{nic}", rate_gbit, capacity) for nic, capacity in enumerate(left)),
        )
        for index, left in enumerate(lefts)
    )


@st.composite
def clusters(draw: st.DrawFn, least: int = 1, most_nics: int = 4) -> tuple[Node, ...]:
    """Up to nine nodes of up to four NICs, some of which are slower or gone; none has lost all."""
    nics = draw(st.integers(1, most_nics))
    capacity = st.sampled_from([1.0, 1.0, 1.0, 1.0, 0.5, 0.25, 0.8125, 0.0])
    left = st.lists(capacity, min_size=nics, max_size=nics).filter(any)
    lefts = draw(st.lists(left, min_size=least, max_size=9))
    return nodes_of(lefts, draw(st.integers(1, 3)))
