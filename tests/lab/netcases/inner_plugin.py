"""Cases of R2CC_INNER_PLUGIN: another vendor's net under ours (`r2cc_patches/tests/plugin`), which is sockets here."""

from __future__ import annotations

from collections.abc import Callable

from netcases.network import MOVED_MS
from netcases.play import Bed, Both, Case, Outcome, Stage, made, outcome

OTHER = "the net Other of R2CC_INNER_PLUGIN="
TABLE = 11


def play(stage: Stage, library: str, at_half_a_second: Callable[[Bed], object]) -> Both:
    """Two communicators over both NICs, with that plugin from the build's folder."""
    env = {"R2CC_INNER_PLUGIN": str(stage.library.with_name(library))}
    with made() as bed:
        words = ("--table", TABLE, "--seconds", 2, "--vary", "--contexts", 2, "--dev", "0,1,0,1")
        pair = stage.pair(bed, *words, env=env)
        if pair.connected():
            pair.at(0.5, lambda: at_half_a_second(bed))
        return pair.end()


def missing(stage: Stage, both: Both, once: str, also: str) -> list[str]:
    """Lines that are not said as often as they should be: `once` is a warning, one a process."""
    if not stage.ours:
        return []
    found = [f"{once!r} is said {end.log.count(once)} times" for end in both.ends if end.log.count(once) != 1]
    return found + [f"no line says {also!r}" for end in both.ends if also not in end.log]


def fenced(stage: Stage) -> Outcome:
    both = play(stage, "libother_fenced.so", lambda bed: bed.cut("eth0"))
    problems = both.within(MOVED_MS)
    if stage.ours and ", net Other, NICs eth0, eth1 (all protected)" not in both.sender.log:
        problems.append("no line says that net Other is wrapped")
    for last in (end.of("end")[-1] for end in both.ends if stage.ours and end.of("end")):
        if last["profiled"] < last["done"]:
            problems.append(f"NCCL's profiler saw {last['profiled']} of {last['done']} messages")
    return outcome(both, problems)


def without_symbol(stage: Stage) -> Outcome:
    both = play(stage, "libother_plain.so", lambda _: None)
    problems = both.exact() + missing(
        stage, both, OTHER, "has no symbol r2ccFence_v1, so it is passed through as it is"
    )
    if "in the path: build" in both.log:
        problems.append("R2CC says that it is in the path")
    return outcome(both, problems)


def no_such_file(stage: Stage) -> Outcome:
    both = play(stage, "libother_none.so", lambda bed: bed.cut("eth0"))
    problems = both.within(MOVED_MS)
    return outcome(
        both, problems + missing(stage, both, "libother_none.so cannot be used: ", ", net Socket, NICs eth0")
    )


CASES = [
    Case("inner-fenced", "another plugin's net with r2ccFence_v1; NIC 0 is cut", "moved within 1 s, exact", fenced),
    Case("inner-plain", "another plugin's net without it", "exact, passed through, one warning", without_symbol),
    Case("inner-none", "no such plugin; NIC 0 is cut", "our own nets: moved within 1 s, exact", no_such_file),
]
