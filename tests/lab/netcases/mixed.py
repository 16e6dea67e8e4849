"""Cases of ranks that differ: modes, builds and doors that work with each other; protocols, and one without R2CC."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from netcases.bed import Bed
from netcases.network import MOVED_MS
from netcases.play import GIVE_UP_S, POLL_S, Both, Case, Outcome, Pair, Stage, made, outcome

FAILED = 3
VERSION_AT, BUILD_AT = 4, 114
"""Where a handle has them, with its three addresses."""
PLUGIN = ("--table", 11)
FORK: tuple[object, ...] = ()
"""What NCCL's own net is behind: the table that the fork registers."""
GOES_ON = "Both speak the same protocol, so the job goes on"
NO_FIT = "the ranks cannot work with each other: R2CC's protocol is "
Words = Sequence[object]
Change = Callable[[bytearray], None]


def start(
    stage: Stage,
    bed: Bed,
    *,
    modes: tuple[int, int] | None = None,
    doors: tuple[Words, Words] = (PLUGIN, PLUGIN),
    change: Change | None = None,
    envs: tuple[Mapping[str, str], Mapping[str, str]] | None = None,
) -> Pair:
    """A sender and a receiver of these modes and settings; `change` is done to the handle on its way."""
    written, read = stage.handle(), stage.handle()
    send_env, recv_env = ({"R2CC_MODE": str(mode)} for mode in modes or (stage.mode, stage.mode))
    send_more, recv_more = envs or ({}, {})
    both = ("--seconds", 2, "--vary", "--give-up-s", GIVE_UP_S, "--connect-s", GIVE_UP_S + 2)
    receiver = stage.start(
        bed, "h1", ["--role", "recv", *both, *doors[1], "--handle", written], {**recv_env, **recv_more}
    )
    handed_on(written, read, change)
    return Pair(
        stage.start(bed, "h0", ["--role", "send", *both, *doors[0], "--handle", read], {**send_env, **send_more}),
        receiver,
    )


def handed_on(written: Path, read: Path, change: Change | None) -> None:
    """As NCCL's bootstrap hands a handle on; nothing when the receiver has none to give."""
    until = time.monotonic() + GIVE_UP_S
    while not written.exists() and time.monotonic() < until:
        time.sleep(POLL_S)
    if not written.exists():
        return
    handle = bytearray(written.read_bytes())
    if change:
        change(handle)
    part = read.with_suffix(".part")
    part.write_bytes(handle)
    part.rename(read)


def said(both: Both, line: str, times: tuple[int, int]) -> list[str]:
    """What of these counts of a line, at the sender and at the receiver, is not so."""
    counts = both.sender.log.count(line), both.receiver.log.count(line)
    return [] if counts == times else [f"{line!r} is said {counts} times, not {times}"]


def another_build(handle: bytearray) -> None:
    handle[BUILD_AT] ^= 0xFF


def another_protocol(handle: bytearray) -> None:
    handle[VERSION_AT] += 1


def works(
    stage: Stage,
    *,
    modes: tuple[int, int],
    doors: tuple[Words, Words] = (PLUGIN, PLUGIN),
    change: Change | None = None,
    warned: bool = True,
) -> Outcome:
    """NIC 0 is cut in the middle, whichever end is which."""
    with made() as bed:
        chosen = modes if stage.ours else None
        pair = start(stage, bed, modes=chosen, doors=doors, change=change if stage.ours else None)
        if pair.connected():
            pair.at(0.5, lambda: bed.cut("eth0"))
        both = pair.end()
    once = (1 if warned else 0, 0)
    return outcome(both, both.within(MOVED_MS) + (said(both, GOES_ON, once) if stage.ours else []))


def protocols(
    stage: Stage, *, doors: tuple[Words, Words] = (PLUGIN, PLUGIN), change: Change | None = another_protocol
) -> Outcome:
    with made() as bed:
        both = start(stage, bed, doors=doors, change=change if stage.ours else None).end()
    if not stage.ours:
        return outcome(both, both.exact())
    problems = failed(both, "connect", "accept") + said(both, NO_FIT, (1, 1))
    problems += [
        f"no line names {where}"
        for where in (" on h0 (build ", " on 10.1.0.2 (build ", "Use one build of R2CC on all ranks")
        if where not in both.sender.log or where not in both.receiver.log
    ]
    return outcome(both, problems)


def failed(both: Both, sender: str, receiver: str) -> list[str]:
    """Whether both ends failed, and in which call."""
    found = []
    for name, end, call in (("sender", both.sender, sender), ("receiver", both.receiver, receiver)):
        if end.exit_code != FAILED or call not in end.why:
            found.append(f"{name}: {end.seen()}, not an error of {call}")
    return found


def stock_sends(stage: Stage) -> Outcome:
    """Sockets take a handle of ours for an address, and for a number of sockets that is any: none is a comm, too."""
    with made() as bed:
        both = start(stage, bed, modes=(0, 1) if stage.ours else None, doors=(FORK, PLUGIN)).end()
    if not stage.ours:
        return outcome(both, both.exact())
    return outcome(both, failed(both, "failed with NCCL result", "not connected in time"))


def one_off(stage: Stage, *, modes: tuple[int, int], line: str, tells: bool = False) -> Outcome:
    """The end that connects sees it at once. Where the other end has none of R2CC, that waits, as for any rank of stock
    that has ended."""
    with made() as bed:
        both = start(stage, bed, modes=modes if stage.ours else None).end()
    if not stage.ours:
        return outcome(both, both.exact())
    waits = "accept" if tells else "not connected in time"
    problems = failed(both, "connect", waits) + said(both, line, (1, 0))
    return outcome(both, problems + said(both, "on h0 runs without R2CC", (0, 1 if tells else 0)))


CASES = [
    *(
        Case(
            f"mixed-modes-{mine}-{theirs}",
            f"R2CC_MODE={mine} sends to R2CC_MODE={theirs}; NIC 0 is cut",
            "moved within 1 s, exact, one warning",
            partial(works, modes=(mine, theirs)),
        )
        for mine, theirs in ((1, 2), (2, 1), (1, 3), (3, 1))
    ),
    Case(
        "mixed-builds",
        "two builds of one protocol; NIC 0 is cut",
        "moved within 1 s, exact, one warning",
        partial(works, modes=(1, 1), change=another_build),
    ),
    *(
        Case(
            f"mixed-{name}",
            f"{what}; NIC 0 is cut",
            "moved within 1 s, exact, no warning",
            partial(works, modes=(1, 1), doors=doors, warned=False),
        )
        for name, what, doors in (
            ("plugin-fork", "the plugin sends to the fork's net", (PLUGIN, FORK)),
            ("fork-plugin", "the fork's net sends to the plugin", (FORK, PLUGIN)),
        )
    ),
    Case("mixed-protocols", "two builds of two protocols", "both ends fail, one clear line each", protocols),
    Case(
        "mixed-off-recv",
        "R2CC sends to a rank with R2CC_MODE=0",
        "the sender fails at once, with one clear line",
        partial(one_off, modes=(1, 0), line="which runs without R2CC"),
    ),
    Case(
        "mixed-off-send",
        "a rank with the plugin and R2CC_MODE=0 sends to R2CC",
        "both ends fail, one clear line each",
        partial(one_off, modes=(0, 1), line="the peer runs R2CC, and this rank does not", tells=True),
    ),
    Case("mixed-stock-send", "stock sockets send to R2CC", "the sender fails: NCCL's own error", stock_sends),
]
