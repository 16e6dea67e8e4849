"""Where two arms differ (chaos/analysis/identical.py)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from chaos_literal import at, lines
from test_gpu_figures import run

from chaos.analysis.identical import identical, why
from chaos.analysis.model import Run
from chaos.analysis.summary import run_entry
from chaos.analysis.verdict import run_checks
from chaos.experiment.file import load
from chaos.experiment.model import MODES, Hypothesis

ROOT = Path(__file__).resolve().parents[2]


def made(completed: bool = True, **results: str) -> Run:
    return replace(run(0), completed=completed, results={key.replace("_", "/"): text for key, text in results.items()})


STOCK = [made(**{"0_0": "a", "1_0": "a", "0_1": "b", "1_1": "b", "0_end": "c", "0_digest": "d", "1_digest": "e"})]


def but(**results: str) -> list[Run]:
    changed = STOCK[0].results | {key.replace("_", "/"): text for key, text in results.items()}
    return [replace(STOCK[0], results=changed)]


def without(key: str, completed: bool = True) -> list[Run]:
    results = {name: text for name, text in STOCK[0].results.items() if name != key}
    return [replace(STOCK[0], results=results, completed=completed)]


def test_the_first_iteration_that_differs_is_named_then_its_first_rank() -> None:
    assert why(but(**{"0_1": "X", "1_0": "Y", "0_end": "Z"}), STOCK) == "run 0, iteration 0 of rank 1: Y, in stock a"
    assert why(but(**{"1_digest": "X"}), STOCK) == "run 0, digest of rank 1: X, in stock e"
    assert why(but(**{"0_end": "X"}), STOCK) == "run 0, result of rank 0: X, in stock c"
    assert why(but(), STOCK) == ""


def test_what_one_leaves_of_a_whole_run_the_other_must_leave_too() -> None:
    assert why(without("1/digest"), STOCK) == "run 0, digest of rank 1: nothing, in stock e"
    assert why(STOCK, without("1/digest")) == "run 0, digest of rank 1: e, in stock nothing"
    assert identical(without("1/digest"), STOCK) is False


def test_one_that_did_not_complete_is_compared_as_far_as_it_came() -> None:
    assert identical(without("1/digest", completed=False), STOCK) is True
    assert identical(without("1/1"), STOCK) is True


def test_nothing_to_compare_with_is_said() -> None:
    nothing = [made(completed=False)]
    assert identical(STOCK, nothing) is None
    assert why(STOCK, nothing) == "no result of stock, run 0"


@pytest.mark.parametrize(
    ("results", "outcome"),
    [
        ({"0/digest": "a", "1/digest": "a"}, "holds"),
        ({"0/digest": "a", "1/digest": "b"}, "deviated"),
        ({"0/digest": "a", "2/7": "a"}, "deviated"),
        ({}, "deviated"),
    ],
)
def test_those_that_go_on_leave_results_that_are_alike(results: dict[str, str], outcome: str) -> None:
    asked = Hypothesis(exact=False, completes=False, results_from=2)
    (found,) = run_checks(replace(run(0), results=results), asked, MODES["balance"])
    assert found.outcome == outcome


def test_results_that_ranks_left_are_in_a_runs_checks() -> None:
    """They were read into the summary after its checks were made, so that `results_from` never held."""
    experiment = load(ROOT / "experiments/gpu/shrink.yaml")
    left = [at(2000, host, "result", rank=rank, result="a") for rank, host in enumerate(("h0", "h1"))]
    ended = at(3000, "controller", "run_end", outcome="finished", reason=None, exit_codes={})
    entry = run_entry([{**line, "run": 0} for line in (*lines("migrate"), *left, ended)], 0, experiment, "balance")
    assert {check.name: check.outcome for check in entry.checks}["results_from(2)"] == "holds"


@pytest.mark.parametrize(("losses", "judged"), [((None, None), False), ((float("nan"),), False), ((None, 2.5), True)])
def test_a_loss_that_was_never_a_number_is_not_compared(losses: tuple[float | None, ...], judged: bool) -> None:
    """FSDP2 with a kernel missing from the build: every loss was nan, in stock, too, and "identical" held. (A step or
    two without a number are skipped by training in 16 bits: there the others count.)"""
    experiment = load(ROOT / "experiments/jobs/fsdp2.yaml")
    steps = [
        at(500 + index, f"h{rank}", "iteration", rank=rank, index=index, start_ns=0, end_ns=1, bytes=0)
        | {"wrong_elements": 0, "result": "a", "loss": loss}
        for rank in (0, 1)
        for index, loss in enumerate(losses)
    ]
    ended = at(3000, "controller", "run_end", outcome="finished", reason=None, exit_codes={})
    entry = run_entry([{**line, "run": 0} for line in (*lines("migrate"), *steps, ended)], 0, experiment, "migrate")
    said = [text for text in entry.errors if "never a number" in text]
    assert (identical([entry], [entry]), len(said)) == ((True, 0) if judged else (None, 1))
