"""Entries of a timeline: what each kind must and must not be told, and what several of them may not do together."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from chaos.experiment.file import dump, load, loads
from chaos.faults.catalogue import example
from chaos.faults.registry import kinds, spec_of
from chaos.faults.spec import FaultSpec
from harness.errors import InputErrors

ROOT = Path(__file__).resolve().parents[2]
OTHERS = {"campaigns", "sim"}
SUITES = sorted(
    path for path in (ROOT / "experiments").glob("*/**/*.yaml") if not OTHERS & set(path.relative_to(ROOT).parts)
)
HOSTS = {f"h{host}": ["eth0", "eth1"] for host in range(3)}
ONE = {"id": "f", "kind": "link_down", "host": "h1", "nic": "eth1", "at": {"iteration": 3}, "duration_s": 1.0}


def spec(**words: object) -> FaultSpec:
    return spec_of({**ONE, **words})


def everywhere(**words: object) -> FaultSpec:
    return spec(host="", nic="", **words)


def test_every_kind_has_an_example() -> None:
    assert all(example(kind).kind == kind for kind in kinds())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"kind": "loss"}, "percent\n.*required"),
        ({"kind": "rate", "fraction": 1.0}, "less than 1"),
        ({"kind": "one_way"}, "direction\n.*required"),
        ({"percent": 1.0}, "percent\n.*not permitted"),
        ({"rank": 1}, "needs host and nic, or nics"),
        ({"kind": "stop"}, "needs rank"),
        ({"nics": ["h1:eth1"]}, "needs host and nic, or nics"),
        ({"host": "", "nic": "", "nics": ["h1-eth1"]}, "match pattern"),
        ({"kind": "rail_down", "host": "", "nic": ""}, "needs rail"),
        ({"kind": "kill", "host": "", "nic": "", "rank": 0}, "duration_s does not belong"),
        ({"kind": "late", "host": "", "nic": "", "rank": 0, "at": {"time_s": 1.0}}, "at the beginning of an iteration"),
        ({"at": {"after": "x"}}, "after and ms belong together"),
        ({"at": {"launch_s": 1.0, "fraction": 0.5}}, "fraction belongs to iteration, not to launch_s"),
        ({"at": {"launch_s": 1.0, "time_s": 1.0}}, "give one of"),
    ],
)
def test_what_a_kind_must_and_must_not_be_told(words: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        spec(**words)


def test_stars_and_rails_stand_for_all_that_the_bed_has() -> None:
    assert everywhere(nics=["*:eth1"]).targets(HOSTS) == [("h0", "eth1"), ("h1", "eth1"), ("h2", "eth1")]
    assert everywhere(nics=["h1:*", "h1:eth0", "h2:eth0"]).targets(HOSTS) == [
        ("h1", "eth0"), ("h1", "eth1"), ("h2", "eth0")]  # fmt: skip
    assert everywhere(kind="rail_down", rail=1).targets(HOSTS) == everywhere(nics=["*:eth1"]).targets(HOSTS)
    assert everywhere(kind="stop", rank=1).targets(HOSTS) == []


TIMELINE = """\
name: x
topology: {hosts: 3, nics: 2}
workload: {iterations: 10}
faults:
%s
arms: {migrate: {expect: any}}
"""


def errors_of(*faults: str) -> list[str]:
    with pytest.raises(InputErrors) as caught:
        loads(TIMELINE % "\n".join(f"  - {{{fault}}}" for fault in faults), Path("x.yaml"))
    return caught.value.errors


A = "id: a, kind: link_down, host: h1, nic: eth1, at: {time_s: 1.0}, duration_s: 1.0"


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ([A, "id: b, kind: loss, nics: ['*:eth1'], percent: 1.0, at: {time_s: 1.5}, duration_s: 1.0"],
         "x.yaml:6: faults.1.at: overlaps a on h1 eth1"),
        (["id: a, kind: link_down, nics: ['h1:*'], at: {time_s: 1.0}, duration_s: 1.0"],
         "x.yaml:5: faults.0: leaves h1 without any path"),
        (["id: a, kind: tcp_lost, nics: ['h1:*'], at: {time_s: 1.0}, duration_s: 1.0"],
         "x.yaml:5: faults.0: leaves h1 without any path"),
        (["id: a, kind: big_packets_lost, nics: ['h1:*'], at: {time_s: 1.0}, duration_s: 1.0"],
         "x.yaml:5: faults.0: leaves h1 without any path"),
        (["id: a, kind: tcp_lost, nics: ['h1:eth1'], above_bytes: 900, at: {time_s: 1.0}, duration_s: 1.0"],
         "x.yaml:5: faults.0.above_bytes: unknown key; known here: id, kind, host, "),
        (["id: a, kind: rail_down, rail: 2, at: {time_s: 1.0}, duration_s: 1.0"],
         "x.yaml:5: faults.0.rail: the topology has no rail 2"),
        (["id: a, kind: stop, rank: 3, at: {time_s: 1.0}, duration_s: 1.0"],
         "x.yaml:5: faults.0.rank: there is no rank 3"),
        (["id: a, kind: link_down, nics: ['h0:eth0', 'h7:*'], at: {time_s: 1.0}, duration_s: 1.0"],
         "x.yaml:5: faults.0.nics: h7:* is no NIC of the topology"),
        ([A.replace("{time_s: 1.0}", "{after: zz, ms: 1}")], "x.yaml:5: faults.0.at.after: there is no fault zz"),
        ([A.replace("{time_s: 1.0}", "{after: a, ms: 1}")], "x.yaml:5: faults.0.at.after: a waits for itself"),
        (["id: k, kind: kill, rank: 1, at: {time_s: 1.0}",
          A.replace("{time_s: 1.0}", "{after: k, event: reverted, ms: 1}")],
         "x.yaml:6: faults.1.at.after: k is never undone"),
    ],
)  # fmt: skip
def test_one_wrong_timeline(faults: list[str], message: str) -> None:
    (found,) = errors_of(*faults)
    assert found.startswith(message)


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_the_suites_load_and_survive_a_round_trip(path: Path) -> None:
    experiment = load(path)
    assert experiment.name == path.stem
    assert loads(dump(experiment), path) == experiment
    hypothesis = experiment.hypothesis_of("migrate")
    if "false_positives" in path.parts:
        assert hypothesis.exact, path
        assert hypothesis.completes, path
        assert hypothesis.failovers_max == 0 or (hypothesis.returned and "one_nic" in path.stem), "or it says nothing"


def test_the_suites_are_complete() -> None:
    names = {path.stem for path in SUITES}
    assert names >= {
        "late_1s", "late_10s", "late_60s", "stopped_rank", "clock_jump", "busy_cores", "full_queues",
        "rate_near_zero_everywhere", "rate_near_zero_one_nic", "two_nics", "all_but_one", "all_for_a_while",
        "all_for_good", "rail_down", "second_during_failover", "second_during_failback", "both_ends", "half_rate",
        "loss_1pct", "udp_lost_everywhere", "udp_lost_data_nics", "udp_lost_before_start", "one_subnet", "tcp_lost",
        "big_packets_lost", "big_packets_lost_from_start", "one_subnet_cut_first", "one_subnet_cut_second",
        "quarter_rate", "quarter_rate_few_chunks", "incast",
    }  # fmt: skip
