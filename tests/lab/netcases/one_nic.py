"""Cases of hosts with one NIC: what carries its messages is reset, and there is no other way."""

from __future__ import annotations

from functools import partial

from netcases.bed import HOSTS, Bed
from netcases.play import Case, Ended, Outcome, Stage, made, outcome

NIC = "eth0"
RESETS = 5
EVERY_S = 0.4
SECONDS = 4
"""Longer than that takes, by what a busy machine may be late."""
STILL_MS = 1000
"""On any machine: 10 is the aim (`still_ms` is the record)."""


def reset(stage: Stage, *, at: str) -> Outcome:
    """The connection that carries most, several times: host `at` answers each of its packets with a reset."""
    with made() as bed:
        for host in HOSTS:  # else a reset that data has overtaken has no effect for half a second, and that again
            bed.host(host).run(["sysctl", "-qw", "net.ipv4.tcp_invalid_ratelimit=0"])
        pair = stage.pair(bed, "--seconds", SECONDS, env={"NCCL_SOCKET_IFNAME": NIC})
        if pair.connected():
            for n in range(RESETS if stage.ours else 1):  # stock has no connection left then
                pair.at(0.5 + n * EVERY_S, partial(reset_busiest, bed, at))
                if stage.ours:  # else the next one would meet the connection that is just being replaced
                    pair.sender.wait_for("path", of={"state": "active", "epoch": n + 2})
        both = pair.end()
    stages = _stages_ms(both.sender)
    problems = both.within(STILL_MS)
    if stage.ours and len(stages) < RESETS:
        problems.append(f"{len(stages)} lanes were replaced, not {RESETS}")
    still = [round(sum(each), 2) for each in stages]
    return outcome(both, problems, still_ms=still, lane_and_count_ms=stages)


def reset_busiest(bed: Bed, at: str) -> None:
    port = bed.busiest_port()
    bed.lose(f"tcp {'sport' if at == 'h1' else 'dport'} {port}", (NIC,), (at,), "reject with tcp reset")


def _stages_ms(end: Ended) -> list[tuple[float, float]]:
    """Of each error the sender saw: until the fresh lane was there, and from then until the rest went out again."""
    found, at = [], {"frozen": 0, "exchanging": 0}
    for line in end.of("path"):
        state, now = line["state"], line["t_ns"]
        if state == "frozen" and not at["frozen"]:
            at["frozen"] = now
        elif state == "exchanging" and at["frozen"]:
            at["exchanging"] = now
        elif state == "active" and at["exchanging"] and at["frozen"]:
            stages = at["exchanging"] - at["frozen"], now - at["exchanging"]
            found.append((round(stages[0] / 1e6, 2), round(stages[1] / 1e6, 2)))
            at = {"frozen": 0, "exchanging": 0}
    return found


_SAME = "on over a fresh connection of the same NIC within 10 ms, exact"
CASES = [
    Case(
        "one-nic-reset",
        "one NIC; 5 times its connection is reset towards the sender",
        _SAME,
        partial(reset, at="h1"),
        (1, 2),
    ),
    Case("one-nic-reset-recv", "the same towards the receiver", _SAME, partial(reset, at="h0")),
]
