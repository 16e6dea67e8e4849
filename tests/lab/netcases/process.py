"""Cases of the process: how it ends, that it forks, that it connects to itself, that it is stopped."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from functools import partial

from netcases.bed import FIRST
from netcases.play import Case, Ended, Outcome, Shape, Stage, made, outcome
from netcases.waited import too_long

CODE = 7
"""What the driver's main returns: nothing else in it does."""
SOON_MS = 1000


def _ended(stage: Stage, end: Ended, wanted: int) -> Outcome:
    problems = [] if end.exit_code == wanted else [f"{end.seen()}, not {wanted}"]
    return Outcome(f"code {end.exit_code}", problems)


def exit_alone(stage: Stage, *, role: str) -> Outcome:
    with made() as bed:
        return _ended(stage, stage.alone(bed, role, "--no-close", "--exit-code", CODE), CODE)


def exit_ways(stage: Stage) -> Outcome:
    wanted = {"exit": CODE, "quick": CODE, "abort": -signal.SIGABRT, "term": -signal.SIGTERM}
    with made() as bed:
        ends = {how: stage.alone(bed, "listen", "--no-close", "--exit-code", CODE, "--leave", how) for how in wanted}
    problems = [f"{how}: {end.seen()}" for how, end in ends.items() if end.exit_code != wanted[how]]
    return Outcome(", ".join(f"{how} {end.exit_code}" for how, end in ends.items()), problems)


def exit_connected(stage: Stage, *, closes: bool) -> Outcome:
    close = "--close" if closes else "--no-close"
    with made() as bed:
        both = stage.pair(bed, "--messages", 200, close, "--exit-code", CODE).end()
    problems = [f"{end.seen()}, not {CODE}" for end in both.ends if end.exit_code != CODE]
    return Outcome(" and ".join(f"code {end.exit_code}" for end in both.ends), problems)


def exit_middle(stage: Stage, *, who: str, env: Mapping[str, str] | None = None) -> Outcome:
    """One end leaves while messages move, with a thread that tests; what becomes of the other is not looked at."""
    leaves = ("--no-close", "--test-thread", "--leave-at", 300, "--exit-code", CODE)
    with made() as bed:
        pair = stage.pair(
            bed,
            "--seconds",
            4,
            send=leaves if who == "sender" else (),
            recv=leaves if who == "receiver" else (),
            env=env,
        )
        pair.connected()
        leaver, other = (pair.sender, pair.receiver) if who == "sender" else (pair.receiver, pair.sender)
        end = leaver.end(10)
        other.process.kill()
    return _ended(stage, end, CODE)


def fork(stage: Stage, *, who: str, child_ms: int = 0, cut: bool = False) -> Outcome:
    """One end forks; the child lives for a while, then calls exit(0)."""
    words = ("--fork-at", 300, "--child-ms", child_ms)
    with made() as bed:
        pair = stage.pair(
            bed, "--seconds", 2, send=words if who == "sender" else (), recv=words if who == "receiver" else ()
        )
        pair.connected()
        if cut:
            pair.at(0.8, lambda: bed.cut("eth0"))
        both = pair.end()
    forked = both.sender if who == "sender" else both.receiver
    children = [(line["code"], line["signal"], line["ms"]) for line in forked.of("child")]
    problems = both.within(SOON_MS)
    if [child[:2] for child in children] != [(0, 0)]:
        problems.append(f"child: {children}, not code 0")
    elif children[0][2] > child_ms + SOON_MS:
        took_ms = children[0][2]
        problems.append(too_long(f"the child took {took_ms:.0f} ms", took_ms - child_ms - SOON_MS, forked.waited_ms))
    moves = [line for line in both.sender.of("path") if line["state"] == "active" and line["epoch"] > 1]
    if moves and not cut:
        problems.append("a failover")
    return outcome(both, problems, child=children)


def to_itself(stage: Stage, *, words: tuple[object, ...], shape: Shape = Shape.RAILS, cut: bool = False) -> Outcome:
    with made(shape) as bed:
        driver = stage.start(bed, "h0", ["--role", "self", "--seconds", 1, "--connect-s", 8, *words])
        if driver.wait_for("connected") and cut:
            bed.cut("eth0")
        end = driver.end()
    connected_ms = [line["ms"] for line in end.of("connected")]
    problems = [] if end.exit_code == 0 and not end.last["bad"] else [end.seen()]
    problems += [
        too_long(f"connected after {ms:.0f} ms", ms - SOON_MS, end.waited_ms) for ms in connected_ms if ms > SOON_MS
    ]
    return Outcome(end.seen(), problems, {"connected_ms": connected_ms, "messages": end.last["done"]})


def same_host(stage: Stage, *, shape: Shape, cut: bool = False) -> Outcome:
    """Two processes of one host: the kernel never puts their packets on a wire."""
    with made(shape) as bed:
        pair = stage.pair(bed, "--seconds", 1, "--dev", "0,1", hosts=("h0", "h0"))
        pair.connected()
        if cut:
            pair.at(0.3, lambda: bed.cut("eth0"))
        both = pair.end()
    return outcome(both, both.within(SOON_MS))


def stopped(
    stage: Stage, *, who: tuple[str, ...], seconds: float, hold_ms: int = 6000, shape: Shape = Shape.ONE_SUBNET
) -> Outcome:
    """SIGSTOP, as a debugger, a scheduler or a pause of a virtual machine does it."""
    chosen = {"sender": "sender" in who, "receiver": "receiver" in who}
    with made(shape) as bed:
        if shape is Shape.ONE_SUBNET:
            bed.answer_arp(FIRST)
        pair = stage.pair(bed, "--seconds", int(seconds) + 2, env={"R2CC_HOLD_MS": str(hold_ms)}, give_up_s=10)
        pair.connected()
        pair.at(0.5, lambda: pair.signal(signal.SIGSTOP, **chosen))
        pair.at(0.5 + seconds, lambda: pair.signal(signal.SIGCONT, **chosen))
        both = pair.end()
    return outcome(both, both.within(seconds * 1000 + SOON_MS))


LATE_S = 4
"""When a receiver asks that asks late; the hold time is a quarter of that, what a process's end waits for is 2 s."""


def late(stage: Stage, *, closes: bool, words: tuple[object, ...], window: int = 0, cut: bool = False) -> Outcome:
    """The sender closes, and ends or goes on. `window`: of the receiver's kernel, in bytes; what does not fit lies in
    the sender's. `cut`: NIC 0 is cut when the hold time is over."""
    keep = ("--keep-ms", (LATE_S + 1) * 1000) if closes else ()
    with made() as bed:
        if window:
            bed.host("h1").run(["sysctl", "-q", "-w", f"net.ipv4.tcp_rmem=4096 {window} {window}"])
        pair = stage.pair(
            bed,
            *words,
            send=keep,
            recv=("--ask-ms", LATE_S * 1000),
            env={"R2CC_HOLD_MS": str(LATE_S * 250)},
            give_up_s=2 * LATE_S,
        )
        pair.connected()
        if cut:
            pair.at(LATE_S / 2, lambda: bed.cut("eth0"))
        both = pair.end()
    return outcome(both, both.exact(), closed_ms=[float(line["ms"]) for line in both.sender.of("closed")])


_OWN = "its own code"
_GOES_ON = "goes on, exact"
_EXACT = "exact"
_ANY = (1, 2)

_SMALL = ("--bytes", 4096, "--messages", 30)
_MIXED = ("--bytes", 8192, "--messages", 60, "--vary")

CASES = [
    Case("exit-init", "init, then return from main, nothing closed", _OWN, partial(exit_alone, role="init")),
    Case("exit-listen", "the same after listen", _OWN, partial(exit_alone, role="listen")),
    Case("exit-ways", "after listen: exit, quick_exit, abort, SIGTERM", "its own code or signal", exit_ways),
    Case("exit-open", "all messages moved, nothing closed", _OWN, partial(exit_connected, closes=False)),
    Case("exit-closed", "all messages moved, all closed", _OWN, partial(exit_connected, closes=True)),
    Case("exit-thread", "a thread tests a receive while main returns", _OWN, partial(exit_middle, who="receiver")),
    Case("exit-send-thread", "a thread tests a send while main returns", _OWN, partial(exit_middle, who="sender")),
    Case(
        "fork-send",
        "the sender forks, the child calls exit(0)",
        "child 0 at once, no failover",
        partial(fork, who="sender"),
    ),
    Case("fork-recv", "the receiver forks", "child 0 at once, no failover", partial(fork, who="receiver")),
    Case(
        "fork-cut",
        "the sender's child lives for 1.2 s; NIC 0 is cut meanwhile",
        "moved within 1 s, child 0",
        partial(fork, who="sender", child_ms=1200, cut=True),
    ),
    Case("self", "listen, connect and accept in one process", "connected at once", partial(to_itself, words=())),
    Case(
        "self-ranks",
        "four ranks of one process, two NICs, across and along",
        "connected at once",
        partial(to_itself, words=("--contexts", 4, "--dev", "0,1,0,1", "--listen-dev", "1,0,0,1")),
    ),
    Case(
        "self-subnet",
        "the same with all NICs in one subnet",
        "connected at once",
        partial(to_itself, words=("--contexts", 2, "--dev", "0,1", "--listen-dev", "1,0"), shape=Shape.ONE_SUBNET),
    ),
    Case(
        "self-cut",
        "one process, NIC 0 is cut",
        "as stock: goes on",
        partial(to_itself, words=("--contexts", 2, "--dev", "0,1"), cut=True),
    ),
    Case("same-host", "two processes of one host", _GOES_ON, partial(same_host, shape=Shape.RAILS)),
    Case("same-host-subnet", "the same, one subnet", _GOES_ON, partial(same_host, shape=Shape.ONE_SUBNET)),
    Case(
        "same-host-cut",
        "two processes of one host, NIC 0 is cut",
        "as stock: goes on",
        partial(same_host, shape=Shape.RAILS, cut=True),
    ),
    Case(
        "stop-recv",
        "one subnet, NIC 0 answers for both, the receiver is stopped for 1.5 s",
        _GOES_ON,
        partial(stopped, who=("receiver",), seconds=1.5),
        _ANY,
    ),
    Case(
        "stop-send",
        "the same, the sender is stopped",
        _GOES_ON,
        partial(stopped, who=("sender",), seconds=1.5),
    ),
    Case(
        "stop-rails",
        "a subnet a rail, the receiver is stopped for 1.5 s",
        _GOES_ON,
        partial(stopped, who=("receiver",), seconds=1.5, shape=Shape.RAILS),
        long=True,
    ),
    Case(
        "stop-recv-short",
        "a subnet a rail, the receiver is stopped for 2.5 s, R2CC_HOLD_MS=1000",
        _GOES_ON,
        partial(stopped, who=("receiver",), seconds=2.5, hold_ms=1000, shape=Shape.RAILS),
    ),
    Case(
        "stop-send-short",
        "the same, the sender is stopped",
        _GOES_ON,
        partial(stopped, who=("sender",), seconds=2.5, hold_ms=1000, shape=Shape.RAILS),
        long=True,
    ),
    Case(
        "suspend-short",
        "both ends stopped for 1.5 s, R2CC_HOLD_MS=500",
        _GOES_ON,
        partial(stopped, who=("sender", "receiver"), seconds=1.5, hold_ms=500, shape=Shape.RAILS),
        _ANY,
    ),
    Case(
        "suspend",
        "both ends stopped for 5 s, R2CC_HOLD_MS=3000",
        _GOES_ON,
        partial(stopped, who=("sender", "receiver"), seconds=5, hold_ms=3000, shape=Shape.RAILS),
        long=True,
    ),
    Case(
        "suspend-subnet",
        "the same in one subnet, NIC 0 answers for both",
        _GOES_ON,
        partial(stopped, who=("sender", "receiver"), seconds=5, hold_ms=3000),
        long=True,
    ),
    Case(
        "late-closed",
        "the sender closes and goes on; the receiver asks for the first message when four hold times are over",
        _EXACT,
        partial(late, closes=True, words=_MIXED),
        _ANY,
    ),
    Case("late-ended", "the same, the sender's process ends", _EXACT, partial(late, closes=False, words=_SMALL), _ANY),
    Case(
        "late-ended-full",
        "the same, and the receiver's kernel takes only a part of what was sent",
        _EXACT,
        partial(late, closes=False, words=("--bytes", 16384, "--messages", 8), window=65536),
        _ANY,
    ),
    Case(
        "late-cut",
        "the sender closes and goes on, NIC 0 is cut after two hold times, the receiver asks after four",
        _EXACT,
        partial(late, closes=True, words=_SMALL, cut=True),
    ),
]
