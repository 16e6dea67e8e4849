"""Thousands of faults in one file: what they do to each other is found by sorting, and is what comparing all finds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.experiment.overlaps import Cuts, overlapping
from chaos.experiment.timeline import places_of, problems_of_timeline
from chaos.faults.registry import spec_of
from chaos.faults.spec import FaultSpec

NICS = {f"h{host}": ["eth0", "eth1"] for host in range(3)}
PLACES = [{"host": "h0", "nic": "eth0"}, {"host": "h1", "nic": "eth1"}, {"nics": ("h0:*",)}, {"nics": ("*:eth1",)}]
TIMES = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 3.0])
AT = st.one_of(
    st.builds(lambda time_s: {"time_s": time_s}, TIMES),
    st.builds(lambda index: {"iteration": index}, st.integers(0, 3)),
    st.builds(lambda time_s: {"launch_s": time_s}, TIMES),
)


@st.composite
def timelines(draw: st.DrawFn) -> dict[int, FaultSpec]:
    found = {}
    for index in range(draw(st.integers(0, 8))):
        where: dict[str, Any] = draw(st.sampled_from(PLACES))
        kind = draw(st.sampled_from(["link_down", "black_hole", "delay"]))
        more = {"delay_ms": 1.0} if kind == "delay" else {}
        lasts = {"duration_s": draw(st.sampled_from([0.5, 1.0, 2.5]))}
        found[index] = spec_of({"id": f"f{index}", "kind": kind, "at": draw(AT), **where, **more, **lasts})
    return found


def met(first: FaultSpec, second: FaultSpec) -> bool:
    """As one would say it of two: certain to be active together."""
    if first.at.time_s is not None and second.at.time_s is not None:
        one, two = sorted((first, second), key=lambda fault: fault.at.time_s or 0.0)
        return (two.at.time_s or 0.0) < (one.at.time_s or 0.0) + one.lasts_s
    return first.at.iteration is not None and first.at.iteration == second.at.iteration


@settings(deadline=None, max_examples=200)
@given(timelines())
def test_overlaps_are_those_that_comparing_all_would_find(faults: dict[int, FaultSpec]) -> None:
    broken = {index: places_of(fault, NICS) for index, fault in faults.items()}
    every = {
        (second, first, thing)
        for (first, one), (second, two) in combinations(faults.items(), 2)
        for thing in broken[first] & broken[second]
        if met(one, two)
    }
    found = [*overlapping(faults, broken)]
    assert set(found) <= every
    touched = {(index, thing) for second, first, thing in every for index in (first, second)}
    told = {(index, thing) for index, thing in touched if any(index in (a, b) for a, b, _ in found)}
    assert told == touched, "whoever meets another one is told with one of them"


@settings(deadline=None, max_examples=200)
@given(timelines(), timelines())
def test_cuts_may_meet_unless_it_is_certain_that_they_do_not(
    cutting: dict[int, FaultSpec], asked: dict[int, FaultSpec]
) -> None:
    cuts = Cuts([*cutting.values()])
    for fault in asked.values():
        timed = fault.at.time_s is not None
        apart = timed and all(each.at.time_s is not None and not met(fault, each) for each in cutting.values())
        if cutting:
            assert cuts.may_meet(fault) is not apart


def one(index: int, kind: str = "link_down", **more: Any) -> FaultSpec:
    words = {"id": f"f{index}", "kind": kind, "host": "h0", "nic": "eth0", "duration_s": 0.5}
    return spec_of({**words, **more})


def many(count: int) -> dict[int, FaultSpec]:
    return {
        index: one(index, host=f"h{index % 3}", nic=f"eth{index // 3 % 2}", at={"time_s": float(index)})
        for index in range(count)
    }


def looks(monkeypatch: pytest.MonkeyPatch, count: int) -> int:
    """How often faults of a timeline are looked at, by their length and their targets."""
    seen = 0
    targets, lasts = FaultSpec.targets, FaultSpec.lasts_s

    def counted(self: FaultSpec, hosts: dict[str, list[str]]) -> list[tuple[str, str]]:
        nonlocal seen
        seen += 1
        return targets(self, hosts)

    def counted_s(self: FaultSpec) -> float:
        nonlocal seen
        seen += 1
        return lasts.fget(self)  # type: ignore[attr-defined, no-any-return]

    monkeypatch.setattr(FaultSpec, "targets", counted)
    monkeypatch.setattr(FaultSpec, "lasts_s", property(counted_s))
    problems_of_timeline(many(count), 10, NICS, lambda _place, what: pytest.fail(what))
    monkeypatch.undo()
    return seen


def test_ten_times_as_many_faults_are_ten_times_as_much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    assert looks(monkeypatch, 1000) <= 11 * looks(monkeypatch, 100)


def chains() -> Iterator[tuple[str, dict[int, FaultSpec], list[str]]]:
    def after(index: int, before: int) -> FaultSpec:
        at = {"after": f"f{before}", "ms": 1.0}
        return one(index, "delay", at=at, delay_ms=1.0, duration_s=0.001)

    begin = many(1)
    yield "a long chain", {**begin, **{n: after(n, n - 1) for n in range(1, 500)}}, []
    yield "a circle", {n: after(n, (n + 1) % 300) for n in range(300)}, ["waits for itself"] * 300
    yield "what waits for a circle", {0: after(0, 1), 1: after(1, 1)}, ["waits for itself"] * 2


@pytest.mark.parametrize(("faults", "wrong"), [each[1:] for each in chains()], ids=[each[0] for each in chains()])
def test_chains(faults: dict[int, FaultSpec], wrong: list[str]) -> None:
    found: list[str] = []
    problems_of_timeline(faults, 10, NICS, lambda _place, what: found.append(what))
    assert [what.split(" ", 1)[1] for what in found] == wrong


def test_a_message_names_a_few_of_many_faults() -> None:
    found: list[str] = []
    faults = many(500)
    faults[500] = one(500, at={"after": "gone", "ms": 1.0})
    problems_of_timeline(faults, 10, NICS, lambda _place, what: found.append(what))
    assert "there is no fault gone; there are f0, f1" in found[0] and "and 481 more" in found[0]
