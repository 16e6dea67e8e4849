"""r2cc trace: what is read is what was written, what is no dump is refused, and gaps are those that were there."""

from __future__ import annotations

import csv
import io
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_double import Made

from harness.commands.trace import trace
from harness.errors import UsageError
from harness.schemas import problems
from harness.trace.dump import Dump, parse
from harness.trace.gaps import cause_of, gaps, longest
from harness.trace.story import Story, tell

DATA = Path(__file__).resolve().parents[1] / "data" / "trace"
MS = 1_000_000
HERE = Path("dump")
SENDER, RECEIVER = "00000000000000aa", "00000000000000bb"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(trace, ["--quiet", *arguments])


def error_of(*arguments: str) -> str:
    error = call(*arguments).exception
    assert isinstance(error, UsageError), error
    return str(error)


def two_ends(*, cause: bool = True) -> tuple[Made, Made]:
    """Messages 0..9, one a ms; 5 is posted at 5 ms, lost with lane 1, and delivered over lane 2 at 25 ms."""
    sender = Made(process=SENDER, host="h0")
    receiver = Made(process=RECEIVER, host="h1")
    posts: list[Any] = [("post", t * MS, {"number": t, "bytes": 10, "lane": 1}) for t in range(6)]
    posts += [("post", (18 + n) * MS, {"number": n, "bytes": 10, "lane": 2, "epoch": 2}) for n in range(5, 10)]
    done: list[Any] = [("done", t * MS + MS // 2, {"number": t, "bytes": 10, "lane": 1}) for t in range(5)]
    done += [("done", (20 + n) * MS, {"number": n, "bytes": 10, "lane": 2, "epoch": 2}) for n in range(5, 10)]
    why = sender.text("netlink")
    events: list[Any] = [
        ("lane_up", 1, {"lane": 1, "bytes": 1 << 16 | 1}), ("lane_up", 2, {"lane": 2}),
        ("lane_down", 9 * MS, {"lane": 1, "text": why}), ("state", 9 * MS, {"code": 2, "text": why}),
        ("replay", 20 * MS, {"number": 5, "bytes": 1}),
    ]  # fmt: skip
    sender.process_events = [("nic", 8 * MS, {"bytes": 1 << 16, "text": why})] if cause else []
    sender.connection(7, "send", RECEIVER, posts, events=events if cause else events[:2])
    receiver.connection(7, "recv", SENDER, done)
    return sender, receiver


def story(*made: Made) -> Story:
    return tell(read(one) for one in made)


def read(made: Made) -> Dump:
    return parse(made.bytes(), HERE)


def test_a_gap_begins_when_the_message_was_posted_and_its_cause_is_the_nic() -> None:
    told = story(*two_ends())
    (gap,) = longest(told)
    assert (gap.end.name, gap.number, gap.sender_known) == ("h1:7:recv", 5, True)
    assert (gap.start_ns, gap.end_ns) == (5 * MS, 25 * MS)
    cause = cause_of(told, gap)
    assert cause is not None
    assert (cause.host, cause.nic, cause.cause, cause.t_ns) == ("h0", "eth1", "netlink", 8 * MS)


def test_a_late_peer_is_not_given_a_cause() -> None:
    told = story(*two_ends(cause=False))
    assert cause_of(told, longest(told)[0]) is None


def test_without_the_senders_dump_the_gap_is_from_delivery_to_delivery() -> None:
    (gap,) = longest(story(two_ends()[1]))
    assert (gap.start_ns, gap.sender_known) == (4 * MS + MS // 2, False)


def test_records_that_were_overwritten_are_no_gap() -> None:
    early, late = Made(process=RECEIVER), Made(process=RECEIVER, header={"t_ns": 2 * 10**9})
    early.connection(7, "recv", SENDER, [("done", n * MS, {"number": n}) for n in range(4)])
    late.connection(7, "recv", SENDER, [("done", (1000 + n) * MS, {"number": n}) for n in range(6, 9)], first=6)
    told = story(late, early)
    (end,) = told.ends()
    assert len(end.messages) == 7
    assert max(gap.ms for gap in gaps(told, end)) == 1.0
    # The same without the hole: one overlapping dump fills it.
    early.connections.clear()
    early.connection(7, "recv", SENDER, [("done", n * MS, {"number": n}) for n in range(7)])
    told = story(late, early)
    assert max(gap.ms for gap in gaps(told, told.ends()[0])) == 1001.0


def test_hosts_of_other_boots_are_aligned_by_their_wall_clocks() -> None:
    sender, receiver = two_ends()
    receiver.header = {"boot": "other", "t_ns": 5 * 10**9, "wall_ns": 10**18 + 10**6}
    told = story(sender, receiver)
    assert not told.exact_clock
    assert told.processes[RECEIVER].offset_ns == 10**6 - 4 * 10**9
    assert story(*two_ends()).exact_clock


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10_000), st.binary(max_size=40))
def test_a_file_cut_off_anywhere_or_with_more_behind_is_refused(at: int, more: bytes) -> None:
    whole = two_ends()[0].bytes()
    for data in (whole[: at % len(whole)], whole + b"x" + more):
        with pytest.raises(UsageError):
            parse(data, HERE)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 100_000), st.integers(1, 255))
def test_a_damaged_byte_is_refused_or_read_never_a_crash(at: int, flip: int) -> None:
    data = bytearray(two_ends()[0].bytes())
    data[at % len(data)] ^= flip
    try:
        tell([parse(bytes(data), HERE)])
    except UsageError as error:
        assert str(HERE) in str(error)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_foreign_bytes_are_refused(data: bytes) -> None:
    for foreign in (data, b"R2TRACE\n" + data):
        with pytest.raises(UsageError):
            parse(foreign, HERE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"record_bytes": 64}, "header is not a flight recorder's: record_bytes"),
        ({"schema": 2}, "header is not a flight recorder's: schema"),
        ({"process_events": {"at": 10**6, "count": 1, "first": 0}}, "speaks of records that are not there"),
        ({"connections": [{"id": 1}]}, "connections/0"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    made = two_ends()[0]
    made.header = change
    with pytest.raises(UsageError, match=message):
        read(made)


def test_a_newer_format_says_so(tmp_path: Path) -> None:
    data = bytearray(two_ends()[0].bytes())
    struct.pack_into("<I", data, 8, 2)
    (tmp_path / "new").write_bytes(data)
    assert "has format 2; this r2cc reads format 1" in error_of(str(tmp_path / "new"))


def test_kinds_and_texts_that_are_not_known_are_shown_as_numbers() -> None:
    made = Made(process_events=[("nic", 1, {"text": 1000})], header={"kinds": {"1": "post"}})
    (record,) = read(made).process_events.records
    assert (record.kind, record.text) == ("kind 20", "text 1000")


# ---- real dumps: a link of h1 was pulled under an all-reduce in the lab --------------------------------------------


def test_real_dumps_name_the_nic_the_cause_and_the_replay() -> None:
    result = call(str(DATA), "--around", "failover")
    assert result.exit_code == 0, result.exception
    text = result.stdout
    assert "h2:4:recv: nothing delivered for 32.2 ms, until message 78" in text
    assert "why: h1 eth1: link lost (netlink), +1.7 ms from its start" in text
    for part in ("frozen: netlink", "go on with lane 2", "the receiver has all below 78", "3 messages go out again"):
        assert part in text


def test_json_fits_its_schema_and_the_connection_is_followed_to_its_other_end() -> None:
    result = call(str(DATA), "--around", "failover", "--connection", "h1:4:send", "--json")
    found = json.loads(result.stdout)
    assert problems("trace", found) == []
    assert [one["name"] for one in found["connections"]] == ["h1:4:send"]
    (gap,) = found["gaps"]
    assert gap["connection"] == "h2:4:recv"
    assert {row["host"] for row in gap["timeline"]} == {"h1", "h2"}
    times = [row["t_ns"] for row in gap["timeline"]]
    assert times == sorted(times)


def test_csv_has_every_record_or_those_of_the_gap() -> None:
    whole = list(csv.DictReader(io.StringIO(call(str(DATA), "--around", "none", "--csv").stdout)))
    part = list(csv.DictReader(io.StringIO(call(str(DATA), "--around", "failover", "--csv").stdout)))
    assert len(whole) > len(part) > 10
    assert {"post", "done", "nic", "freeze"} <= {row["event"] for row in whole}


def test_lines_are_cut_at_the_width_asked_for() -> None:
    lines = call(str(DATA), "--width", "60").stdout.splitlines()
    assert max(map(len, lines)) == 60
    assert call(str(DATA), "--around", "none").stdout.count("why:") == 0


def test_mistakes_are_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert "notes.txt is not a dump" in error_of(str(tmp_path / "notes.txt"))
    assert "there is no dump in" in error_of(str(tmp_path))
    assert "cannot read" in error_of(str(tmp_path / "nowhere"))
    assert "no connection '99' in these dumps" in error_of(str(DATA), "--connection", "99")
    assert "exclude each other" in error_of(str(DATA), "--json", "--csv")
