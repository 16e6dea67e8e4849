"""What nccl-tests prints, behind every kind of prefix, of every version, one program and several."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from reports.store.readers import nccl_tests
from reports.store.readers.lines import decoded
from reports.store.readers.model import Content, Reading
from tests.unit.import_logs import DRESSES, NEW, OLD, OLDEST, PLAIN, Table, rank

TALK = "n0:77:81 [0] NCCL INFO Channel 00/02 : 0 1\n"
DEATH = "n1: Test NCCL failure common.cu:77 'remote process exited'\n .. n1 pid 12: Test failure common.cu:9\n"


def read(text: str) -> Content:
    return nccl_tests.read(decoded(text.encode()))


def one(text: str) -> Reading:
    (reading,) = read(text).readings
    return reading


def busbw(reading: Reading) -> dict[int, float]:
    values = [(m.size_bytes, m.value) for m in reading.metrics if m.name == "busbw"]
    assert len(dict(values)) == len(values), "never two values of one size"
    return dict(values)


def told(content: Content) -> list[tuple[str, str, dict[int, float]]]:
    return [(reading.part, reading.verdict, busbw(reading)) for reading in content.readings]


@pytest.mark.parametrize("dress", DRESSES.values(), ids=DRESSES)
def test_a_prefix_does_no_harm(dress: object) -> None:
    assert callable(dress)
    content = read(dress(Table(name="all_reduce").text()))
    assert told(content) == [("", "holds", dict(Table().rows))]
    assert content.notes == []
    assert content.readings[0].wrong == 0


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_encodings(encoding: str) -> None:
    mark = "\ufeff" if encoding.endswith("e") and encoding != "utf-8-sig" else ""
    for text in (Table().text(), mark + Table().text()):
        content = nccl_tests.read(decoded(text.encode(encoding)))
        assert told(content) == [("", "holds", dict(Table().rows))]


def test_a_containers_log_as_docker_keeps_it() -> None:
    lines = Table().text().splitlines(keepends=True)
    kept = "".join(
        json.dumps({"log": line, "stream": "stdout", "time": "2026-11-02T03:04:05Z"}) + "\n" for line in lines
    )
    assert busbw(one(kept.replace(": ", ":").replace(", ", ","))) == dict(Table().rows)


@pytest.mark.parametrize("header", [NEW, OLD, PLAIN, OLDEST])
@pytest.mark.parametrize("checked", ["0", "N/A"])
def test_every_version_has_its_columns(header: str, checked: str) -> None:
    """`error` and `res` are deviations, not counts; `bytes` tables are in ms."""
    small = "1e-06" if checked == "0" and "#wrong" not in header else checked
    reading = one(Table(header=header, checked=small).text())
    assert busbw(reading) == dict(Table().rows)
    assert reading.wrong == (0 if checked == "0" else None), "what was not checked is not right"
    times = [m.value for m in reading.metrics if m.name == "latency_us"]
    factor = 1000 if header == OLDEST else 1
    assert times == [factor * size / 8 for size, _ in Table().rows]


def test_units_and_columns_as_the_header_says_them() -> None:
    text = "# size(B) count(elems) type redop root time(ms) algbw(GB/s) busbw(GB/s)\n8 2 float sum -1 1.5 2.5 3.5\n"
    reading = one(text)
    assert {m.name: m.value for m in reading.metrics} == {"busbw": 3.5, "algbw": 2.5, "latency_us": 1500.0}
    assert (reading.wrong, reading.verdict) == (None, "failed"), "no end was printed"


def test_rows_with_a_timestamp() -> None:
    header = f"{NEW} timestamp"
    text = Table(name="all_reduce").text().replace(f"#  {NEW}", f"#  {header}")
    stamped = text.replace(" 0\n", " 0 2026-01-02 03:04:05\n")
    assert busbw(one(stamped)) == dict(Table().rows)


def test_a_row_with_more_words_than_columns_is_told() -> None:
    """Two rows in one line, the end of the first lost: neither is guessed."""
    table = Table(name="all_reduce")
    content = read(table.text().replace(table.row(1024, 1.25), table.row(1024, 1.25).rstrip() + " "))
    assert told(content) == [("", "holds", {4096: 5.0})]
    assert content.notes == ["line 10: a row with 26 words in 13 columns: left out"]


def test_operations_are_kept_apart() -> None:
    table = Table(redop="max", more=[Table(redop="min"), Table(redop="sum", kind="half")])
    parts = [part for part, _, _ in told(read(table.text()))]
    assert parts == ["float-max", "float-min", "half-sum"]
    same_type = replace(table, more=[Table(redop="min")])
    assert [part for part, _, _ in told(read(same_type.text()))] == ["max", "min"]
    roots = Table(root=0, redop="none", more=[Table(root=1, redop="none")])
    assert [part for part, _, _ in told(read(roots.text()))] == ["root0", "root1"]


def test_two_tests_in_one_log() -> None:
    other = Table(name="alltoall", redop="none", rows=((1024, 0.5),))
    content = read(Table(name="all_reduce").text() + "NCCL version 2.28.7+cuda13.0\n" + other.text())
    assert told(content) == [
        ("all_reduce", "holds", dict(Table().rows)),
        ("alltoall", "holds", {1024: 0.5}),
    ]


@pytest.mark.parametrize("rows", [((1024, 0.5),), ()])
def test_a_second_test_that_died_does_not_hold(rows: tuple[tuple[int, float], ...]) -> None:
    died = Table(name="alltoall", rows=rows, ended=False).text() + DEATH
    content = read(Table(name="all_reduce").text() + died)
    assert [(part, verdict) for part, verdict, _ in told(content)] == [("all_reduce", "holds"), ("alltoall", "failed")]
    at = (Table(name="all_reduce").text() + died).splitlines().index(DEATH.splitlines()[0]) + 1
    assert content.readings[1].reasons[0].startswith(f"it did not end: line {at}: n1: Test NCCL failure")


def test_a_second_test_that_died_before_its_table() -> None:
    content = read(Table(name="all_reduce").text() + "# Collective test starting: alltoall_perf\n" + DEATH)
    assert [(part, verdict) for part, verdict, _ in told(content)] == [("all_reduce", "holds"), ("alltoall", "failed")]


def test_a_first_test_that_died_does_not_take_the_second_ones_end() -> None:
    content = read(Table(name="all_reduce", ended=False).text() + DEATH + Table(name="alltoall").text())
    assert [(part, verdict) for part, verdict, _ in told(content)] == [("all_reduce", "failed"), ("alltoall", "holds")]


def test_open_mpi_tags_amid_a_line() -> None:
    """Its buffer began anew there, or the other rank spoke."""
    text = rank("[1,0]<stdout>:{line}")(Table(name="all_reduce").text())
    row = " ".join(Table().words(2048, 2.5))
    for cut in range(1, len(row)):
        for between in ("[1,0]<stdout>:", "[1,1]<stderr>:some words\n[1,0]<stdout>:"):
            content = read(text.replace(row, row[:cut] + between + row[cut:]))
            assert told(content) == [("", "holds", dict(Table().rows))], (cut, between)


def test_repeats_of_one_test_are_repeats() -> None:
    content = read(Table(name="all_reduce").text() * 3)
    assert told(content) == [("", "holds", dict(Table().rows))] * 3


def test_tests_that_nobody_names_are_no_repeats() -> None:
    """Older programs do not say who they are: all-gather and all-to-all print the same."""
    assert [part for part, _, _ in told(read(Table().text() * 2))] == ["1", "2"]


def test_a_script_says_what_it_runs() -> None:
    text = f"+ mpirun ./all_gather_perf -b 8\n{Table().text()}+ mpirun ./alltoall_perf -b 8\n{Table().text()}"
    assert [part for part, _, _ in told(read(text))] == ["all_gather", "alltoall"]


@pytest.mark.parametrize(
    ("other", "parts"),
    [
        ({"ranks": 4}, ["2ranks", "4ranks"]),
        ({"kind": "half"}, ["float", "half"]),
        ({"redop": "max"}, ["sum", "max"]),
    ],
)
def test_one_test_of_different_things(other: dict[str, object], parts: list[str]) -> None:
    first = Table(name="all_reduce")
    text = first.text() + replace(first, **other).text()  # type: ignore[arg-type]
    assert [part for part, _, _ in told(read(text))] == parts


def test_settings_that_differ() -> None:
    first = Table(name="all_reduce").text()
    assert [part for part, _, _ in told(read(first + first.replace("graph: 0", "graph: 5")))] == ["graph0", "graph5"]


def _side_by_side(forms: list[str], texts: list[str]) -> str:
    dressed = [rank(form)(text).splitlines(keepends=True) for form, text in zip(forms, texts, strict=True)]
    return "".join(line for lines in zip(*dressed, strict=True) for line in lines)


def test_several_processes_tables() -> None:
    texts = [Table(rows=((1024, value), (2048, value))).text() for value in (1.0, 2.0)]
    for forms, parts in (
        (["[1,0]<stdout>:{line}", "[1,1]<stdout>:{line}"], ["rank0", "rank1"]),
        (["0: {line}", "1: {line}"], ["rank0", "rank1"]),
        (["node1: {line}", "node2: {line}"], ["node1", "node2"]),
        (["[pod/worker-0/main] {line}", "[pod/worker-1/main] {line}"], ["pod-worker-0-main", "pod-worker-1-main"]),
    ):
        content = read(_side_by_side(forms, texts))
        assert told(content) == [
            (parts[0], "holds", {1024: 1.0, 2048: 1.0}),
            (parts[1], "holds", {1024: 2.0, 2048: 2.0}),
        ]


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_processes_that_nothing_tells_apart_are_refused(data: st.DataObject) -> None:
    """However their lines fall."""
    texts = [Table(name="all_reduce", rows=((1024, value), (2048, value))).text() for value in (1.0, 2.0)]
    left = [text.splitlines(keepends=True) for text in texts]
    mixed = ""
    while any(left):
        pick = data.draw(st.sampled_from([lines for lines in left if lines]))
        mixed += pick.pop(0)
    if mixed in (texts[0] + texts[1], texts[1] + texts[0]):
        return
    try:
        found = [values for _, _, values in told(read(mixed))]
    except UsageError as error:
        assert error.message.startswith("line ")
        return
    assert all(len(set(values.values())) <= 1 for values in found), mixed


@pytest.mark.parametrize("dress", ["{line}", "[1,0]<stdout>:{line}", "2026-11-02T03:04:05.{n:03}Z {line}"])
@pytest.mark.parametrize("pieces", [(5,), (9,), (5, 9)])
def test_a_row_that_nccl_interrupted_is_put_together(dress: str, pieces: tuple[int, ...]) -> None:
    table = Table(name="all_reduce")
    words = table.words(*table.rows[1])
    torn, at = "", 0
    for cut in pieces:
        torn += " ".join(words[at:cut]) + f"{TALK}{TALK}"
        at = cut
    torn += " ".join(words[at:]) + "\n"
    content = read(rank(dress)(table.text().replace(table.row(*table.rows[1]), torn)))
    assert told(content) == [("", "holds", dict(table.rows))]
    assert content.notes == []


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 60), st.sampled_from([TALK, "\n", "n1: hello 5\n", "17\n"]))
def test_a_row_torn_anywhere_is_right_or_told(at: int, between: str) -> None:
    table = Table(name="all_reduce")
    row = table.row(*table.rows[1])
    at = min(at, len(row) - 2)
    content = read(table.text().replace(row, f"{row[:at]}{between}{row[at:]}"))
    (found,) = [values for _, _, values in told(content)]
    assert {size: value for size, value in table.rows if size in found} == found
    if len(found) < len(table.rows):
        assert content.notes and "left out" in content.notes[0]


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 900))
def test_a_text_cut_anywhere_never_holds(length: int) -> None:
    text = Table(name="all_reduce").text()
    end = text.index("# Avg")
    content = read(text[: min(length, end)])
    for _, verdict, values in told(content):
        assert verdict == "failed"
        assert values.items() <= dict(Table().rows).items()


@pytest.mark.parametrize(
    ("bounds", "checked", "wrong"), [("3 FAILED", "0", 3), ("1 FAILED", "17", 3 * 2 * 17), ("2 FAILED", "N/A", 2)]
)
def test_values_out_of_bounds(bounds: str, checked: str, wrong: int) -> None:
    reading = one(Table(bounds=bounds, checked=checked).text())
    assert (reading.wrong, reading.verdict) == (wrong, "deviated")
    old = one(Table(bounds="3 FAILED", header=OLD, checked="4e-01").text())
    assert (old.wrong, old.verdict) == (3, "deviated")


def test_a_bandwidth_that_nccl_tests_finds_too_low() -> None:
    reading = one(Table().text().replace("bandwidth    : 3.0", "bandwidth    : 3.0 FAILED"))
    assert reading.verdict == "deviated"
    assert "3.0 GB/s" in reading.reasons[0]


def test_cycles_are_repeats() -> None:
    table = Table(more=[Table(), Table()])
    assert told(read(table.text())) == [("", "holds", dict(Table().rows))] * 3


def test_cycles_of_one_size_are_repeats() -> None:
    once = Table(name="all_reduce", rows=((1024, 1.0), (1024, 2.0), (1024, 3.0)))
    text = once.text().replace("minBytes 1 maxBytes 9", "minBytes 1024 maxBytes 1024")
    assert [values for _, _, values in told(read(text))] == [{1024: 1.0}, {1024: 2.0}, {1024: 3.0}]


def test_small_sizes_that_are_rounded_to_nothing_are_no_repeats() -> None:
    """Of 64 ranks each gets nothing of 8, 16 and 32 bytes; sizes of a fixed step are rounded to their neighbours."""
    rows = ((0, 0.0), (0, 0.0), (0, 0.0), (1152, 1.0), (1152, 1.5), (2304, 2.0))
    content = read(Table(name="alltoall", rows=rows, more=[Table(rows=rows)]).text())
    assert told(content) == [("", "holds", {0: 0.0, 1152: 1.0, 2304: 2.0})] * 2
    assert [note.partition(": ")[2] for note in content.notes] == ["1152 bytes for the second time: left out"] * 2
    with pytest.raises(UsageError, match="second table ends here"):
        read(Table(name="alltoall", rows=rows).text() + "# Avg bus bandwidth    : 2.0\n")


def test_a_summary_that_a_script_prints_again_is_no_other_table() -> None:
    text = Table(name="all_reduce").text() + "== summary ==\n# Avg bus bandwidth    : 3.0\n"
    assert told(read(text)) == [("", "holds", dict(Table().rows))]


def test_rows_without_a_header_are_told() -> None:
    lines = Table().text().splitlines(keepends=True)
    rows = [line for line in lines if line[0] != "#"]
    content = read("".join(rows[-2:]) + Table(name="alltoall").text())
    assert told(content) == [("", "holds", dict(Table().rows))]
    assert [note.split(":")[0] for note in content.notes] == ["line 1", "line 2"]


def test_another_file_after_the_json_is_told() -> None:
    with pytest.raises(UsageError, match="line 2: more follows"):
        nccl_tests.read('{"results": []}\n{"results": []}\n')


sizes = st.lists(st.integers(1, 1 << 30).map(lambda n: 4 * n), min_size=1, max_size=8, unique=True)
figures = st.integers(0, 10**6).map(lambda n: n / 1000)
tables = st.builds(
    lambda sizes, header, values, name: Table(tuple(zip(sizes, values, strict=False)), name=name, header=header),
    sizes,
    st.sampled_from([NEW, OLD, PLAIN, OLDEST]),
    st.lists(figures, min_size=8, max_size=8),
    st.sampled_from(["all_reduce", "reduce_scatter", "broadcast"]),
)


@settings(deadline=None, max_examples=120)
@given(st.lists(tables, min_size=1, max_size=3, unique_by=lambda table: table.name), st.sampled_from([*DRESSES]))
def test_any_log_is_read_right(made: list[Table], dress: str) -> None:
    """Whatever programs in whatever order, of whatever version, behind whatever prefix."""
    content = read(DRESSES[dress]("".join(table.text() for table in made)))
    names = [table.name if len(made) > 1 else "" for table in made]
    assert told(content) == [(name, "holds", dict(t.rows)) for name, t in zip(names, made, strict=True)]
    assert content.notes == []


@settings(deadline=None, max_examples=150)
@given(st.text(st.sampled_from("# 01aszeNcountypeflratm:.\n\r\t[]<>{}\x1b"), max_size=200) | st.text())
def test_no_text_is_too_strange(text: str) -> None:
    try:
        read(text)
    except UsageError as error:
        assert error.message
