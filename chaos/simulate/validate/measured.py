"""The simulator beside what we measured under NCCL on GPUs, and cables that were pulled: all rows but void ones."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.simulate.core.params import EXACT
from chaos.simulate.core.solver import Case, Shape, Solver
from chaos.simulate.validate.checks import Check, near
from chaos.simulate.validate.lab import WITHIN, lab_solver
from chaos.simulate.validate.misses import MIB

GPUS = "docs/results/schedules.md, Under NCCL on GPUs"
BYTES = {"balance": (1.503, 1.5), "published": (1.253, 1.25), "chain": (1.004, 1.0)}
"""What h0 received of a message, counted at its NICs, and the formulas; four hosts, one of two NICs lost."""
PAPER_BYTES = 0.867
HIT_GBIT = 2.0
RAW = "docs/results/raw/"
WHEN = "when it was pulled is not recorded: half of the time is assumed"
BENCH_REPLAY = 8 * 128 << 10
"""At most: the bench's slots, full (docs/internals/bench.md)."""
HITS = (
    ("4 x 2, 256 MiB", "balance", 4, 2, 256, 409.27, 609.15, 612.90, 2.0, RAW + "schedules/above/schedules.json", ""),
    ("4 x 3, 1 GiB", "balance", 4, 3, 1024, 1119.49, 1397.22, 1398.24, 1.5, RAW + "four-gpus/four_hosts.json", ""),
    ("4 x 3, 1 GiB, 2", "balance", 4, 3, 1024, 1112.68, 1388.88, 1364.62, 1.5, RAW + "four-gpus/four_hosts-2.json", ""),
    ("4 x 3, 1 GiB", "migrate", 4, 3, 1024, 1111.85, 1663.15, 1738.18, 2.0, RAW + "four-gpus/four_hosts.json", ""),
    ("4 x 3, 1 GiB, 2", "migrate", 4, 3, 1024, 1093.28, 1364.77, 1414.84, 1.5, RAW + "four-gpus/four_hosts-2.json", ""),
    ("2 x 4, 256 MiB", "balance", 2, 4, 256, 152.06, 191.65, 190.96, 4 / 3, RAW + "gpu-faults/all_reduce.json", ""),
    ("2 x 4, 256 MiB", "migrate", 2, 4, 256, 138.92, 190.07, 189.40, 1.5, RAW + "gpu-faults/all_reduce.json", ""),
    ("4 x 2, 64 MiB", "balance", 4, 2, 64, 203.6, None, 304.75, 2.0, "docs/results/schedules.md, in the middle", WHEN),
    ("lab, 4 x 4, 64 MiB", "migrate", 4, 4, 64, 210.0, None, 300.0, 2.0, "README.md, See it", WHEN),
)  # fmt: skip
"""Every first link-down of a plain all-reduce that is not void and has a bound, two without: name, arm, hosts, NICs,
MiB; healthy, bound and measured ms; how much slower the run's own paths make the rest: of migrate 1 + 1/backups, as it
records where each connection went. Rates differ and do not matter."""


def checks() -> Iterator[Check]:
    yield from _bytes()
    yield from _gpus()
    yield from _hits()


def _bytes() -> Iterator[Check]:
    solver = Solver(Shape(4, nics=2, spine=False), EXACT)
    for arm, (measured, _) in BYTES.items():
        ours = _received(solver, Case("allreduce", 64 * MIB, 4, ((0.0, 1.0),), arm)) / (64 * MIB)
        yield near(f"bytes that the degraded host receives: {arm}", ours, measured, 0.02, GPUS)
    third = Solver(Shape(6, nics=1, spine=False), EXACT)
    published, balance = (
        _received(third, Case("allreduce", 64 * MIB, 6, ((2 / 3,),), arm)) for arm in ("published", "balance")
    )
    source = "measured by R2CC-AllReduce's authors, X = 1/3 (docs/internals/schedules.md)"
    yield near(
        "bytes that the degraded host receives, published over balance", published / balance, PAPER_BYTES, 0.02, source
    )


def _received(solver: Solver, case: Case) -> float:
    """By the first host, which is the degraded one."""
    return sum(solver.nic_bytes(case)[1][0])


def _gpus() -> Iterator[Check]:
    rows = (
        ("4 x 2, 64 MiB: balance", 4, 2, 64, "balance", 1.993, ""),
        ("4 x 2, 64 MiB: published", 4, 2, 64, "published", 2.133, ""),
        ("4 x 2, 64 MiB: ours", 4, 2, 64, "allreduce", 1.338, ""),
        ("4 x 2, 256 MiB: ours", 4, 2, 256, "allreduce", 1.338, ""),
        ("4 x 2, 1 GiB: ours", 4, 2, 1024, "allreduce", 1.337, ""),
        ("4 x 3, 256 MiB: balance", 4, 3, 256, "balance", 1.532, ""),
        ("4 x 3, 256 MiB: ours", 4, 3, 256, "allreduce", 1.210, ""),
    )
    for name, hosts, nics, mib, arm, measured, known in rows:
        found = lab_solver(hosts, nics, 2.0, even_rails=1).solve(
            Case("allreduce", mib * MIB, hosts, ((0.0,) + (1.0,) * (nics - 1),), arm)
        )
        yield near(f"GPUs, {name}", found.time_us / found.healthy_us, measured, WITHIN, GPUS, known=known)


def _hits() -> Iterator[Check]:
    """A cable that is pulled in an all-reduce. When: as the run's bound has it, healthy x (s + (1 - s) x slower)."""
    for name, arm, hosts, nics, mib, healthy_ms, bound_ms, measured_ms, slower, source, known in HITS:
        share = 0.5 if bound_ms is None else (slower - bound_ms / healthy_ms) / (slower - 1)
        backups = round(1 / (slower - 1)) if arm == "migrate" else 1
        more = {"migrate_backups": backups, **({"replay_bytes": BENCH_REPLAY} if name.startswith("lab") else {})}
        solver = lab_solver(hosts, nics, HIT_GBIT, even_rails=1, more=more)
        whole = ((1.0,) * nics,) * hosts
        found = solver.hit("allreduce", mib * MIB, whole, arm, at_share=share, host=0, nic=0)
        ratio = found.time_us / found.healthy_us
        yield near(f"hit, {name}, {arm}", ratio, measured_ms / healthy_ms, WITHIN, source, known=known)
