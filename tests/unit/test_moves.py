"""Failovers, returns and errors counted from a journal, and what a hypothesis makes of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from chaos_literal import Line, at, experiment, lines, start

from chaos.analysis.figures import run_figures
from chaos.analysis.moves import error_after_ms, failovers, not_returned, shared_out, unmentioned
from chaos.analysis.rundata import read_run
from chaos.analysis.stall import detect_ms
from chaos.analysis.verdict import run_checks
from chaos.experiment.model import Hypothesis


def path(ms: float, host: str, state: str, nic: str, *, direction: str = "send") -> Line:
    more = {"connection": "5", "direction": direction, "peer": "10.1.0.1", "home_nic": "eth1"}
    return {"schema": 1, "arm": "migrate", "run": 0, **at(ms, host, "path", state=state, nic=nic, **more)}


AWAY = [path(1450, "h1", "frozen", "eth1"), path(1452, "h1", "exchanging", ""), path(1455, "h1", "active", "eth0")]
HOME = [path(2040, "h1", "active", "eth1")]


def run(*more: Line) -> Any:
    return read_run([*lines("stock"), *more])


def detected_ms(*more: Line) -> float | None:
    data = run(*more)
    return detect_ms(data, data.faults[0])


def checks(hypothesis: Hypothesis, *more: Line) -> dict[str, str]:
    figures = run_figures(run(*more), 1, iterations=experiment().workload.iterations)
    return {check.name: check.outcome for check in run_checks(figures, hypothesis, 1)}


def test_a_quiet_run_moves_nothing() -> None:
    assert (failovers(run()), not_returned(run())) == (0, 0)
    assert checks(Hypothesis(failovers_max=0, returned=True))["failovers"] == "holds"


def test_a_frozen_sender_is_a_failover_and_the_receiver_is_not_counted_again() -> None:
    there = path(1450, "h0", "frozen", "eth1", direction="recv")
    assert failovers(run(*AWAY, there)) == 1
    outcome = checks(Hypothesis(failovers_max=0, returned=True), *AWAY)
    assert (outcome["failovers"], outcome["returned"]) == ("deviated", "deviated")


def test_traffic_that_is_given_to_other_nics_without_a_fault_is_counted() -> None:
    """Issue 34: nothing moves where all NICs are slow alike; failovers alone do not say so."""
    given = {**path(1450, "h1", "active", "eth1"), "cause": "balance", "shares": "eth1:14,eth0:1"}
    home = {**path(1900, "h1", "active", "eth1"), "cause": "failback"}
    there = {**given, "direction": "recv"}
    assert [shared_out(run()), shared_out(run(given, home, there)), shared_out(run(given, home, given))] == [0, 1, 2]
    assert checks(Hypothesis(failovers_max=0, shared_out_max=0), given, home) == {
        **checks(Hypothesis(failovers_max=0)), "failovers": "holds", "shared_out": "deviated",
    }  # fmt: skip
    assert checks(Hypothesis(shared_out_max=1), given, home)["shared_out"] == "holds"


def test_frozen_until_the_receiver_closed_it_is_no_failover() -> None:
    """A job's end: the lane breaks 0.8 ms before the goodbye is here."""
    ended = [*AWAY[:2], path(1451, "h1", "closed", "")]
    assert (failovers(run(*ended)), not_returned(run(*ended))) == (0, 0)
    assert (failovers(run(*AWAY[:2])), not_returned(run(*AWAY[:2]))) == (1, 1), "the rank was killed, perhaps"
    lost = [*AWAY[:2], path(1451, "h1", "holding", ""), path(1452, "h1", "closed", "")]
    assert (failovers(run(*lost)), not_returned(run(*lost))) == (1, 1)
    assert failovers(run(*AWAY, *ended)) == 1


def test_what_only_led_to_an_orderly_close_is_no_sign_of_a_fault() -> None:
    """A receiving end that failed is one: the process that sent to it may be the one that was killed."""
    ended = [*AWAY[:2], path(1451, "h1", "closed", "")]
    assert detected_ms(*ended) is None
    assert detected_ms(*ended, path(1460, "h0", "failed", "eth1", direction="recv")) == 15
    assert detected_ms(*AWAY) == 5


def test_what_the_library_counted_counts_when_lines_were_lost() -> None:
    assert failovers(run({**AWAY[0], "event": "net_end", "failovers": 3, "failbacks": 0})) == 3


def test_home_again() -> None:
    assert not_returned(run(*AWAY)) == 1
    assert not_returned(run(*AWAY, *HOME)) == 0
    assert checks(Hypothesis(returned=True), *AWAY, *HOME)["returned"] == "holds"
    stuck = path(2100, "h1", "holding", "")
    assert not_returned(run(*AWAY, *HOME, stuck)) == 1


def error(ms: float, rank: int, message: str = "h1 eth1: no path for 2000 ms") -> Line:
    line = at(ms, f"h{rank}", "error", rank=rank, message=message, peer=0, connection=1)
    return {"schema": 1, "arm": "migrate", "run": 0, **line}


def test_errors_are_timed_from_the_onset_to_the_last_rank() -> None:
    """The onset is at 1445 ms."""
    both = (error(3445, 0), error(3545, 1), error(9000, 0))
    assert error_after_ms(run(*both)) == 2100.0
    assert error_after_ms(run(error(3445, 0))) is None, "rank 1 never said anything"
    asked = Hypothesis(completes=False, error_within_ms=2200.0, error_mentions=("h1", "eth1"))
    assert set(checks(asked, *both).values()) == {"holds"}
    late = checks(asked, error(3445, 0), error(3700, 1))
    assert late["error_after"] == "deviated"
    assert checks(asked, error(3445, 0))["errors_on_every_rank"] == "deviated"
    vague = checks(asked, error(3445, 0, "remote error"), error(3545, 1, "remote error"))
    assert vague["errors_mention(h1, eth1)"] == "deviated"


def test_a_killed_rank_need_not_say_anything() -> None:
    killed = {"id": "k", "kind": "kill", "nic": "", "rank": 1, "phase": "injected"}
    line = {"schema": 1, "arm": "migrate", "run": 0, **at(1445, "h1", "fault", **killed)}
    assert error_after_ms(run(line, error(1500, 0))) == 55.0


def test_texts_that_no_error_holds() -> None:
    assert unmentioned(["h7: h1 is gone", "h7: eth2"], ["h1", "eth2", "h7", "cause"]) == ["h7", "cause"]
    assert start(0, 1)["event"] == "bench_start"


def test_a_bound_knows_what_share_of_which_nics_is_gone() -> None:
    """Two NICs a host: one at half its rate leaves 1.5 of 2, so a healthy 100 ms become 133; both gone: nothing."""

    def bound(**words: Any) -> float | None:
        made = [{**line, **(words if line["event"] == "fault" else {})} for line in lines("migrate")]
        (fault,) = asdict(run_figures(read_run(made), 2, iterations=10))["faults"]
        return None if fault["degraded_bound_ms"] is None else round(fault["degraded_bound_ms"], 1)

    assert bound() == 200.0
    assert bound(kind="rate", fraction=0.5) == 133.3
    assert bound(kind="black_hole", nics=[["h0", "eth1"], ["h1", "eth1"]]) == 200.0, "one of each host"
    assert bound(kind="black_hole", nics=[["h1", "eth0"], ["h1", "eth1"]]) is None
    assert bound(kind="loss") == 100.0, "nothing is known to be gone"
