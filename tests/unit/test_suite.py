"""A folder of experiments: what its exit code says."""

from __future__ import annotations

import pytest

from chaos.run import suite
from chaos.run.suite import Outcome


@pytest.mark.parametrize(
    ("codes", "whole"),
    [((0, 0), 0), ((0, 3), 3), ((3, 1, 0), 1), ((1, 3, 130), 130)],
)
def test_what_deviated_counts_more_than_what_could_not_be_run(codes: tuple[int, ...], whole: int) -> None:
    outcomes = [Outcome(f"e{n}", "-", code, "runs/e", ["why"]) for n, code in enumerate(codes)]
    assert suite.exit_code(outcomes) == whole
    assert suite.table(outcomes).count("why") == sum(code != 0 for code in codes)
