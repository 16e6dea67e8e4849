"""The formulas of docs/internals/schedules.md, once more, by bandwidth alone: hosts with one NIC, or eight."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.simulate.core.params import EXACT
from chaos.simulate.core.solver import Case, Shape, Solver
from chaos.simulate.validate.checks import Check, at_most, near, nearest

SIZE = 1 << 45
"""So large that a byte's way through a pipeline is nothing."""
EXACTLY = 1e-6
LOST = (1 / 8, 1 / 4, 1 / 3, 1 / 2)
FORMULAS = "docs/internals/schedules.md"
SWEEP = {1: 1.599, 2: 1.458, 4: 1.376, 8: 1.341, 16: 1.329}
"""K of the published schedule: 3 nodes x 2 GPUs, one at 2/3 of its bandwidth, relative to the healthy ring."""
AUTHORS = "measured by R2CC-AllReduce's authors (docs/internals/schedules.md, published)"
TABLE = ((4, 1, 1 / 8), (4, 8, 1 / 8), (8, 8, 1 / 8), (4, 8, 1 / 2))
"""Hosts, ranks a host and what one host lost, of docs/internals/schedules.md's table."""


def ring(n: int) -> float:
    return 2 * (n - 1) / n


def bound(p: int, x: float) -> float:
    return max(1 / (1 - x), 2 * (p - 1) / ((p - 1) + (1 - x)))


def fixed_chain(n: int, x: float) -> float:
    """One chain with the straggler at an end, beside a ring with the best share y: a maximum of two straight lines."""

    def at(y: float) -> float:
        return max((y * ring(n) + 1 - y) / (1 - x), y * ring(n) + 2 * (1 - y))

    slope = (ring(n) - 1) / (1 - x) - (ring(n) - 2)
    crossing = (2 - 1 / (1 - x)) / slope
    return min(at(0), at(1), at(min(max(crossing, 0.0), 1.0)))


def published(n: int, x: float, k: float) -> tuple[float, float, float]:
    """T1, T2 and T3 with Y = X."""
    return ring(n), ring(n - 1), (1 + 1 / k) * x / (1 - x)


def solved(p: int, x: float, arm: str, ranks: int = 1, pieces: int = 0) -> float:
    """In D/B: hosts with one NIC, of which one lost x."""
    solver = Solver(Shape(p, nics=1, spine=False), {**EXACT, "published_chunks": float(pieces)})
    return solver.solve(Case("allreduce", SIZE, p, ((1 - x,),), arm, ranks)).time_us / unit_us(1)


def unit_us(nics: int) -> float:
    """D/B."""
    return SIZE / (400 * 125 * nics)


def checks() -> Iterator[Check]:
    yield _balance()
    yield from _backup()
    yield from _published()
    yield from _chains()
    yield from _table()
    yield from _sweep()
    yield from _optcc()


def _balance() -> Check:
    pairs = [
        (f"{p} hosts, X {x:.3g}", solved(p, x, arm), ring(p) / (1 - x))
        for p in (2, 3, 4, 8, 32)
        for x in LOST
        for arm in ("balance", "stock")
    ]
    return nearest("balance: 1/(1-X) of the healthy ring", pairs, EXACTLY, FORMULAS)


def _backup() -> Iterator[Check]:
    solver = Solver(Shape(4), EXACT)
    for lost in (1, 2):
        left = (0.0,) * lost + (1.0,) * (8 - lost)
        found = solver.solve(Case("allreduce", SIZE, 4, (left,), "migrate"))
        name = f"migrate: {lost} of 8 NICs on one backup"
        yield near(name, found.time_us / found.healthy_us, 1 + lost, EXACTLY, FORMULAS)


def _published() -> Iterator[Check]:
    found: dict[str, list[tuple[str, float, float]]] = {"T1": [], "T2": [], "T3": [], "T": []}
    for n in (3, 4, 6, 8, 16):
        for x in LOST:
            solver = Solver(Shape(n, nics=1, spine=False), {**EXACT, "published_chunks": 4.0})
            case = Case("allreduce", SIZE, n, ((1 - x,),), "published")
            first, second, last = (end / unit_us(1) for end in solver.phases_us(case))
            t1, t2, t3 = published(n, x, 4)
            both = max(first, second)
            rows = (("T1", first, t1), ("T2", second, t2), ("T3", last - both, t3), ("T", last, max(t1, t2) + t3))
            for name, ours, formula in rows:
                found[name].append((f"n {n}, X {x:.3g}", ours, formula))
    for name, pairs in found.items():
        yield nearest(f"published: {name}, K = 4", pairs, EXACTLY, FORMULAS)


def _chains() -> Iterator[Check]:
    grid = [(p, x) for p in (3, 4, 5, 8, 16, 64) for x in LOST]
    chain = [(f"{p} hosts, X {x:.3g}", solved(p, x, "chain"), bound(p, x)) for p, x in grid]
    yield nearest("chains with allotted ends meet the lower bound", chain, EXACTLY, FORMULAS)
    fixed = [(f"{p} hosts, X {x:.3g}", solved(p, x, "chain_fixed"), fixed_chain(p, x)) for p, x in grid if x < 1 / 2]
    yield nearest("one fixed chain beside a ring", fixed, EXACTLY, FORMULAS)
    told = [(f"{p} hosts, X {x:.3g}", _told_bound(p, x), bound(p, x)) for p, x in grid]
    yield nearest("the lower bound", told, EXACTLY, FORMULAS)


def _told_bound(p: int, x: float) -> float:
    solver = Solver(Shape(p, nics=1, spine=False), EXACT)
    return solver.solve(Case("allreduce", SIZE, p, ((1 - x,),), "balance")).bound_us / unit_us(1)


def _table() -> Iterator[Check]:
    """Its columns, with a NIC of eight lost or four: the backup of each is a NIC of its own."""
    for p, ranks, x in TABLE:
        n, lost = p * ranks, round(x * 8)
        solver = Solver(Shape(p, spine=False), {**EXACT, "even_rails": 0, "published_chunks": 1 << 20})
        left = tuple(0.0 if nic < 2 * lost and nic % 2 == 0 else 1.0 for nic in range(8))
        columns = {
            "migrate": 2 * ring(n),
            "balance": ring(n) / (1 - x),
            "published": ring(n) + x / (1 - x),
            "chain_fixed": min(fixed_chain(n, x), ring(n) / (1 - x)),
            "chain": bound(p, x),
        }
        pairs = []
        for arm, expected in columns.items():
            found = solver.solve(Case("allreduce", SIZE, p, (left,), arm, ranks))
            pairs.append((arm, found.time_us / unit_us(8), expected))
        pairs.append(("healthy ring", found.healthy_us / unit_us(8), ring(n)))
        yield nearest(f"table: {p} hosts x {ranks} ranks, X = {x:.3g}", pairs, EXACTLY, FORMULAS)


def _sweep() -> Iterator[Check]:
    for pieces, measured in SWEEP.items():
        ours = solved(6, 1 / 3, "published", pieces=pieces) / ring(6)
        yield near(f"published K sweep: K = {pieces}", ours, measured, 0.01, AUTHORS)
    yield near("balance beside it", solved(6, 1 / 3, "balance") / ring(6), 1.498, 0.01, AUTHORS)


def _optcc() -> Iterator[Check]:
    slope = solved(5, 1 / 2, "optcc") / ring(5)
    yield near("OptCC: 5 hosts, X = 1/2, of the healthy ring", slope, 1.25, 0.001, "OptCC's slope, p/(p-1)")
    worst = max(solved(p, x, "optcc") / ring(p) for p in (32, 64, 128) for x in LOST)
    yield at_most("OptCC: 32 hosts and more, X up to 1/2", worst, 1.06, "OptCC (arXiv 2606.01680): 2 to 6 %")
