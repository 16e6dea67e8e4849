"""What nccl-tests prints and writes, read as typed rows: whole, cut off anywhere, and with figures that are none."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.programs.nccltests import judge, mpirun, plain
from harness.workloads.nccltests import torn_json
from harness.workloads.nccltests.report import Lines, read_json
from harness.workloads.nccltests.rows import Row, columns_of, number
from harness.workloads.nccltests.spec import OPS, Spec

STANDIN = Path(__file__).parents[1] / "data" / "nccl_tests" / "standin.py"


@dataclass(frozen=True)
class Output:
    printed: str
    written: str

    def rows(self) -> list[Row]:
        lines = Lines()
        for line in self.printed.splitlines(keepends=True):
            lines.add(line)
        return lines.rows


@cache
def ran(script: str = "{}", *more: str) -> Output:
    """What the stand-in leaves of two sizes, 64 and 128 KiB."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "out.json"
        words = ["-b", "64K", "-e", "128K", "-f", "2", "-g", "2", *more, "-J", str(file)]
        env = {"PATH": os.environ["PATH"], "STANDIN": script, "SECRET": 'a "quoted", {tricky} \\ [value]'}
        done = subprocess.run([sys.executable, str(STANDIN), *words], env=env, capture_output=True, text=True)
        return Output(done.stdout, file.read_text())


def test_a_whole_file() -> None:
    report = read_json(ran().written)
    assert report.complete
    assert (report.ranks, report.nccl_version, report.wrong_rows, report.errors) == (2, 22907, 0, [])
    first = Row(65536, 16384, "float", "none", -1, 75.536, 0.867613, 1.301419, 0, in_place=False)
    assert report.rows[:2] == [first, replace(first, in_place=True)]
    assert [row.size_bytes for row in report.rows] == [65536, 65536, 131072, 131072]
    assert report.config["blocking_collectives"] is False


def test_nothing_of_the_environment_is_kept() -> None:
    assert "tricky" in ran().written
    assert "tricky" not in repr(read_json(ran().written))


@pytest.mark.parametrize(("raw", "time_us"), [('"nan"', None), ("inf", None), ("-inf", None), ("1e3", 1000.0)])
def test_figures_that_are_no_numbers(raw: str, time_us: float | None) -> None:
    rows = read_json(ran(json.dumps({"raw": {"0": raw}})).written).rows
    assert [row.time_us for row in rows[:2]] == [time_us, time_us]
    assert len(rows) == 4, "and what comes after it is read"


def test_wrong_elements_and_results_that_were_not_checked() -> None:
    script = json.dumps({"wrong": {"1": 2_000_000}, "unchecked": True})
    for rows in (read_json(ran(script).written).rows, ran(script).rows()):
        assert [row.wrong for row in rows] == [0, None, 2_000_000, None]
    assert read_json(ran(script).written).wrong_rows == 2


def test_iterations_one_by_one() -> None:
    output = ran("{}", "-I", "1")
    rows = read_json(output.written).rows
    assert rows[0].times_us == (75.536, 76.536, 77.536)
    assert output.rows()[0] == replace(rows[0], times_us=(), time_us=75.54, algbw_GBps=0.87, busbw_GBps=1.30)


@settings(deadline=None)
@given(st.integers(0, len(ran("{}", "-I", "1").written) - 1))
def test_a_file_cut_off_anywhere_holds_the_first_rows_and_nothing_else(length: int) -> None:
    whole = read_json(ran("{}", "-I", "1").written)
    torn = read_json(ran("{}", "-I", "1").written[:length])
    assert not torn.complete
    assert [replace(row, times_us=()) for row in torn.rows] == [
        replace(row, times_us=()) for row in whole.rows[: len(torn.rows)]
    ]
    for mine, theirs in zip(torn.rows, whole.rows, strict=False):
        assert mine.times_us == theirs.times_us[: len(mine.times_us)]


def test_a_file_cut_off_after_a_row_holds_it() -> None:
    text = ran().written
    cut = text.index('"in_place"', text.index("131072"))
    assert len(read_json(text[:cut]).rows) == 3


@settings(deadline=None)
@given(st.integers(0, len(ran().printed)))
def test_lines_cut_off_anywhere_give_whole_rows_alone(length: int) -> None:
    whole = ran().rows()
    torn = Output(ran().printed[:length], "").rows()
    assert torn == whole[: len(torn)]
    assert len(torn) == 2 * sum(line.lstrip()[:1].isdigit() for line in ran().printed[:length].split("\n")[:-1])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.lists(json_values))
def test_whole_json_is_read_as_json(value: object) -> None:
    assert torn_json.loads(json.dumps(value)) == (value, True)
    assert torn_json.loads(json.dumps(value, indent=1, ensure_ascii=False)) == (value, True)


@settings(deadline=None)
@given(st.lists(st.integers() | st.text()), st.data())
def test_of_a_torn_list_the_first_values_are_left(value: list[object], data: st.DataObject) -> None:
    text = json.dumps(value)
    found, whole = torn_json.loads(text[: data.draw(st.integers(1, len(text) - 1))])
    assert not whole
    assert found == value[: len(found)]


@settings(deadline=None)
@given(st.text())
def test_no_text_is_too_strange(text: str) -> None:
    torn_json.loads(text)
    assert read_json(text).rows == []
    assert Lines().add(text + "\n") == []


def test_depth_is_bounded() -> None:
    assert torn_json.loads("[" * 100_000)[1] is False


def test_printed_and_written_rows_agree() -> None:
    printed, written = ran().rows(), read_json(ran().written).rows
    assert len(printed) == len(written) == 4
    for mine, theirs in zip(printed, written, strict=True):
        assert (mine.size_bytes, mine.wrong, mine.in_place) == (theirs.size_bytes, theirs.wrong, theirs.in_place)
        assert mine.busbw_GBps is not None and theirs.busbw_GBps is not None
        assert math.isclose(mine.busbw_GBps, theirs.busbw_GBps, abs_tol=0.005)


@pytest.mark.parametrize("title", ["time", "cputime"])
def test_columns_are_known_by_their_names(title: str) -> None:
    """Another version has more columns, other places, and a moment with a space in it at the end."""
    group = f"{title} algbw busbw #wrong #bitdiff"
    header = f"#  size count type redop root {group} {group} timestamp\n"
    lines = Lines()
    assert lines.add(header) == []
    rows = lines.add("8 2 float sum -1 1.5 2.5 3.5 0 9 4.5 5.5 6.5 1e+06 9 2026-01-02 03:04:05\n")
    assert [(row.time_us, row.busbw_GBps, row.wrong) for row in rows] == [(1.5, 3.5, 0), (4.5, 6.5, 1_000_000)]


@pytest.mark.parametrize("line", ["8 2 float sum -1 1.5 2.5", "node1: [0] NCCL WARN and 14 more words " * 3, "\n", ""])
def test_what_is_no_row_is_passed_over(line: str) -> None:
    lines = Lines()
    lines.add("# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n")
    assert lines.add(line + "\n") == [] == lines.rows


GOLDEN = {
    "all_reduce": "all_reduce_perf",
    "all_gather": "all_gather_perf",
    "reduce_scatter": "reduce_scatter_perf",
    "broadcast": "broadcast_perf",
    "sendrecv": "sendrecv_perf",
    "alltoall": "alltoall_perf",
    "alltoallv": "alltoallv_perf",
    "reduce": "reduce_perf",
    "gather": "gather_perf",
    "scatter": "scatter_perf",
    "hypercube": "hypercube_perf",
}


@pytest.mark.parametrize("op", OPS)
def test_golden_commands(op: str) -> None:
    spec = Spec(op, Path("/opt/nt/bin"), gpus=2, begin="1M", end="4M", json=Path("/tmp/x/a.json"))
    tail = "-n 20 -w 5 -d float -c 1 -J /tmp/x/a.json"
    program = f"stdbuf -oL /opt/nt/bin/{GOLDEN[op]} -b 1M -e 4M -f 2"
    assert " ".join(plain(spec)) == f"{program} -g 2 {tail}"
    names = ["R2CC_MODE", "NCCL_DEBUG", "R2CC_MODE"]
    assert " ".join(mpirun(spec, ["a", "b.local"], names, preload=Path("/opt/lib/libnccl.so.2"))) == (
        "mpirun -np 4 -H a:2,b.local:2 --map-by slot --bind-to none -x NCCL_DEBUG -x R2CC_MODE "
        f"env LD_PRELOAD=/opt/lib/libnccl.so.2 {program} -g 1 {tail}"
    )


def test_golden_commands_with_everything() -> None:
    spec = Spec("sendrecv", Path("/b"), gpus=1, iterations=7, warmup=0, check=False, each_iteration=True, cycles=0)
    assert " ".join(plain(spec)) == (
        "stdbuf -oL /b/sendrecv_perf -b 8 -e 1G -f 2 -g 1 -n 7 -w 0 -d float -c 0 -I 1 -N 0"
    )  # fmt: skip
    assert mpirun(spec, ["a"], [], as_root=True)[:4] == ["mpirun", "--allow-run-as-root", "-np", "1"]


@pytest.mark.parametrize("hosts", [[], ["-x"], ["a;b"], ["a", ""], ["a:2"]])
def test_what_is_no_host_name_is_no_word_of_a_command(hosts: list[str]) -> None:
    with pytest.raises(UsageError, match="host name"):
        mpirun(Spec("alltoall", Path("/b"), 1), hosts, [])


@pytest.mark.parametrize("wrong", [{"op": "scan"}, {"begin": "8B"}, {"end": "-1"}, {"begin": ""}])
def test_what_upstream_does_not_know_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="nccl-tests"):
        Spec(**{"op": "all_reduce", "folder": Path("/b"), "gpus": 1, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [10**400, -(10**400), 1e999, "inf", "NaN"])
def test_what_no_float_can_hold_is_no_figure(value: object) -> None:
    assert number(value) is None


def test_a_row_without_an_operation_is_a_row() -> None:
    """As hypercube_perf prints it: nothing stands below redop."""
    header = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong"
    row = " 134217728 16777216 float            -1 33.10 4.05 2.03   0 33.20 4.04 2.02     0"
    columns = columns_of(header)
    assert columns is not None
    assert [(each.redop, each.root, each.busbw_GBps) for each in columns.rows(row.split())] == [
        ("none", -1, 2.03),
        ("none", -1, 2.02),
    ]


def test_a_program_that_is_not_there_has_a_remedy() -> None:
    assert "--bin names its folder" in judge(Lines(), None, 127, "no such file").reason
