"""The fluid engine beside another way to compute the same: rates by linear programs, time from event to event."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from chaos.simulate.core.solver import ask
from harness.build import build_net
from harness.errors import UsageError
from harness.progress import silent

pytestmark = [pytest.mark.build, pytest.mark.timeout(400)]
CLOSE = 1e-6


@pytest.fixture(scope="module", autouse=True)
def _library() -> Iterator[None]:
    build_net(progress=silent)
    yield


def fluid(**what: Any) -> dict[str, Any]:
    return ask({"schema": 1, "kind": "fluid", **what})


def fair_rates(capacities: list[float], tasks: list[dict[str, Any]]) -> list[float]:
    """Lexicographic max-min by linear programs: raise the least as far as it goes, fix who cannot do better, go on."""
    loads = np.zeros((len(capacities), len(tasks)))
    for index, task in enumerate(tasks):
        for link, per_byte in task["uses"]:
            loads[link, index] += per_byte * task["weight"]
    fixed: dict[int, float] = {}
    while len(fixed) < len(tasks):
        level = _raised(loads, capacities, fixed, None, 0.0)
        for index in [i for i in range(len(tasks)) if i not in fixed]:
            alone = _raised(loads, capacities, fixed, index, level)
            if alone <= level * (1 + 1e-7) + 1e-12:
                fixed[index] = level
    return [fixed[index] * task["weight"] for index, task in enumerate(tasks)]


def _raised(
    loads: np.ndarray[Any, Any], capacities: list[float], fixed: dict[int, float], only: int | None, least: float
) -> float:
    """The highest common level of all that are not fixed; or that of one of them, with all others at `least`."""
    count = loads.shape[1]
    goal = np.zeros(count + 1)
    goal[count if only is None else only] = -1
    rows = [np.append(row, 0.0) for row in loads]
    limits = list(capacities)
    bounds: list[tuple[float, float | None]] = []
    for index in range(count):
        bounds.append((fixed[index], fixed[index]) if index in fixed else (least * (1 - 1e-9), None))
        if index not in fixed and only is None:
            row = np.zeros(count + 1)
            row[index], row[count] = -1, 1
            rows.append(row)
            limits.append(0.0)
    found = linprog(goal, A_ub=np.array(rows), b_ub=limits, bounds=[*bounds, (0, None)])
    assert found.success, found.message
    return float(-found.fun)


@dataclass
class Reference:
    """As slow and as plain as can be: at every event all rates anew."""

    capacities: list[float]
    tasks: list[dict[str, Any]]
    changes: list[dict[str, Any]] = field(default_factory=list)

    def ends(self) -> list[float]:
        left = [task["bytes"] for task in self.tasks]
        ends = [math.inf] * len(self.tasks)
        capacities, now = list(self.capacities), 0.0
        while True:
            for change in self.changes:
                if change["at_us"] <= now:
                    capacities[change["link"]] = change["capacity"]
            begins = [
                max([ends[before] for before in task["after"]], default=0.0) + task["delay_us"] for task in self.tasks
            ]
            active = [i for i, left_i in enumerate(left) if left_i > 0 and begins[i] <= now]
            rates = fair_rates(capacities, [self.tasks[i] for i in active])
            times = [now + left[i] / rate for i, rate in zip(active, rates, strict=True) if rate > 1e-9]
            later = [begin for begin in begins if now < begin < math.inf]
            later += [change["at_us"] for change in self.changes if change["at_us"] > now]
            until = min([*times, *later], default=math.inf)
            if until == math.inf:
                return ends
            for i, rate in zip(active, rates, strict=True):
                left[i] -= rate * (until - now)
                if left[i] <= 1e-7 * self.tasks[i]["bytes"]:
                    left[i], ends[i] = 0.0, until
            now = until


LINKS = 4
SOME = st.sampled_from([0.5, 1.0, 2.0, 3.0])


@st.composite
def task_lists(draw: st.DrawFn) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = []
    for index in range(draw(st.integers(1, 5))):
        links = draw(st.lists(st.integers(0, LINKS - 1), min_size=1, max_size=3, unique=True))
        after = draw(st.lists(st.integers(0, index - 1), max_size=1)) if index else []
        delay = draw(st.sampled_from([0.0, 0.0, 1.5]))
        task = {"bytes": draw(SOME) * 10, "weight": draw(SOME), "uses": [[link, draw(SOME)] for link in links]}
        tasks.append({**task, "after": after, "delay_us": delay})
    return tasks


@st.composite
def changes(draw: st.DrawFn) -> list[dict[str, Any]]:
    count = draw(st.integers(0, 2))
    return [
        {"at_us": at, "link": draw(st.integers(0, LINKS - 1)), "capacity": draw(st.sampled_from([0.0, 1.0, 4.0]))}
        for at in sorted(draw(st.lists(st.sampled_from([2.0, 3.7, 9.1]), min_size=count, max_size=count, unique=True)))
    ]


@given(task_lists(), st.lists(st.sampled_from([1.0, 2.0, 5.0, 7.0]), min_size=LINKS, max_size=LINKS), changes())
@settings(max_examples=60, deadline=None)
def test_tasks_end_when_the_reference_says(
    tasks: list[dict[str, Any]], capacities: list[float], later: list[dict[str, Any]]
) -> None:
    found = fluid(capacities=capacities, tasks=tasks, changes=later)
    ends = [math.inf if end is None else end for end in found["end_us"]]
    assert ends == pytest.approx(Reference(capacities, tasks, later).ends(), rel=CLOSE)
    if math.inf not in ends:
        carried = [0.0] * LINKS
        for task in tasks:
            for link, per_byte in task["uses"]:
                carried[link] += task["bytes"] * per_byte
        assert found["link_bytes"] == pytest.approx(carried, rel=1e-9)


def test_the_reference_knows_a_case_by_hand() -> None:
    tasks = [{"weight": 1.0, "uses": [[0, 1.0], [1, 1.0]]}, {"weight": 1.0, "uses": [[0, 1.0]]}]
    assert fair_rates([10.0, 2.0], tasks) == pytest.approx([2.0, 8.0])


def test_a_fluid_with_mistakes_names_them_all() -> None:
    task = {"bytes": -1, "weight": 0, "uses": [[9, 1.0]], "after": [0]}
    with pytest.raises(UsageError) as error:
        fluid(capacities=[1.0], tasks=[task])
    for part in ("bytes must be", "weight must be", "there is no link 9", "those before it only"):
        assert part in str(error.value)
