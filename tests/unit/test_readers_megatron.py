"""Lines of Megatron-LM and what grew from it: both units, every end, and what is no number."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from reports.store.readers import megatron
from reports.store.readers.lines import decoded
from reports.store.readers.model import Content, Reading
from tests.unit.import_logs import DRESSES, rank, step


def read(text: str) -> Content:
    return megatron.read(decoded(text.encode()))


def one(text: str) -> Reading:
    (reading,) = read(text).readings
    return reading


def figures(reading: Reading) -> dict[str, float]:
    return {metric.name: metric.value for metric in reading.metrics}


def steps(first: int, last: int, **more: object) -> str:
    return "".join(step(iteration, **more) for iteration in range(first, last + 1))  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", [False, True])
@pytest.mark.parametrize("end", [" |", ""])
def test_both_units(seconds: bool, end: str) -> None:
    reading = one(steps(97, 100, seconds=seconds, end=end))
    assert figures(reading) == {
        "step_ms": pytest.approx(198.5), "step_ms_worst": pytest.approx(200.0), "tflops_per_gpu": 142.5,
        "loss_last": 2.5, "skipped_iterations": 4, "nan_iterations": 0,
    }  # fmt: skip
    assert (reading.verdict, reading.iterations, reading.wrong) == ("holds", 100, None)


@pytest.mark.parametrize("dress", DRESSES.values(), ids=DRESSES)
def test_a_prefix_does_no_harm(dress: object) -> None:
    assert callable(dress)
    content = read(dress("> building the model ...\n" + steps(97, 100)))
    assert [reading.iterations for reading in content.readings] == [100]
    assert content.readings[0].part == "" and content.notes == []


@pytest.mark.parametrize(
    ("line", "step_ms", "flops", "loss"),
    [
        ("iteration 1/infinity | elapsed time per iteration (ms): 512.5 | loss: 1.5 |", 512.5, None, 1.5),
        (" [2026-01-02 03:04:05.678901] iteration 5/ 9 | elapsed time (ms): 512.5 |", 512.5, None, None),
        ("[Rank 3 | Local Rank 3] iteration 5/9 | elapsed time per iteration (ms): 512.5", 512.5, None, None),
        (
            "Training epoch 0, iteration 5/9 | lr: 1e-05 | reduced_train_loss: 1.5 | train_step_timing in s: 0.5125",
            512.5, None, 1.5,
        ),
        (" iteration 5/ 9 | elapsed time per iteration (s): 0.5125 | TFLOPs: 80 | lm loss: 1 |", 512.5, 80.0, 1.0),
        (" iteration 5/ 9 | elapsed time per iteration (ms): 512.5 | throughput (TFLOP/s/GPU): 8 |", 512.5, 8.0, None),
    ],
)  # fmt: skip
def test_lines_of_several_versions(line: str, step_ms: float, flops: float | None, loss: float | None) -> None:
    told = figures(one(f"{line}\n"))
    assert told["step_ms"] == pytest.approx(step_ms)
    assert (told.get("tflops_per_gpu"), told.get("loss_last")) == (flops, loss)


@pytest.mark.parametrize(
    ("end", "verdict"),
    [
        ("[exiting program at iteration 7] datetime: 2026-01-02 03:04:05", "holds"),
        ("[exiting program after 59.5 minutes] datetime: 2026-01-02 03:04:05", "holds"),
        ("[after training is done] datetime: 2026-01-02 03:04:05", "holds"),
        ("rank: 0 | time: 2026-01-02 03:04:05 | exiting the program at iteration 7", "holds"),
        ("[exiting program after receiving SIGTERM.] datetime: 2026-01-02 03:04:05", "failed"),
        ("slurmstepd: error: *** STEP 4711.0 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***", "failed"),
        ("RuntimeError: NCCL communicator was aborted", "failed"),
        ("", "failed"),
    ],
)
@pytest.mark.parametrize("form", ["{line}", "[default0]:{line}"])
def test_ends(end: str, verdict: str, form: str) -> None:
    """Rank 0 prints the end, the last rank the iterations."""
    text = rank("[default7]:{line}")(steps(5, 7)) + rank(form)(f"{end}\n")
    reading = one(text)
    assert reading.verdict == verdict
    if verdict == "failed":
        assert "line 4" in reading.reasons[0] if end else "iteration 7 of 100 (line 3)" in reading.reasons[0]


@pytest.mark.parametrize("loss", ["nan", "NaN", "inf", "-inf"])
def test_a_last_loss_that_is_no_number(loss: str) -> None:
    """It is never passed over for the one before."""
    reading = one(steps(98, 99) + step(100, loss=loss))
    assert "loss_last" not in figures(reading)
    assert reading.verdict == "deviated"
    assert f"the last loss is {float(loss):g} (line 3)" in reading.reasons


def test_a_loss_that_is_left_out_because_it_is_nan() -> None:
    last = step(100, loss="").replace("nan iterations:   0", "nan iterations:   1")
    reading = one(steps(98, 99) + last)
    assert "loss_last" not in figures(reading)
    assert figures(reading)["nan_iterations"] == 1
    assert reading.verdict == "deviated"


def test_skipped_iterations_say_nothing_against_a_run() -> None:
    reading = one(steps(98, 99) + step(100, loss=""))
    assert "loss_last" not in figures(reading)
    assert (figures(reading)["skipped_iterations"], reading.verdict) == (3, "holds")


def test_a_job_that_was_started_again_is_another_run() -> None:
    content = read(steps(90, 95) + "RuntimeError: broken\n" + steps(93, 100))
    assert [(reading.verdict, reading.part, reading.line) for reading in content.readings] == [
        ("failed", "", 1),
        ("holds", "", 8),
    ]
    assert content.readings[0].why == "line 7: RuntimeError: broken"


def test_after_a_restart_another_rank_may_be_the_last() -> None:
    text = rank("[default7]:{line}")(steps(5, 7)) + "[default7]:RuntimeError: broken\n"
    text += rank("[default3]:{line}")(steps(6, 8)) + "[default0]:[exiting program at iteration 8] datetime: x\n"
    content = read(text)
    assert [(reading.verdict, reading.part) for reading in content.readings] == [
        ("failed", "rank7"),
        ("holds", "rank3"),
    ]
    assert content.readings[0].why == "line 4: [default7]:RuntimeError: broken"


def test_trainings_of_different_things() -> None:
    other = steps(1, 2, total=2).replace("global batch size:     8", "global batch size:    16")
    content = read(steps(1, 2, total=2) + other + steps(1, 3, total=3))
    assert [(reading.part, reading.verdict) for reading in content.readings] == [
        ("2iterations-batch8", "holds"), ("2iterations-batch16", "holds"), ("3iterations-batch8", "holds"),
    ]  # fmt: skip


def test_trainings_side_by_side() -> None:
    one_, two = (rank(form)(steps(98, 100)).splitlines(keepends=True) for form in ("node1: {line}", "node2: {line}"))
    end = "node2: [exiting program at iteration 100]\n"
    content = read("".join(a + b for a, b in zip(one_, two, strict=True)) + end)
    assert [(reading.part, reading.iterations) for reading in content.readings] == [("node1", 100), ("node2", 100)]
    with pytest.raises(UsageError, match=r"line 2: iteration 98 comes a second time"):
        read("".join(a.removeprefix("node1: ") + b.removeprefix("node2: ") for a, b in zip(one_, two, strict=True)))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (" iteration 5/ 9 | elapsed time per iteration (min): 2.5 | lm loss: 1 |", "time per iteration (min):"),
        (" iteration 5/ 9 | elapsed time per iteration: 2.5 | lm loss: 1 |", "is no time in ms or s"),
        (" iteration 5/ 9 | elapsed time per iteration (ms): nan |", "is no time in ms or s"),
        (" iteration 5/ 9 | consumed samples: 5 | lm loss: 1 |", "only consumed samples, lm loss"),
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_read_is_told(line: str, why: str) -> None:
    content = read(f"first\n{line}\n")
    assert content.readings == []
    assert content.notes[0].startswith("line 2: ") and why in content.notes[0]


@settings(deadline=None, max_examples=80)
@given(st.integers(2, 700))
def test_a_log_cut_anywhere_holds_whole_lines_alone(length: int) -> None:
    text = steps(98, 100)
    content = read(text[:length])
    whole = text[:length].count("\n")
    values = [figures(reading) for reading in content.readings]
    assert [reading.iterations for reading in content.readings] in ([], [98], [99], [100])
    if values and whole:
        assert values[0]["step_ms_worst"] in (198.0, 199.0, 200.0)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.floats(0.1, 1e6), min_size=1, max_size=12),
    st.sampled_from([*DRESSES.values()]),
    st.booleans(),
)
def test_any_log_is_read_right(times: list[float], dress: object, seconds: bool) -> None:
    assert callable(dress)
    unit, factor = ("s", 1000.0) if seconds else ("ms", 1.0)
    text = "> building\n" * 5 + "".join(
        f" iteration {n}/ {len(times)} | elapsed time per iteration ({unit}): {took!r} | lm loss: {n}.5 |\n"
        for n, took in enumerate(times, 1)
    )
    reading = one(dress(text))
    assert figures(reading)["step_ms_worst"] == pytest.approx(max(times) * factor)
    assert figures(reading)["loss_last"] == len(times) + 0.5
    assert reading.verdict == "holds"


@settings(deadline=None, max_examples=100)
@given(st.text(st.sampled_from("iteration 123/|: (ms)elapd.\n\r[]"), max_size=200) | st.text())
def test_no_text_is_too_strange(text: str) -> None:
    try:
        read(text)
    except UsageError as error:
        assert error.message
