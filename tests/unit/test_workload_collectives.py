"""Torch's collectives on CPUs: right results, a check that sees one changed element, settings that make no sense."""

from __future__ import annotations

import pytest
from torch_python import needs_torch, run_ranks

GLOO = ["all_reduce", "all_reduce_prod", "all_reduce_min", "broadcast", "reduce", "all_gather", "gather", "scatter"]
SPEC = {
    "bytes": 4096,
    "dtypes": ["float32", "int64"],
    "ops": [*GLOO, "send_recv", "batch_send_recv", "at_once", "barrier"],
}

pytestmark = [needs_torch, pytest.mark.timeout(120)]


def test_all_elements_are_right_on_three_ranks() -> None:
    for run in run_ranks("collectives", 3, "--iterations", "2", "--warmup", "1", spec=SPEC):
        assert run.exit_code == 0, run.stderr
        assert [(line["index"], line["wrong_elements"]) for line in run.of("iteration")] == [(-1, 0), (0, 0), (1, 0)]


def test_without_ops_what_gloo_has_is_run() -> None:
    for run in run_ranks("collectives", 2, "--iterations", "1", "--warmup", "0", spec={"bytes": 4096}):
        assert run.exit_code == 0, run.stderr


def test_one_changed_element_is_seen_where_it_is() -> None:
    words = ["--iterations", "2", "--warmup", "0", "--corrupt", "1:1"]
    first, second = run_ranks("collectives", 2, *words, spec=SPEC)
    assert (first.exit_code, second.exit_code) == (0, 1)
    assert [line.get("wrong") for line in second.of("iteration")] == [None, {"all_reduce": 1}]


def test_a_collective_that_there_is_not_is_the_users_mistake() -> None:
    for run in run_ranks("collectives", 2, spec={"ops": ["allreduce"]}):
        assert run.exit_code == 2
        assert "collectives: no collective allreduce; there are all_reduce, " in run.stderr
        assert "Traceback" not in run.stderr
