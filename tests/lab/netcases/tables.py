"""Cases of the plugin's tables: the driver takes one, as the NCCL that looks for it does."""

from __future__ import annotations

from functools import partial

from netcases.bed import Bed
from netcases.network import MOVED_MS
from netcases.play import Case, Ended, Outcome, Shape, Stage, made, outcome

TABLES = {8: "2.19 to 2.23", 9: "2.24, 2.25", 10: "2.26, 2.27", 11: "2.28, 2.29", 12: "2.30 and on"}
PLAYED = {8: "NCCL 2.21.5", 9: "NCCL 2.25.1", 10: "NCCL 2.27.7", 11: "NCCL 2.29.7", 12: "NCCL 2.30.7"}
"""What the driver says it is."""
TWO = ("--contexts", 2, "--dev", "0,1,0,1")
INVALID_USAGE = 5
PARTS = 1
MOST_BYTES = {8: 1 << 30}
"""Of one message, where NCCL does not ask the plugin but knows a limit."""


def cut(stage: Stage, *, table: int) -> Outcome:
    """Two communicators with two connections each, messages of many sizes; NIC 0 loses its cable in the middle."""
    with made() as bed:
        pair = stage.pair(bed, "--table", table, "--seconds", 2, "--vary", *TWO)
        if pair.connected():
            pair.at(0.5, lambda: bed.cut("eth0"))
        both = pair.end()
    problems = both.within(MOVED_MS)
    lines = (f"{PLAYED[table]} uses net table v{table}", "in the path: build ", "NICs eth0, eth1 (all protected)")
    problems += [f"no line says {line!r}" for line in lines if stage.ours and line not in both.sender.log]
    return outcome(both, problems)


def again(stage: Stage, *, table: int) -> Outcome:
    """Two communicators after two others, all closed; a receive of two messages at a time is refused."""
    with made() as bed:
        end = _two_rounds(stage, bed, table)
    problems = [] if end.exit_code == 0 else [end.seen()]
    if len(end.of("end")) != 2 or any(line["bad"] for line in end.of("end")):
        problems.append(f"ended {len(end.of('end'))} of 2 times, or wrong")
    if stage.ours and {line["result"] for line in end.of("group")} != {INVALID_USAGE}:
        problems.append(f"a grouped receive: {end.of('group')}")
    wanted = {"max_recvs": 1, "parts": PARTS, "max_p2p_bytes": MOST_BYTES.get(table, 1 << 40)}
    problems += [f"properties: {line}" for line in end.of("device") if not wanted.items() <= line.items()]
    return Outcome(end.seen(), problems)


def _two_rounds(stage: Stage, bed: Bed, table: int) -> Ended:
    words = ("--bytes", 4 << 20, "--flight", 2, "--messages", 40, "--vary", "--group", "--rounds", 2)
    return stage.alone(bed, "self", "--table", table, *words, "--listen-dev", "1,0,0,1", *TWO)


def plain(stage: Stage, *, table: int) -> Outcome:
    """NICs that cannot be protected, through the same table."""
    with made(Shape.LINK_LOCAL) as bed:
        both = stage.pair(bed, "--table", table, "--messages", 200, "--vary", *TWO).end()
    problems = both.exact()
    if stage.ours and "NICs eth0, eth1 (none protected)" not in both.sender.log:
        problems.append("no line says that they are not protected")
    return outcome(both, problems)


CASES = [
    *(
        Case(
            f"table-v{table}-plain",
            f"NCCL {TABLES[table]}: NICs have link-local addresses alone",
            "exact, passed through",
            partial(plain, table=table),
        )
        for table in (8, 12)
    ),
    *(
        Case(
            f"table-v{table}",
            f"NCCL {versions}: two communicators, NIC 0 is cut",
            "moved within 1 s, exact",
            partial(cut, table=table),
        )
        for table, versions in TABLES.items()
    ),
    *(
        Case(
            f"table-v{table}-again",
            f"NCCL {versions}: two communicators after two others",
            "exact, one receive at a time",
            partial(again, table=table),
        )
        for table, versions in TABLES.items()
    ),
]
