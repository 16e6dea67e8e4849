"""Cases of ends: a process that is killed, and a job that aborts whatever its connections are doing."""

from __future__ import annotations

import math
import time
from functools import partial

from netcases.bed import DATA, HOSTS, MANAGEMENT
from netcases.one_nic import reset_busiest
from netcases.play import NET_FAILED, Both, Case, Ended, Outcome, Shape, Stage, made, outcome
from netcases.waited import too_long

TOLD_MS = 2500
"""On any machine: 50 is the aim where an end is heard, 1000 where only silence tells (`told_ms` is the record). By
which of the two is what `net_a_process_that_ends_is_told_by_its_lanes_and_ports` sees."""
ABORT_MS = 1500
"""500 is the aim (`closed_ms` is the record); 2000 is what is waited for where nothing says that it is an abort."""
ALL = (*DATA, MANAGEMENT)
OVER = ("closed", "failed")


def killed(
    stage: Stage,
    *,
    who: str,
    match: str = "",
    before: str = "",
    one_nic: bool = False,
    hole: bool = False,
    shape: Shape = Shape.RAILS,
) -> Outcome:
    """SIGKILL of one end, while what matches is lost; when, and of what, the other one is told. `before`: lost for a
    while before that. `hole`: NIC 0 loses everything from a second before, and both have two connections."""
    env = {"NCCL_SOCKET_IFNAME": "eth0"} if one_nic else {}
    with made(shape) as bed:
        pair = stage.pair(bed, "--seconds", 20, "--dev", "0,1" if hole else "0", env=env, give_up_s=8)
        victim, left = (pair.sender, pair.receiver) if who == "sender" else (pair.receiver, pair.sender)
        connected = pair.connected()
        if connected and before:
            pair.at(0.3, lambda: bed.lose(before, ALL))
            pair.at(0.4, bed.find_again)
        if connected and match:
            pair.at(0.5, lambda: bed.lose(match, ALL))
        if connected and hole:
            pair.at(0.5, lambda: bed.lose("", DATA[:1]))
        pair.at(1.5 if hole else 0.6, lambda: None)
        struck = time.monotonic_ns()
        victim.process.kill()
        end = left.end(15)
        victim.end(10)
    told = [(line["t_ns"] - struck) / 1e6 for line in end.of("error")]
    problems = [] if end.exit_code == NET_FAILED and told else [f"{end.seen()}, not an error of the net"]
    problems += [f"{end.last['bad']} wrong"] if end.last["bad"] else []
    problems += [
        too_long(f"told after {ms:.0f} ms, not {TOLD_MS}", ms - TOLD_MS, end.waited_ms) for ms in told if ms > TOLD_MS
    ]
    seen = f"told after {told[0]:.0f} ms" if told else end.seen()
    return Outcome(seen, problems, {"told_ms": [round(ms, 1) for ms in told], "messages": end.last["done"]})


def aborted(
    stage: Stage,
    *,
    state: str,
    cut: tuple[str, ...] = (),
    matches: tuple[str, ...] = (),
    reset: bool = False,
    late: bool = False,
) -> Outcome:
    """Both ends close everything in the middle, shortly after NICs were cut and what matches was lost. `reset`: there
    is one NIC, and its connection is reset then. `late`: the sender closes when it is told of the receiver's end.
    `state`: where the sender is when the first of both closes. What a late sender makes of the other's end is not
    looked at."""
    env = {"NCCL_SOCKET_IFNAME": DATA[0]} if reset else {}
    with made() as bed:
        words = ("--seconds", 20, "--leave-at", 900, "--close-failed")
        pair = stage.pair(bed, *words, send=("--leave-at", 5000) if late else (), env=env)
        if pair.connected():
            pair.at(0.5, lambda: None)
            for match in matches:
                bed.lose(match, ALL)
            for nic in cut:
                bed.cut(nic)
            if reset:
                reset_busiest(bed, HOSTS[1])
        both = pair.end()
    left_ns = min(_left_ns(end) for end in both.ends)
    paths = [line for line in both.sender.of("path") if line["t_ns"] < left_ns]
    states = [line["state"] for line in paths if line["state"] not in OVER]
    problems = [f"the sender was {states[-1:]}, not {state}"] if states[-1:] != [state] else []
    told_ms = (_left_ns(both.sender) - left_ns) / 1e6
    problems += [f"the sender closed after {told_ms:.0f} ms, not {TOLD_MS}"] if late and told_ms > TOLD_MS else []
    return outcome(both, problems + _aborts(both), closed_ms=[_closed_ms(end) for end in both.ends])


def aborted_early(stage: Stage, *, match: str) -> Outcome:
    """Both ends give up after a second in which they could not connect, as what matches was lost from the start."""
    with made() as bed:
        bed.lose(match, ALL)
        pair = stage.pair(bed, "--seconds", 20, "--connect-s", 1, "--close-failed")
        both = pair.end()
    problems = ["they connected"] if any(end.of("connected") for end in both.ends) else []
    return outcome(both, problems + _aborts(both), closed_ms=[_closed_ms(end) for end in both.ends])


def _left_ns(end: Ended) -> float:
    """When it began to close, by the clock of all lines."""
    return min((line["t_ns"] - line["ms"] * 1e6 for line in end.of("closed")), default=math.inf)


def _closed_ms(end: Ended) -> float:
    return round(max((float(line["ms"]) for line in end.of("closed")), default=-1.0), 1)


def _aborts(both: Both) -> list[str]:
    """What is wrong with how both closed."""
    found = []
    for name, end in zip(HOSTS, both.ends, strict=True):
        found += [f"{name}: {end.seen()}"] if end.exit_code not in (0, NET_FAILED) else []
        found += [f"{name}: {end.last['bad']} wrong"] if end.last["bad"] else []
        if not 0 <= _closed_ms(end) <= ABORT_MS:
            what, over_ms = f"{name} took {_closed_ms(end):.0f} ms to close", _closed_ms(end) - ABORT_MS
            found.append(too_long(what, over_ms, end.waited_ms) if over_ms > 0 else what)
    return found


_TOLD = "the other end is told within 50 ms"
_SOON = "all is closed within 500 ms"
UDP, NEW, ENDS = "meta l4proto udp", "tcp flags & (syn | ack) == syn", "tcp flags & (fin | rst) != 0"

CASES = [
    Case("killed-recv", "the receiver is killed", _TOLD, partial(killed, who="receiver"), (1, 2)),
    Case("killed-send", "the sender is killed", _TOLD, partial(killed, who="sender"), (1, 2)),
    Case("killed-one-nic", "the receiver is killed, one NIC", _TOLD, partial(killed, who="receiver", one_nic=True)),
    Case("killed-udp", "the receiver is killed, UDP is lost", _TOLD, partial(killed, who="receiver", match=UDP)),
    Case(
        "killed-silent",
        "the sender is killed, and no end of a TCP connection is heard",
        "the other end is told within a second",
        partial(killed, who="sender", match=ENDS),
    ),
    *(
        Case(
            f"killed-stream-{who[:4]}",
            f"the {who} is killed, no end of a TCP connection is heard, and UDP was lost for 0.1 s before",
            "the other end is told within a second",
            partial(killed, who=who, match=ENDS, before=UDP),
            (1, 2),
        )
        for who in ("sender", "receiver")
    ),
    *(
        Case(
            f"killed-{name}-{who[:4]}",
            f"{shape}; the {who} is killed a second after NIC 0 began to lose everything",
            _TOLD,
            partial(killed, who=who, hole=True, shape=shape),
            modes,
        )
        for name, shape, modes in (("hole", Shape.RAILS, (1, 2)), ("hole-subnet", Shape.ONE_SUBNET, (1,)))
        for who in ("sender", "receiver")
    ),
    Case("abort-active", "both ends close in the middle", _SOON, partial(aborted, state="active")),
    Case("abort-late", "the same, one of them late", _SOON, partial(aborted, state="active", late=True)),
    Case(
        "abort-holding", "the same 0.4 s after both NICs were cut", _SOON, partial(aborted, state="holding", cut=DATA)
    ),
    Case(
        "abort-exchanging",
        "the same after NIC 0 was cut and UDP and new connections are lost",
        _SOON,
        partial(aborted, state="exchanging", cut=("eth0",), matches=(UDP, NEW)),
    ),
    Case(
        "abort-frozen",
        "one NIC; the same after its connection was reset and new ones are lost",
        _SOON,
        partial(aborted, state="frozen", matches=(NEW,), reset=True),
    ),
    *(
        Case(
            f"abort-connecting{name}",
            f"both give up connecting: {what} lost",
            _SOON,
            partial(aborted_early, match=match),
        )
        for name, what, match in (("", "new TCP connections are", NEW), ("-dark", "everything is", ""))
    ),
]
