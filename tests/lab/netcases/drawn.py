"""Cases drawn by a number: several things lost at several times, a process stopped, another killed at the end.

What is right follows from what was drawn. One rail may be lost whole, the other one and the management network only in
part: UDP, new TCP connections, or the ends of connections, none of which stock NCCL needs once it is connected. So a
path for data is always left, and nothing stands still for long. Nobody has to think of a combination first.
"""

from __future__ import annotations

import random
import re
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from netcases.bed import DATA, HOSTS, MANAGEMENT, Bed, Loss
from netcases.play import HOLD_MS, NET_FAILED, Case, Outcome, Pair, Shape, Stage, made, outcome
from netcases.waited import too_long

UDP, TCP, BIG, ALL_OF_IT = "meta l4proto udp", "meta l4proto tcp", "meta length > 1500", ""
NEW, ENDS = "tcp flags & (syn | ack) == syn", "tcp flags & (fin | rst) != 0"
HARMLESS = (UDP, NEW, ENDS)
"""Stock needs none of them once it is connected."""
WORDS = {ALL_OF_IT: "all", UDP: "UDP", TCP: "TCP", NEW: "new TCP", ENDS: "ends of TCP", BIG: "large packets"}
NICS = (*DATA, MANAGEMENT)
MOVED_MS, TAKEN_MS = 1200, 300
"""Longest silence where a rail was lost, and where nothing was that stock needs. Of a busy machine."""
TOLD_MS, TOLD_BY_SILENCE_MS = 300, 1500
"""After a kill: where its end is heard, and where only silence tells. The aims are 50 and 1000."""
UDP_ASKED_S = 0.25
NAME = re.compile(r"drawn-(\d+)")
ALWAYS = 40
"""So many are played every night."""
ONCE_WRONG = (122, 188, 243, 268, 288, 301, 528, 610, 644, 1056, 1267, 2304)
"""And these: each has shown a fault."""

Act = tuple[float, Callable[[], object]]


@dataclass(frozen=True)
class Fault:
    """A loss, or the cable of `nic` at `host` where there is none; seconds since both were connected."""

    at_s: float
    for_s: float
    loss: Loss | None = None
    nic: str = ""
    host: str = ""

    def __str__(self) -> str:
        loss = self.loss
        if loss is None:
            what = f"{self.host} {self.nic} cut"
        else:
            where = " ".join((*loss.hosts, *loss.nics))
            what = f"{WORDS[loss.match]} {'lost' if loss.verdict == 'drop' else 'refused'} at {where}"
        return f"{what} {self.at_s}-{self.at_s + self.for_s:.2f} s"


@dataclass(frozen=True)
class Drawn:
    """All of a case."""

    faults: Sequence[Fault]
    shape: Shape
    mode: int
    words: Sequence[object]
    stopped: tuple[float, float, str] | None
    """When, for how long (s), and who."""
    killed: tuple[float, str, str] | None
    """When, who, and what is lost from then on."""

    def __str__(self) -> str:
        said = [self.shape, " ".join(map(str, self.words)), *map(str, self.faults)]
        said += ["{2} stopped {0} s for {1} s".format(*self.stopped)] if self.stopped else []
        if self.killed:
            at_s, who, lost = self.killed
            said += [f"{who} killed {at_s:.2f} s" + (f", {WORDS[lost]} lost" if lost else "")]
        return "; ".join(said)


def draw(number: int) -> Drawn:
    """The same for the same number."""
    dice = random.Random(number)
    rail = dice.choice(DATA)
    part = dice.random() < 0.6
    whole = not part or dice.random() < 0.75
    faults = [_fault(dice, rail, whole=whole, part=part) for _ in range(dice.randint(1, 4))]
    stopped = killed = None
    if dice.random() < 0.2:
        who = dice.choice(["sender", "receiver"])
        stopped = (round(dice.uniform(0.3, 2.5), 2), round(dice.uniform(0.05, 1), 2), who)
    if dice.random() < 0.35:
        over = max([fault.at_s + fault.for_s for fault in faults] + ([sum(stopped[:2])] if stopped else []))
        who = dice.choice(["sender", "receiver"])
        killed = (over + dice.choice([0.02, 0.3, 1.0]), who, dice.choice(["", "", ENDS, UDP]))
    devices, size = dice.choice(["0", "1", "0,1", "0,1,0,1"]), dice.choice([512, 8192, 65536, 65536, 1 << 20])
    shape = dice.choice([*[Shape.RAILS] * 3, Shape.ONE_SUBNET, Shape.ROUTED])
    return Drawn(faults, shape, dice.choice([1, 1, 2]), ("--dev", devices, "--bytes", size), stopped, killed)


def _fault(dice: random.Random, rail: str, *, whole: bool, part: bool) -> Fault:
    at_s = round(dice.uniform(0.2, 3), 2)
    for_s = round(dice.choice([dice.uniform(0.03, 0.3), dice.uniform(0.3, 2)]), 2)
    kind = dice.choice([*(["cable", "rail", "rail"] if whole else []), *(["part"] if part else [])])
    hosts = dice.choice([HOSTS, HOSTS, HOSTS[:1], HOSTS[1:]])
    if kind == "cable":
        return Fault(at_s, for_s, nic=rail, host=dice.choice(HOSTS))
    if kind == "rail":
        return Fault(at_s, for_s, Loss(dice.choice(list(WORDS)), (rail,), hosts))
    match = dice.choice([UDP, UDP, NEW, ENDS])
    nics = dice.choice([NICS, NICS, DATA, (MANAGEMENT,), (dice.choice(DATA),)])
    verdict = "reject" if match == UDP and dice.random() < 0.3 else "drop"
    return Fault(at_s, for_s, Loss(match, nics, hosts, verdict))


def play(stage: Stage, *, number: int) -> Outcome:
    drawn = draw(number)
    with made(drawn.shape) as bed:
        seconds = 20 if drawn.killed else 6
        pair = stage.pair(bed, "--seconds", seconds, *drawn.words, give_up_s=10)
        if not pair.connected():
            return outcome(pair.end(), ["not connected"])
        for at_s, act in sorted(_acts(bed, pair, drawn), key=lambda act: act[0]):
            pair.at(at_s, act)
        return _after_kill(bed, pair, drawn) if drawn.killed else _exact(pair, drawn)


def _acts(bed: Bed, pair: Pair, drawn: Drawn) -> list[Act]:
    lost: list[Loss] = []

    def change(loss: Loss, *, now: bool) -> None:
        lost.append(loss) if now else lost.remove(loss)
        bed.lose_only(lost)

    acts: list[Act] = []
    for fault in drawn.faults:
        over = fault.at_s + fault.for_s
        if fault.loss is None:
            acts.append((fault.at_s, partial(bed.cut, fault.nic, fault.host)))
            acts.append((over, partial(bed.plug, fault.nic, fault.host)))
        else:
            acts.append((fault.at_s, partial(change, fault.loss, now=True)))
            acts.append((over, partial(change, fault.loss, now=False)))
    if drawn.stopped:
        at_s, for_s, who = drawn.stopped
        chosen = {"sender": who == "sender", "receiver": who == "receiver"}
        acts.append((at_s, partial(pair.signal, signal.SIGSTOP, **chosen)))
        acts.append((at_s + for_s, partial(pair.signal, signal.SIGCONT, **chosen)))
    return acts


def _exact(pair: Pair, drawn: Drawn) -> Outcome:
    both = pair.end()
    harmless = all(fault.loss and fault.loss.match in HARMLESS for fault in drawn.faults)
    pause_ms = 1000 * drawn.stopped[1] if drawn.stopped else 0
    return outcome(both, both.within((TAKEN_MS if harmless else MOVED_MS) + pause_ms))


def _after_kill(bed: Bed, pair: Pair, drawn: Drawn) -> Outcome:
    assert drawn.killed is not None
    at_s, who, lost = drawn.killed
    victim, left = (pair.sender, pair.receiver) if who == "sender" else (pair.receiver, pair.sender)
    if lost:
        bed.lose_only([Loss(lost, NICS, HOSTS)])
    pair.at(at_s, lambda: None)
    struck = time.monotonic_ns()
    victim.process.kill()
    end = left.end(15)
    victim.end(10)
    told = [(line["t_ns"] - struck) / 1e6 for line in end.of("error")]
    limit_ms = _told_limit_ms(drawn)
    problems = [] if end.exit_code == NET_FAILED and told else [f"{end.seen()}, not an error of the net"]
    problems += [f"{end.last['bad']} wrong"] if end.last["bad"] else []
    problems += [
        too_long(f"told after {ms:.0f} ms, not {limit_ms}", ms - limit_ms, end.waited_ms)
        for ms in told
        if ms > limit_ms
    ]
    return Outcome(f"told after {told[0]:.0f} ms" if told else end.seen(), problems, {"told_ms": told})


def _told_limit_ms(drawn: Drawn) -> float:
    assert drawn.killed is not None
    at_s, _, lost = drawn.killed
    if lost != ENDS:
        return TOLD_MS
    # A firewall that refuses UDP looks as a host without the process does, and nothing else is heard: only the hold
    # time tells, where it did so until shortly before (UDP alone is asked for again every 250 ms).
    losses = [(fault.at_s + fault.for_s, fault.loss) for fault in drawn.faults if fault.loss]
    refused = [over for over, loss in losses if loss.verdict == "reject" and over > at_s - UDP_ASKED_S]
    return HOLD_MS + TOLD_MS if refused else TOLD_BY_SILENCE_MS


def case(name: str) -> Case | None:
    """The case of that name, where it is one of these: `drawn-17`."""
    found = NAME.fullmatch(name)
    return numbered(int(found[1])) if found else None


def numbered(number: int) -> Case:
    drawn = draw(number)
    right = "the other end is told" if drawn.killed else "exact, and never silent for long"
    return Case(f"drawn-{number}", str(drawn), right, partial(play, number=number), (drawn.mode,), long=True)


CASES = [numbered(number) for number in (*range(ALWAYS), *ONCE_WRONG)]
