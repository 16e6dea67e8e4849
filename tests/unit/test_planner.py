"""The planner through its binding: what holds of every plan, whatever the nodes, and files that fit their schemas."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.build import build_net
from harness.errors import BuildError, UsageError
from harness.progress import silent
from harness.schedules import planner
from harness.schedules.planner import Node, Part, Plan, Request, Schedule
from harness.schemas import plain, problems, validate
from tests.unit.plan_cases import clusters, nodes_of

pytestmark = [pytest.mark.build, pytest.mark.timeout(400)]
EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
SPECIAL: tuple[Schedule, ...] = ("auto", "published", "chain", "chain_fixed", "optcc", "tree")
BYTES_PER_US_OF_GBIT = 125.0


@pytest.fixture(scope="module", autouse=True)
def _library() -> Iterator[None]:
    """Built already in `make test`; from nothing otherwise."""
    build_net(progress=silent)
    yield


@st.composite
def requests(draw: st.DrawFn) -> Request:
    return Request(
        draw(clusters()),
        draw(st.integers(0, 1 << 34)),
        channels=draw(st.integers(0, 12)),
        schedule=draw(st.sampled_from(SPECIAL)),
        cost={"hop_us": draw(st.sampled_from([0, 5, 50])), "chunk_bytes": draw(st.sampled_from([1, 1 << 17]))},
    )


def left_gbit(node: Node) -> float:
    return sum(nic.rate_gbit * nic.capacity for nic in node.nics)


def us_per_byte(node: Node) -> float:
    return 1 / (left_gbit(node) * BYTES_PER_US_OF_GBIT)


def reached_gbit(nodes: tuple[Node, ...]) -> list[float]:
    """Of each node what the others together can take up, rail by rail. Who shares none has a way as wide as a NIC."""
    left = [[nic.rate_gbit * nic.capacity for nic in node.nics] for node in nodes]
    both = [
        sum(min(own, sum(rail) - own) for own, rail in zip(one, zip(*left, strict=True), strict=True)) for one in left
    ]
    return [sum_ or min(own for own in one if own) for sum_, one in zip(both, left, strict=True)]


def bound_us(request: Request) -> float:
    """The lower bound, written down a second time."""
    if len(request.nodes) < 2:
        return 0.0
    each = [gbit * BYTES_PER_US_OF_GBIT for gbit in reached_gbit(request.nodes)]
    return request.bytes * max(1 / min(each), 2 * (len(each) - 1) / sum(each))


def crossings(part: Part, home: dict[int, str]) -> Iterator[tuple[str, str, float]]:
    """(from, to, share of the message) of everything that leaves a node, step by step of what a part does."""
    names = [home[rank] for rank in part.order]
    if part.kind == "ring":
        yield from ((a, b, part.share * ring_load(len(names))) for a, b in around(names))
    elif part.kind == "chain":
        for a, b in pairwise(names):
            yield a, b, part.share
            yield b, a, part.share
    elif part.kind == "tree":
        assert part.parents is not None
        for name, place in zip(names[1:], part.parents[1:], strict=True):
            yield name, names[place], part.share
            yield names[place], name, part.share
    elif part.kind == "optcc":
        assert part.straggler is not None
        yield from ((a, b, part.share * ring_load(len(names))) for a, b in around(names))
        for name in names:
            yield name, home[part.straggler], part.share / len(names)
            yield home[part.straggler], name, part.share / len(names)
    else:
        yield from published(part, names, home)


def published(part: Part, names: list[str], home: dict[int, str]) -> Iterator[tuple[str, str, float]]:
    """Global ring, partial ring, then to the first spared node and from there along the healthy, of whom each is the
    last equally often; the other spared nodes give to that one, and take from the line."""
    assert part.straggler is not None
    spared = list(dict.fromkeys(home[ranks[0]] for ranks in part.spared or ((part.straggler,),)))
    healthy = [name for name in names if name not in spared]
    yield from ((a, b, part.share * (1 - part.y) * ring_load(len(names))) for a, b in around(names))
    if len(set(healthy)) > 1:
        yield from ((a, b, part.share * part.y * ring_load(len(healthy))) for a, b in around(healthy))
    nodes = list(dict.fromkeys(healthy))
    for first in range(len(nodes)):
        line = [*nodes[first:], *nodes[:first]]
        moved = part.share * part.y / len(nodes)
        yield from ((a, b, moved) for a, b in pairwise([line[-1], spared[0], *line]))
        for index, name in enumerate(spared[1:]):
            yield name, line[-1], moved
            yield line[index % len(line)], name, moved


def ring_load(members: int) -> float:
    return 2 * (members - 1) / members


def around(names: list[str]) -> Iterator[tuple[str, str]]:
    return zip(names, [*names[1:], names[0]], strict=True)


@settings(max_examples=150, deadline=None)
@given(requests())
def test_what_holds_of_every_plan(request: Request) -> None:
    plan = planner.plan(request)
    home = {rank: node.name for node in request.nodes for rank in node.ranks}
    assert sum(part.share for part in plan.parts) == pytest.approx(1, abs=1e-12)
    assert request.channels == 0 or len(plan.parts) <= request.channels
    for part in plan.parts:
        members = [*part.order] + ([part.straggler] if part.kind == "optcc" and part.straggler is not None else [])
        assert sorted(members) == sorted(home)
    assert plan.bound_us == pytest.approx(bound_us(request), rel=1e-12)
    predictions = [one.predicted_us for one in plan.candidates if one.predicted_us is not None]
    assert min([plan.predicted_us, *predictions]) >= plan.bound_us * (1 - 1e-9)
    sent: defaultdict[str, float] = defaultdict(float)
    received: defaultdict[str, float] = defaultdict(float)
    for part in plan.parts:
        for source, target, share in crossings(part, home):
            if source != target:
                sent[source] += share * request.bytes
                received[target] += share * request.bytes
    for node, planned in zip(request.nodes, plan.nodes, strict=True):
        assert planned.tx_bytes == pytest.approx(sent[node.name], rel=1e-9, abs=1)
        assert planned.rx_bytes == pytest.approx(received[node.name], rel=1e-9, abs=1)
        assert plan.predicted_us >= (planned.tx_bytes - 1) * us_per_byte(node)


@settings(max_examples=40, deadline=None)
@given(requests(), st.integers(0, 1 << 30))
def test_more_bytes_never_take_less_time(request: Request, more: int) -> None:
    """Of any one schedule; `auto` gains at most the margin wherever it changes over."""
    slack = 0.98**2 if request.schedule == "auto" else 1
    larger = replace(request, bytes=request.bytes + more)
    assert planner.plan(larger).predicted_us >= planner.plan(request).predicted_us * slack * (1 - 1e-9)


def test_a_spine_is_no_set_of_islands() -> None:
    """Two neighbours that lost different rails hold each other back where rails are apart, and only there."""
    nodes = nodes_of([[1, 1, 1, 1], [0, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1]])
    exact = {"hop_us": 0.0, "chunk_bytes": 1, "ring_efficiency": 1.0, "chain_efficiency": 1.0}
    times = [planner.plan(Request(nodes, 1 << 40, planes=planes, cost=exact)) for planes in (0, 1)]  # type: ignore[arg-type]
    assert times[1].predicted_us == pytest.approx(times[1].bound_us, rel=1e-6)
    assert times[0].predicted_us > 1.05 * times[1].predicted_us


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 12), st.integers(1, 3), st.sampled_from([[1.0], [1.0, 0.5], [1.0, 0.0, 1.0]]))
def test_nodes_that_are_alike_get_a_plain_ring(count: int, ranks: int, left: list[float]) -> None:
    plan = planner.plan(Request(nodes_of([left] * count, ranks), 1 << 30))
    assert [(part.kind, part.order) for part in plan.parts] == [("ring", tuple(range(count * ranks)))]
    assert plan.schedule == "ring" and plan.threshold_bytes is None


@settings(max_examples=100, deadline=None)
@given(clusters(least=2, most_nics=1))
def test_chains_with_allotted_ends_meet_the_bound_wherever_the_ends_can_be_allotted(nodes: tuple[Node, ...]) -> None:
    """And equal nodes carry equal loads, as far as no rails are in the way: one NIC a node.

    A node twice as fast as the bound asks of any would have to branch.
    """
    request = Request(nodes, 1 << 50, schedule="chain")
    plan = planner.plan(request)
    bound = bound_us(request)
    wanted = [2 - bound / (us_per_byte(node) * request.bytes) for node in nodes]
    busiest = max(each.tx_bytes * us_per_byte(node) for node, each in zip(nodes, plan.nodes, strict=True))
    if sum(max(0.0, one) for one in wanted) <= 2 + 1e-12:
        assert busiest == pytest.approx(bound, rel=1e-9)
    else:
        assert busiest > bound
    loads = {}
    for node, each in zip(nodes, plan.nodes, strict=True):
        assert loads.setdefault(left_gbit(node), each.tx_bytes) == pytest.approx(each.tx_bytes, rel=1e-9)
    assert len(plan.parts) <= len(nodes)


def test_a_thousand_nodes_with_twenty_faults() -> None:
    """Not a time (benchmarks/plan_speed.py has that): every rank in every part, and the load as predicted."""
    lefts = [[0.0 if index % 51 == 7 and nic == index % 8 else 1.0 for nic in range(8)] for index in range(1024)]
    assert sum(left.count(0.0) for left in lefts) == 20
    plan = planner.plan(Request(nodes_of(lefts, 8), 1 << 33, channels=32))
    assert len(plan.parts) <= 32 and all(sorted(part.order) == list(range(8192)) for part in plan.parts)
    assert plan.bound_us < plan.predicted_us


def request_json(**changes: Any) -> dict[str, Any]:
    request = Request(nodes_of([[1, 1], [1, 0], [1, 1], [1, 1]]), 1 << 26, cost={"hop_us": 5})
    return {**plain(request), **changes}


@pytest.mark.parametrize("schedule", [*SPECIAL, "ring", "balance"])
def test_requests_and_plans_fit_their_schemas(schedule: str) -> None:
    request = json.loads(json.dumps(request_json(schedule=schedule)))
    validate("plan_request", request)
    made = json.loads(planner.plan_json(json.dumps(request)))
    validate("plan", made)
    assert Plan.of(json.dumps(made)).schedule == (schedule if schedule != "auto" else "chain")


def test_the_examples_are_a_request_and_its_plan() -> None:
    request = (EXAMPLES / "plan_request.json").read_text()
    validate("plan_request", json.loads(request))
    assert json.loads(planner.plan_json(request)) == json.loads((EXAMPLES / "plan.json").read_text())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"schema": 2}, "schema"),
        ({"speed": 1}, 'unknown key "speed"'),
        ({"nodes": []}, "there are no nodes"),
        ({"nodes": None}, "nodes must be an array"),
        ({"bytes": -1}, "bytes"),
        ({"op": "allswap"}, "there is no op allswap"),
        ({"schedule": "best"}, 'no schedule "best"'),
        ({"schedule": "direct"}, 'no schedule "direct" to ask for'),
        ({"channels": -1}, "channels"),
        ({"cost": {"hop_us": -1}}, "cost.hop_us must be from 0"),
        ({"datatype": "float12"}, "there is no datatype float12"),
        ({"nodes": plain(Request(nodes_of([[1], [0]]), 1))["nodes"]}, "node h1 has no capacity at all"),
    ],
)
def test_what_is_wrong_is_named_and_the_schema_refuses_it_too(changes: dict[str, Any], says: str) -> None:
    request = json.loads(json.dumps(request_json(**changes)))
    with pytest.raises(UsageError, match=says) as caught:
        planner.plan_json(json.dumps(request))
    assert caught.value.exit_code == 2 and caught.value.hint
    assert problems("plan_request", request) or "capacity" in says


def test_exports_its_interface_alone() -> None:
    if not shutil.which("nm"):
        pytest.skip("nm (binutils) is not installed")
    command = ["nm", "--dynamic", "--defined-only", "--format=posix", str(planner.built_library())]
    listing = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert {line.split()[0] for line in listing.splitlines()} == {"r2cc_plan", "r2cc_plan_free"}


def test_a_library_that_is_not_there_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="r2cc build net"):
        planner.plan(Request(nodes_of([[1], [1]]), 1), tmp_path / "none.so")
