"""nccl-tests' JSON and text and Megatron's logs as runs of the store."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.errors import UsageError
from harness.schemas import plain, problems
from reports.commands.runs import runs
from reports.store import imports
from reports.store.imports import About, bring_in, detect, parse
from reports.store.store import opened

TEXT = """\
# nThread 1 nGpus 2 minBytes 8 maxBytes 16
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    12.50    0.10    0.20       0    12.00    0.11    0.21       0
          16             4     float     sum      -1    13.00    0.30    0.60       0    12.90    0.31    0.61     N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.405
#
"""
LOG = """\
some other line | of the job
 [2026-01-01 10:00:00] iteration        1/       3 | consumed samples:            8 | elapsed time per iteration (ms): 2000.0 | throughput per GPU (TFLOP/s/GPU): 100.5 | learning rate: 1.0E-05 | global batch size:     8 | lm loss: 1.100000E+01 | loss scale: 1.0 | number of skipped iterations:   0 | number of nan iterations:   0 |
 [2026-01-01 10:00:02] iteration        2/       3 | consumed samples:           16 | elapsed time per iteration (ms): 500.0 | throughput per GPU (TFLOP/s/GPU): 400.5 | lm loss: 1.000000E+01 | number of skipped iterations:   1 |
 iteration        3/       3 | elapsed time per iteration (ms): 510.0 | throughput per GPU (TFLOP/s/GPU): 399.5 | lm loss: 9.500000E+00 |
 iteration        4/       3 | elapsed time per itera
"""  # noqa: E501 - as Megatron prints it


def _json_file(**changes: Any) -> str:
    part = {"time": 12.5, "alg_bw": 0.1, "bus_bw": 0.2, "nwrong": 0}
    row = {"size": 8, "count": 2, "type": "float", "redop": "sum", "root": -1, "out_of_place": part, "in_place": None}
    return json.dumps({"config": {"devices": [1, 2]}, "results": [row], "end_time": "x"} | changes)


def test_text_of_nccl_tests() -> None:
    assert detect(TEXT) == "nccl-tests"
    (found,) = parse(TEXT, "nccl-tests").readings
    told = {(metric.name, metric.size_bytes): metric.value for metric in found.metrics}
    assert told["busbw", 16] == 0.6
    assert told["busbw_in_place", 16] == 0.61
    assert told["latency_us", 8] == 12.5
    assert (found.completed, found.wrong, len(told)) == (True, 0, 12)
    (cut,) = parse(TEXT[: TEXT.index("# Out")], "nccl-tests").readings
    assert not cut.completed
    (wrong,) = parse(TEXT.replace("0.20       0 ", "0.20       7 "), "nccl-tests").readings
    assert imports.summary(wrong, About("x")).verdict == "deviated"


def test_json_of_nccl_tests() -> None:
    text = _json_file()
    assert detect(text) == "nccl-tests"
    (found,) = parse(text, "nccl-tests").readings
    assert {metric.name for metric in found.metrics} == {"busbw", "algbw", "latency_us"}
    assert (found.wrong, found.verdict) == (0, "holds")


def test_json_of_several_operations_and_of_one_that_failed() -> None:
    rows = json.loads(_json_file())["results"]
    other = [{**row, "redop": "max"} for row in rows]
    assert [r.part for r in parse(_json_file(results=[*rows, *other]), "nccl-tests").readings] == ["sum", "max"]
    (failed,) = parse(_json_file(errors=["remote process exited"]), "nccl-tests").readings
    assert failed.reasons == ["it did not end: remote process exited"]
    (counted,) = parse(_json_file(out_of_bounds={"count": 3}), "nccl-tests").readings
    assert (counted.verdict, counted.wrong) == ("deviated", 3)
    (slow,) = parse(_json_file(average_bus_bandwidth={"bandwidth": 1.5, "okay": "false"}), "nccl-tests").readings
    assert slow.reasons == ["nccl-tests itself says FAILED of the average bus bandwidth, 1.5 GB/s"]


def test_logs_of_megatron() -> None:
    """A line that was cut off at the end of the file does not count."""
    assert detect(LOG) == "megatron"
    (found,) = parse(LOG, "megatron").readings
    assert {metric.name: metric.value for metric in found.metrics} == {
        "step_ms": 510.0, "step_ms_worst": 2000.0, "tflops_per_gpu": 399.5, "loss_last": 9.5,
        "skipped_iterations": 1, "nan_iterations": 0,
    }  # fmt: skip
    assert (found.verdict, found.iterations) == ("holds", 3)


@pytest.mark.parametrize(("text", "kind"), [(TEXT, None), (LOG, None), (_json_file(), "nccl-tests")])
def test_a_file_becomes_a_run_that_fits_the_schema(tmp_path: Path, text: str, kind: str | None) -> None:
    file = tmp_path / "in.txt"
    file.write_text(text)
    (folder,) = bring_in(tmp_path / "runs", [file], About("train", hardware="h100x8", build_id="b7"), kind)
    summary = json.loads((folder / "summary.json").read_text())
    assert problems("summary", summary) == []
    assert (folder / "raw" / "in.txt").read_text() == text
    with opened(tmp_path / "runs") as store:
        (run,) = store.runs()
        assert (run.fingerprint, run.build_id, run.experiment) == ("h100x8", "b7", "train")
        assert run.source in ("nccl-tests", "megatron")
        assert store.find(run.id).figures


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\n\nnothing of the kind\n", "no file of nccl-tests.* and line 3 is 'nothing of the kind'"),
        ('{"results": []}', "no figure of nccl-tests"),
        ("", "it is empty"),
        (TEXT + LOG, r"lines of megatron \(line 12\) and nccl-tests \(line 4\)"),
        (TEXT.replace("       0    12", "       x    12"), "line 6: a row with words where numbers are.*line 7"),
        (" iteration 1/ 3 | elapsed time per iteration (h): 2.0 |\n", "line 1: 'elapsed time per iteration"),
        (
            "# size count type redop root time algbw busbw\n# Avg bus bandwidth : 0\n",
            "the table of line 1 has no whole",
        ),
    ],
)
def test_a_file_that_says_nothing_makes_no_run(tmp_path: Path, text: str, says: str) -> None:
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_text(TEXT)
    bad.write_text(text)
    with pytest.raises(UsageError, match=says) as caught:
        bring_in(tmp_path / "runs", [good, bad], About("x"))
    assert caught.value.message.startswith(str(bad))
    assert not (tmp_path / "runs").exists()
    with pytest.raises(UsageError, match="cannot read"):
        bring_in(tmp_path / "runs", [tmp_path / "absent"], About("x"))
    with pytest.raises(UsageError, match="no name"):
        bring_in(tmp_path / "runs", [good], About("../x"))


def test_a_degraded_measurement_belongs_to_its_healthy_one(tmp_path: Path) -> None:
    for name, text in (
        ("whole.txt", TEXT),
        ("cut.txt", TEXT.replace("0.60", "0.44").replace("0.20       0", "0.19       3")),
    ):
        (tmp_path / name).write_text(text)
    about = ["--name", "all_reduce", "--store", str(tmp_path / "runs")]
    words = ["import", str(tmp_path / "whole.txt"), "--degraded", str(tmp_path / "cut.txt"), "--left", "0.75", *about]
    result = CliRunner().invoke(runs, words)
    assert result.exit_code == 0, result.output
    folder = Path(result.output.strip())
    summary = json.loads((folder / "summary.json").read_text())
    assert problems("summary", summary) == []
    metrics = summary["arms"][0]["runs"][0]["metrics"]
    found = [(m["size_bytes"], m["value"], m["bound"]) for m in metrics if m["name"] == "busbw_degraded"]
    assert found == [(8, 0.19, pytest.approx(0.15)), (16, 0.44, pytest.approx(0.45))]
    assert summary["verdict"] == "deviated" and summary["arms"][0]["runs"][0]["wrong_elements"] == 3
    assert sorted(file.name for file in (folder / "raw").iterdir()) == ["degraded-cut.txt", "whole.txt"]


@pytest.mark.parametrize("words", [["--left", "0.5"], ["b.txt", "--degraded", "a.txt"], ["--degraded", "none.txt"]])
def test_degraded_measurements_that_make_no_sense(tmp_path: Path, words: list[str]) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(TEXT)
    here = [str(tmp_path / word) if word.endswith(".txt") else word for word in words]
    done = CliRunner().invoke(
        runs, ["import", str(tmp_path / "a.txt"), *here, "--name", "x", "--store", str(tmp_path / "r")]
    )
    assert isinstance(done.exception, UsageError)
    assert not (tmp_path / "r").exists()


def test_a_packed_file_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    with pytest.raises(UsageError, match="compressed"):
        bring_in(tmp_path / "runs", [tmp_path / "a.txt.gz"], About("x"))


@pytest.mark.parametrize("huge", ["1e300", "9" * 30, "1e308"])
def test_numbers_that_no_store_can_hold_are_left_out(tmp_path: Path, huge: str) -> None:
    """Whatever the file says, what was made of it can be read again."""
    texts = [TEXT.replace("       8   ", f"{huge}   "), TEXT.replace("       0    12", f"{huge}    12")]
    texts += [TEXT.replace("12.50", huge), TEXT.replace("(us)", "(s)").replace("12.50", huge)]
    texts += [TEXT.replace("values : 0 OK", f"values : {huge} FAILED"), LOG.replace("500.0", huge)]
    texts += [LOG.replace("iterations:   1", f"iterations: {huge}"), LOG.replace("2/       3", f"{huge}/       3")]
    texts += [_json_file(out_of_bounds={"count": huge}), _json_file(nccl_version=[huge])]
    texts += [
        _json_file().replace('"size": 8', f'"size": {huge}'),
        _json_file().replace('"nwrong": 0', f'"nwrong": {huge}'),
    ]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(text)
        kind = "nccl-tests" if text.startswith("{") else None
        with suppress(UsageError):
            bring_in(tmp_path / "runs", [tmp_path / f"{number}.txt"], About("x"), kind)
    with opened(tmp_path / "runs") as store:
        found = store.runs()
        assert len(found) >= len(texts) - 3, "those without any other figure are refused"
        assert {run.verdict for run in found} <= {"holds", "deviated", "failed"}


def test_what_was_not_checked_is_no_check(tmp_path: Path) -> None:
    (reading,) = parse(
        TEXT.replace("       0 ", "     N/A ").replace("       0\n", "     N/A\n"), "nccl-tests"
    ).readings
    made = plain(imports.summary(reading, About("x")))
    assert problems("summary", made) == []
    assert (made["verdict"], made["arms"][0]["runs"][0]["checks"]) == ("holds", [])


def _two_tests() -> str:
    first, second = (f"# Collective test starting: {name}_perf\n{TEXT}" for name in ("all_reduce", "alltoall"))
    return first + second[: second.index("# Out")] + "n1: Test NCCL failure common.cu:1\n"


def test_each_test_of_a_file_is_a_run_of_its_own_experiment(tmp_path: Path) -> None:
    """Never one figure of both, and never two runs of one thing."""
    (tmp_path / "slurm.out").write_text(_two_tests())
    words = ["import", str(tmp_path / "slurm.out"), "--name", "nightly", "--json", "--store", str(tmp_path / "runs")]
    result = CliRunner().invoke(runs, words)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert problems("runs_imported", told) == []
    assert told["notes"] == result.stderr.splitlines()
    assert told["notes"][0].endswith("slurm.out: line 1: nightly-all_reduce: holds")
    why = "it did not end: line 20: n1: Test NCCL failure common.cu:1"
    assert told["notes"][1].endswith(f"line 12: nightly-alltoall: failed: {why}")
    with opened(tmp_path / "runs") as store:
        found = {run.experiment: store.find(run.id) for run in store.runs()}
        assert {name: run.verdict for name, run in found.items()} == {
            "nightly-all_reduce": "holds",
            "nightly-alltoall": "failed",
        }
        raw = [tmp_path / "runs" / run.id / "raw" / "slurm.out" for run in found.values()]
        assert {file.read_text() for file in raw} == {_two_tests()}
        assert len({file.stat().st_ino for file in raw}) == 1, "the file is kept once"
        assert len([f for f in found["nightly-all_reduce"].figures if f.name == "busbw" and f.size_bytes == 8]) == 1


def test_several_measurements_have_no_degraded_one(tmp_path: Path) -> None:
    for name, text in (("whole.txt", _two_tests()), ("cut.txt", TEXT)):
        (tmp_path / name).write_text(text)
    degraded = imports.Degraded(tmp_path / "cut.txt")
    with pytest.raises(UsageError, match=r"whole.txt holds 2 measurements: all_reduce \(line 1\), alltoall"):
        bring_in(tmp_path / "runs", [tmp_path / "whole.txt"], About("x"), degraded=degraded)


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG)
    words = ["import", str(tmp_path / "a.log"), "--name", "gpt", "--store", str(tmp_path / "runs"), "--hardware", "x"]
    result = CliRunner().invoke(runs, words)
    assert result.exit_code == 0, result.output
    assert (Path(result.output.strip()) / "summary.json").is_file()
