"""What must hold whatever is simulated: bytes, bounds, and the same answer from any number of workers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from chaos.simulate.core.order import Rows
from chaos.simulate.core.params import EXACT
from chaos.simulate.core.solver import ARMS, Case, PerNic, Shape, Solver
from chaos.simulate.validate.checks import Check, at_least, near, nearest
from harness.workers import crew

SIZE = 1 << 28
SEED = 20251125
PROMISE = "docs/internals/simulation-model.md"
STATES = 24
"""Random ones that the workers share."""


def checks() -> Iterator[Check]:
    yield from _bounds()
    yield from _bytes()
    yield from _workers()


def _grid() -> Iterator[tuple[Solver, Case]]:
    """p, X, NICs, two degraded hosts, ranks a host, with and without a spine."""
    for nics in (1, 2, 8):
        for spine in (False, True):
            solver = Solver(Shape(64, nics=nics, spine=spine, pod=0), EXACT)
            for hosts in (3, 4, 8, 33):
                for rows in _rows(nics):
                    for arm in ARMS:
                        yield solver, Case("allreduce", SIZE, hosts, rows, arm, 8 if nics == 8 else 1)


def _rows(nics: int) -> Iterator[Rows]:
    lost = [0.75, 0.5] if nics == 1 else [0.0, 0.5]
    for first in lost:
        yield ((first,) + (1.0,) * (nics - 1),)
    yield ((0.5,) + (1.0,) * (nics - 1), (1.0,) * (nics - 1) + (0.25,))


def _bounds() -> Iterator[Check]:
    least, what, count = math.inf, "", 0
    for solver, case in _grid():
        found = solver.solve(case)
        count += 1
        if found.time_us / found.bound_us < least:
            least, what = found.time_us / found.bound_us, f"{case.arm}, {case.hosts} hosts"
    yield at_least(f"no schedule beats the lower bound ({count} cases; nearest: {what})", least, 1 - 1e-9, PROMISE)


def _bytes() -> Iterator[Check]:
    """What is sent is received; and a host's are what the planner says of it."""
    both, planned = [], []
    for hosts, nics, arm in (
        (4, 2, "balance"),
        (4, 2, "chain"),
        (8, 8, "optcc"),
        (6, 8, "published"),
        (5, 4, "migrate"),
    ):
        solver = Solver(Shape(hosts, nics=nics, spine=False), EXACT)
        case = Case("allreduce", SIZE, hosts, ((0.0,) + (1.0,) * (nics - 1),), arm)
        tx, rx = solver.nic_bytes(case)
        sent, received = (sum(map(sum, side)) for side in (tx, rx))
        both.append((f"{arm}, {hosts} hosts", received, sent))
        planned += _as_planned(arm, hosts, nics, tx)
    yield nearest("bytes: received are sent", both, 1e-12, PROMISE)
    yield nearest("bytes of each host: as the planner has them", planned, 1e-6, "r2cc_patches/planner, by another way")


def _as_planned(arm: str, hosts: int, nics: int, tx: PerNic) -> list[tuple[str, float, float]]:
    from harness.schedules.planner import Nic, Node, Request, plan

    schedule = "balance" if arm == "migrate" else arm
    nodes = tuple(
        Node(f"h{h}", (h,), tuple(Nic(f"n{n}", 400.0, 0.0 if h == n == 0 else 1.0) for n in range(nics)))
        for h in range(hosts)
    )
    cost = {"hop_us": 0.0, "ring_efficiency": 1.0, "chain_efficiency": 1.0, "staged_efficiency": 1.0, "chunk_bytes": 1}
    wanted = plan(Request(nodes, SIZE, schedule=schedule, cost=cost))  # type: ignore[arg-type]
    return [(f"{arm}, host {host}", sum(tx[host]), node.tx_bytes) for host, node in enumerate(wanted.nodes)]


def random_states(seed: int) -> list[Case]:
    """Hosts that lost what the seed says."""
    import numpy as np

    draw = np.random.Generator(np.random.PCG64(seed))
    cases = []
    for _ in range(STATES):
        hosts, count = int(draw.integers(3, 24)), int(draw.integers(1, 3))
        rows = tuple((*map(float, draw.choice([0.0, 0.5, 1.0, 1.0], 7)), 1.0) for _ in range(count))
        cases.append(Case("allreduce", SIZE, hosts, rows, str(draw.choice(list(ARMS)))))
    return cases


def solve_some(cases: list[Case]) -> list[float]:
    solver = Solver(Shape(24))
    return [solver.solve(case).time_us for case in cases]


def _workers() -> Iterator[Check]:
    """Dealt out to one process, to two and to four."""
    cases = random_states(SEED)
    alone = solve_some(cases)
    for count in (1, 2, 4):
        hands = [cases[first::count] for first in range(count)]
        with crew(count, fork=True) as pool:
            dealt = list(pool.map(solve_some, hands))
        together = [dealt[index % count][index // count] for index in range(len(cases))]
        same = sum(a == b for a, b in zip(alone, together, strict=True))
        name = f"seed {SEED}: the same answers from {count} worker{'s' if count > 1 else ''}"
        yield near(name, same, len(cases), 0.0, PROMISE)
