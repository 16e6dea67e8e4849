"""The soak under somebody's own experiment: which it takes, how long a round of it lasts, and what is looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chaos_literal import at

from chaos.analysis.rundata import Line
from chaos.experiment.file import dump, load, loads
from chaos.experiment.model import Hypothesis
from chaos.soak import draw, judge
from chaos.soak.resume import digest_of
from chaos.soak.run import Tally, reduced
from chaos.testbed.beds import topology_of
from harness.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]


def test_faults_are_drawn_for_somebodys_own_experiment() -> None:
    own = load(ROOT / "experiments/gpu/collectives.yaml")
    shape = draw.own_shape(own, topology_of(own))
    round_ = draw.round_of(1, 0, arm="balance", seconds=20, shapes=[shape])
    assert (round_.topology, list(round_.arms)) == (own.topology, ["balance"])
    assert round_.workload.seconds >= 16
    assert round_.workload.model_dump(exclude={"seconds", "iterations"}) == own.workload.model_dump(
        exclude={"seconds", "iterations"}
    )
    assert loads(dump(round_), Path("round.yaml")) == round_
    assert len(round_.faults) > 10


def test_a_round_of_somebodys_own_experiment_runs_once_and_is_judged_by_nothing_of_theirs() -> None:
    own = load(ROOT / "experiments/nic_down.yaml")
    assert own.repeats > 1
    round_ = draw.round_of(1, 0, arm="migrate", seconds=20, shapes=[draw.own_shape(own, topology_of(own))])
    assert round_.repeats == 1
    assert round_.hypothesis_of("migrate") == Hypothesis()


def test_one_host_has_nobody_to_be_cut_off_from() -> None:
    own = load(ROOT / "experiments/nic_down.yaml")
    with pytest.raises(UsageError, match="nic_down has one host"):
        draw.own_shape(own, topology_of(own).model_copy(update={"hosts": 1}))


def test_iterations_that_always_take_long_are_not_stalled() -> None:
    def took(index: int, seconds: float) -> Line:
        return at(1000, "h0", "iteration", rank=0, index=index, start_ns=0, end_ns=int(seconds * 1e9), wrong_elements=0)

    unfinished = "the journal stops before the run ended"
    for found, own, ours in (
        ([took(-1, 40.0)], unfinished, "took 40 s"),
        ([took(0, 0.1), took(1, 20.0)], "took 20 s", "took 20 s"),
        ([took(0, 5.0), took(1, 20.0)], unfinished, "took 20 s"),
    ):
        assert own in str(judge.failure(found, 1, own=True))
        assert ours in str(judge.failure(found, 1))


def test_a_program_that_runs_no_given_time_is_refused() -> None:
    own = load(ROOT / "experiments/jobs/fsdp2.yaml")
    with pytest.raises(UsageError, match="command of fsdp2 is a program of its own"):
        draw.own_shape(own, topology_of(own))


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("", "# a word\n", True),
        ("duration_s: 2", "duration_s: 4", True),
        ("bytes: 1048576", "bytes: 2097152", False),
        ("nics: 4", "nics: 3", False),
        ("migrate: {expect: holds}", "migrate: {expect: holds, env: {R2CC_LOG: debug}}", False),
        ("stock: {expect: any}", "stock: {expect: any, env: {NCCL_DEBUG: INFO}}", True),
    ],
)
def test_what_a_soak_takes_from_an_experiment_is_what_its_digest_is_of(
    tmp_path: Path, old: str, new: str, same: bool
) -> None:
    text = (
        "name: mine\ntopology: {hosts: 2, nics: 4}\nworkload: {bytes: 1048576, iterations: 10}\n"
        "faults: [{id: a, kind: link_down, host: h1, nic: eth1, at: {time_s: 1}, duration_s: 2}]\n"
        "arms: {stock: {expect: any}, migrate: {expect: holds}}\n"
    )

    def digest(words: str) -> str:
        (tmp_path / "mine.yaml").write_text(words)
        own = load(tmp_path / "mine.yaml")
        return digest_of(draw.own_shape(own, topology_of(own)), "migrate")

    assert old in text
    assert (digest(text.replace(old, new, 1)) == digest(text)) == same


SWEEP = ROOT / "experiments/jobs/nccl_tests_sweep.yaml"


def shape_of(file: Path, **changes: Any) -> draw.Shape:
    own = load(file, changes)
    return draw.own_shape(own, topology_of(own))


def test_a_round_under_nccl_tests_has_as_many_cycles_as_last_so_long() -> None:
    shape = shape_of(SWEEP)
    assert draw.cycles_of(shape) == 12
    alone = draw.experiment_of("alone", shape, (), "balance", seed=1)
    assert (alone.workload.cycles, alone.faults) == (12, ()), "how long a cycle takes is not known yet"
    paced = draw.Shape(shape.hosts, shape.nics, shape.rate_gbit, shape.workload, under=shape.under, cycle_s=0.5)
    round_ = draw.round_of(1, 0, arm="balance", seconds=20, shapes=[paced])
    assert round_.workload.cycles == 2 * draw.seconds_of(round_.faults)
    assert loads(dump(round_), Path("round.yaml")) == round_
    assert "late" not in {fault.kind for fault in round_.faults}
    smaller = reduced(round_, round_.faults[:2])
    assert 2 <= smaller.workload.cycles < round_.workload.cycles / 2
    assert smaller.workload.cycles == pytest.approx(2 * draw.seconds_of(smaller.faults), abs=1)


def test_nccl_tests_that_look_at_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="has check: false, so that nobody looks at its results"):
        shape_of(SWEEP, **{"workload.check": False})


def of_nccl_tests(**end: Any) -> list[Line]:
    """Rank 0 of two speaks: two iterations out of place and two in place of each of three cycles."""
    ended = {"rank": 0, "completed": 12, "wrong_elements": 0, "checked": True, **end}
    iterations = [
        at(1000, "h0", "iteration", rank=0, index=n, start_ns=n * 10**8, end_ns=(n + 1) * 10**8, bytes=64,
           wrong_elements=0)
        for n in range(12)
    ]  # fmt: skip
    return [
        at(0, "h0", "bench_start", rank=0, op="command", ranks=2, nics=[], connections=[]),
        *iterations,
        at(1300, "h0", "bench_end", **ended),
        at(1400, "c", "run_end", outcome="finished", reason=None, exit_codes={"rank0": 0, "rank1": 0}),
    ]


def test_of_nccl_tests_one_rank_speaks_and_all_end_well() -> None:
    assert judge.failure(of_nccl_tests(), 2, own=True, asked=12) is None
    silent = [line for line in of_nccl_tests() if line["event"] != "bench_start"]
    assert "1 of 2 ranks ended well" in str(judge.failure(silent, 2, own=True)), "ours all have to speak"
    without = [line for line in of_nccl_tests() if line["event"] != "bench_end"]
    assert "0 of 1 ranks ended well" in str(judge.failure(without, 2, own=True, asked=12))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"completed": 8}, "rank 0 did 8 of 12 iterations"),
        ({"checked": False}, "rank 0 did not look at its results"),
    ],
)
def test_nccl_tests_that_did_less_than_they_were_told_fail(changed: dict[str, Any], words: str) -> None:
    assert words in str(judge.failure(of_nccl_tests(**changed), 2, own=True, asked=12))


def test_wrong_elements_and_stalls_of_nccl_tests_are_failures() -> None:
    for changed, words in (
        ({"wrong_elements": 3}, "3 wrong elements, first in iteration 3 on rank 0"),
        ({"beside_ms": 16_000.0}, "iteration 3 took 16 s: nothing was broken for so long"),
    ):
        lines = of_nccl_tests()
        lines[4] = {**lines[4], **changed}
        assert str(judge.failure(lines, 2, own=True, asked=12)) == words


def test_of_nccl_tests_what_was_looked_at_is_counted() -> None:
    """Each row is looked at twice: after its iterations out of place, and after those in place."""
    own = load(SWEEP, {"workload.iterations": 2, "workload.cycles": 3, "faults": []})
    tally = Tally()
    tally.add(of_nccl_tests(), own)
    assert (tally.iterations, tally.bytes) == (12, 6 * 64)
    assert judge.cycle_s(of_nccl_tests(), 3) == pytest.approx(0.4)
    with pytest.raises(ValueError, match="left no times of its iterations"):
        judge.cycle_s(of_nccl_tests()[-2:], 3)
