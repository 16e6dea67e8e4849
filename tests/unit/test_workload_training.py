"""Training as a workload, on CPUs: the same bits whenever nothing is lost, also after a break."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from torch_python import RankRun, needs_torch, run_ranks, torch_python

pytestmark = needs_torch
SPEC = {"layers": 2, "hidden": 32, "heads": 2, "sequence": 16, "vocabulary": 64, "batch": 2}


def train(ranks: int, iterations: int, *words: str, **more: Any) -> list[RankRun]:
    return run_ranks(
        "ddp", ranks, "--warmup", "1", "--iterations", str(iterations), *words, spec={**SPEC, **more}, timeout_s=60
    )


def results(run: RankRun) -> dict[int, str]:
    return {line["index"]: line["result"] for line in run.of("iteration")}


def test_a_training_comes_to_the_same_bits_again_and_to_others_with_another_seed() -> None:
    first, again, other = train(2, 4), train(2, 4), train(2, 4, "--seed", "2")
    assert [run.exit_code for run in first + again + other] == [0] * 6
    assert list(results(first[0])) == [-1, 0, 1, 2, 3]
    for rank in range(2):
        assert results(first[rank]) == results(again[rank])
    assert not set(results(first[0]).values()) & set(results(other[0]).values())


def test_every_step_changes_the_parameters_and_training_learns() -> None:
    lines = train(2, 40, vocabulary=16)[0].of("iteration")
    digests = [line["result"].split()[1] for line in lines]
    assert len(set(digests)) == len(digests)
    assert all(float.fromhex(line["result"].split()[0]) == line["loss"] for line in lines)
    early, late = (sum(line["loss"] for line in part) for part in (lines[:10], lines[-10:]))
    assert late < 0.95 * early


def test_training_that_goes_on_from_a_checkpoint_is_training_without_a_break(tmp_path: Path) -> None:
    """Three ranks: sums of two come out the same in any order, and would hide that DDP regroups its buckets."""
    kept: dict[str, Any] = {"checkpoint_every": 3, "checkpoint": str(tmp_path / "kept")}
    whole, until, after = train(3, 6), train(3, 5, **kept), train(3, 6, **kept)
    assert [run.exit_code for run in whole + until + after] == [0] * 9
    for rank in range(3):
        assert list(results(after[rank])) == [3, 4, 5]
        assert {**results(until[rank]), **results(after[rank])} == results(whole[rank])
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["last.pt"]


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    kept: dict[str, Any] = {"checkpoint_every": 1, "checkpoint": str(tmp_path)}
    assert train(1, 1, **kept)[0].exit_code == 0
    for refused in (train(1, 2, **kept, heads=4)[0], train(1, 2, "--seed", "2", **kept)[0]):
        assert refused.exit_code == 2
        assert "is of other settings" in refused.stderr
        assert not refused.of("iteration")


def test_one_flipped_bit_is_seen_on_its_rank_from_then_on() -> None:
    runs = train(3, 4, "--corrupt", "1:2")
    wrong = [[line["wrong_elements"] for line in run.of("iteration")] for run in runs]
    assert wrong == [[0, 0, 0, 0, 0], [0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]
    assert [run.exit_code for run in runs] == [0, 1, 0]


@pytest.mark.parametrize(
    ("spec", "words", "message"),
    [
        ({"hidden": 32, "heads": 3}, (), "hidden 32 is no multiple of 3 heads"),
        ({}, ("--corrupt", "2:1"), "--corrupt 2:1: not RANK:ITERATION with one of 2 ranks"),
        ({}, ("--corrupt", "1"), "--corrupt 1: not RANK:ITERATION"),
    ],
)
def test_what_cannot_be_trained_ends_with_one_line(spec: dict[str, Any], words: tuple[str, ...], message: str) -> None:
    for run in run_ranks("ddp", 2, *words, spec=spec, timeout_s=60):
        assert run.exit_code == 2
        assert [line for line in run.stderr.splitlines() if line.startswith("ddp: ")] == run.stderr.splitlines()
        assert message in run.stderr
        assert not run.lines


def test_without_megatron_its_absence_is_told() -> None:
    python = torch_python()
    assert python is not None
    if subprocess.run([python, "-c", "import megatron.core"], capture_output=True).returncode == 0:
        pytest.skip("this Python has megatron-core")
    (run,) = run_ranks("megatron", 1, timeout_s=60)
    assert run.exit_code == 2
    assert "No module named 'megatron'" in run.stderr
    assert "name a Python that has it with --python" in run.stderr
