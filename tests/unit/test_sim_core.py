"""The solver: what it remembers, what it is told, and that what is known of collectives holds of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chaos.simulate import params
from chaos.simulate.cluster import topology_files as topologies
from chaos.simulate.core import solver as core
from chaos.simulate.core.order import canonical, places, rails_alike
from chaos.simulate.core.params import EXACT
from chaos.simulate.core.solver import ARMS, Case, Shape, Solver, ask
from harness.build import build_net
from harness.errors import BuildError, UsageError
from harness.progress import silent

pytestmark = [pytest.mark.build, pytest.mark.timeout(400)]
WHOLE = (1.0,) * 4
LEFT = st.tuples(*[st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.0])] * 4).filter(any)
GIB = 1 << 30


@pytest.fixture(scope="module", autouse=True)
def _library() -> Iterator[None]:
    build_net(progress=silent)
    yield


@given(st.lists(LEFT, min_size=3, max_size=6), st.sampled_from(ARMS), st.booleans())
@settings(max_examples=60, deadline=None)
def test_nothing_beats_the_bound_and_bytes_are_kept(nodes: list[Any], arm: str, spine: bool) -> None:
    solver = Solver(Shape(8, nics=4, spine=spine), EXACT)
    found = solver.collective("allreduce", GIB, nodes, arm)
    assert found.time_us >= found.bound_us * (1 - 1e-9)
    if found.time_us == math.inf:
        assert arm in ("stock", "upstream", "kv_replication") or not spine
        return
    rows = canonical(tuple(left for left in nodes if left != WHOLE), rails_alike(arm, 1, 4))
    tx, rx = solver.nic_bytes(Case("allreduce", GIB, len(nodes), rows, arm))
    assert sum(map(sum, tx)) == pytest.approx(sum(map(sum, rx)), rel=1e-12)
    placed = dict(zip(places(len(nodes), len(rows)), rows, strict=True))
    for host, sent in enumerate(tx):
        left = placed.get(host, WHOLE)
        assert all(bytes == 0 for share, bytes in zip(left, sent, strict=True) if share == 0)
        rate = 400 * 125
        assert all(b <= share * rate * found.time_us * (1 + 1e-9) for share, b in zip(left, sent, strict=True))


QUARTERS = [(0.0, 0.0, 0.25, 0.25), (0.0, 0.25, 0.0, 0.25), (0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 0.25, 0.25)]


@given(
    st.lists(LEFT, min_size=3, max_size=6),
    st.sampled_from(ARMS),
    st.sampled_from([1, 2, 3, 4, 8]),
    st.permutations(range(6)),
    st.permutations(range(4)),
)
@example(QUARTERS, "allreduce", 1, [1, 0, 2, 3, 4, 5], [0, 1, 2, 3])
@settings(max_examples=60, deadline=None)
def test_which_host_and_rail_it_is_does_not_matter(
    nodes: list[Any], arm: str, groups: int, hosts: list[int], rails: list[int]
) -> None:
    """Hosts change places always, rails where NICs are home to as much each."""
    moved = [nodes[host] for host in hosts if host < len(nodes)]
    if rails_alike(arm, groups, 4):
        moved = [tuple(left[rail] for rail in rails) for left in moved]
    one, other = (
        Solver(Shape(8, nics=4)).collective("allreduce", GIB, some, arm, groups=groups) for some in (nodes, moved)
    )
    assert one.time_us == other.time_us


@given(st.lists(LEFT, min_size=1, max_size=5), st.permutations(range(5)), st.permutations(range(4)))
@settings(max_examples=200, deadline=None)
def test_alike_states_have_one_form_and_others_have_not(rows: list[Any], hosts: list[int], rails: list[int]) -> None:
    moved = tuple(tuple(rows[host][rail] for rail in rails) for host in hosts if host < len(rows))
    form = canonical(tuple(rows), True)
    assert form == canonical(moved, True)
    every = (tuple(sorted(tuple(row[nic] for nic in order) for row in rows)) for order in permutations(range(4)))
    assert form in set(every)


def test_what_was_solved_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def counted(request: Any, library: Path | None) -> Any:
        asked.append(request)
        return ask(request, library)

    monkeypatch.setattr(core, "ask", counted)
    solver = Solver(Shape(16, nics=4))
    nodes = ((0.0, 1.0, 1.0, 1.0),) + (WHOLE,) * 15
    found = solver.collective("allreduce", GIB, nodes, "allreduce")
    other = solver.collective("allreduce", GIB, nodes[::-1], "allreduce")
    assert solver.collective("allreduce", GIB, nodes, "allreduce") is found
    assert other.time_us == found.time_us
    assert len(asked) == 1
    cases = [Case("allreduce", GIB, hosts, ((0.0, 1.0, 1.0, 1.0),), "allreduce") for hosts in (8, 12, 16)]
    assert [each.schedule for each in solver.many(cases)] == ["chain", "tree", "tree"]
    assert len(asked) == 2
    assert len(asked[1]["states"]) == 2


def test_rails_that_are_alike_are_one_state_but_for_migrate() -> None:
    rows = ((1.0, 0.0, 1.0, 1.0), (1.0, 0.0, 0.5, 1.0))
    moved = tuple((row[3], row[1], row[0], row[2]) for row in rows)
    assert canonical(rows, True) == canonical(moved, True)
    assert canonical(rows, False) != canonical(moved, False)
    apart = ((0.0, 1.0, 1.0, 1.0), (1.0, 0.0, 1.0, 1.0))
    assert canonical(apart, True) != canonical((apart[0], apart[0]), True)


def test_groups_share_the_hosts() -> None:
    solver = Solver(Shape(8, nics=4), EXACT)
    nodes = [(0.0, 1.0, 1.0, 1.0)] + [WHOLE] * 7
    ratios = {}
    for arm in ("migrate", "balance", "stock"):
        found = solver.collective("allreduce", GIB, nodes, arm, groups=4)
        ratios[arm] = found.time_us / found.healthy_us
    assert ratios == {"migrate": pytest.approx(2), "balance": pytest.approx(4 / 3), "stock": math.inf}


@pytest.mark.parametrize(
    ("op", "runs"),
    [("allgather", "ring"), ("reducescatter", "ring"), ("broadcast", "ring"), ("alltoall", "direct")],
)
def test_other_operations_have_no_special_schedule(op: str, runs: str) -> None:
    found = Solver(Shape(8, nics=4), EXACT).collective(op, GIB, [WHOLE] * 7 + [(0.5,) * 4], "allreduce")
    assert found.schedule == runs
    assert found.time_us == pytest.approx(2 * found.healthy_us)


def test_a_topology_file_and_shipped_parameters_are_taken() -> None:
    made = topologies.load({"schema": 1, "hosts": 16, "nics": 8, "ports": 2, "fabric": {"kind": "rail", "pod": 8}})
    found = Solver(made, params.load({"hop_us": 1})).collective("allreduce", GIB, [(1.0,) * 8] * 16, "stock")
    assert found.time_us == found.healthy_us


def test_a_hit_is_told_with_its_stall() -> None:
    solver = Solver(Shape(4, nics=4, rate_gbit=1.0, spine=False), {"detect_ms": 4.0, "handshake_ms": 2.0})
    found = solver.hit("allreduce", GIB, [WHOLE] * 4, "balance", at_share=0.5, host=2, nic=1)
    assert found.completed
    assert found.stall_us == pytest.approx(6000)
    assert found.replay_bytes > 0
    assert 1.16 < found.time_us / found.healthy_us < 1.19
    back = solver.hit("allreduce", GIB, [WHOLE] * 4, "balance", at_share=0.5, host=2, nic=1, duration_us=500_000.0)
    assert back.time_us < found.time_us
    brief = solver.hit("allreduce", GIB, [WHOLE] * 4, "balance", at_share=0.5, host=2, nic=1, duration_us=1000.0)
    assert brief.stall_us == pytest.approx(1000)
    assert brief.replay_bytes == 0


def test_a_slower_nic_is_relieved_once_it_is_known() -> None:
    solver = Solver(Shape(4, nics=4, rate_gbit=1.0, spine=False), {"detect_degraded_ms": 822.0})
    how: dict[str, Any] = {"at_share": 0.2, "host": 0, "nic": 0, "factor": 0.5}
    slow, relieved = (solver.hit("allreduce", GIB, [WHOLE] * 4, arm, **how) for arm in ("migrate", "balance"))
    assert slow.stall_us == relieved.stall_us == 0
    assert slow.time_us > relieved.time_us > relieved.healthy_us


def test_an_excluded_worker_costs_the_collective() -> None:
    solver = Solver(Shape(4, nics=4), {"exclusion_detect_s": 7.0, "exclusion_replan_s": 1.0})
    found = solver.hit("allreduce", GIB, [WHOLE] * 4, "exclusion", at_share=0.5, host=0, nic=0)
    assert found.stall_us == pytest.approx(8e6)
    assert found.time_us > 8e6 + found.healthy_us


def test_bad_questions_are_usage_errors() -> None:
    solver = Solver(Shape(4, nics=4))
    with pytest.raises(UsageError, match="there is no arm magic"):
        solver.collective("allreduce", GIB, [WHOLE] * 4, "magic")
    with pytest.raises(UsageError, match="there is no op gather"):
        solver.collective("gather", GIB, [WHOLE] * 4, "balance")
    with pytest.raises(UsageError, match="where the topology has 4"):
        solver.collective("allreduce", GIB, [WHOLE, (1.0,)], "balance")
    with pytest.raises(UsageError, match="more hosts take part"):
        solver.collective("allreduce", GIB, [WHOLE] * 5, "balance")


def test_without_the_library_it_says_what_to_build(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as error:
        Solver(Shape(4, nics=4), library=tmp_path / "none.so").collective("allreduce", 1, [WHOLE] * 4, "balance")
    assert error.value.hint == "r2cc build net"
