"""Lines of ranks: a workload may bring what reads them, and whatever a program prints is taken in bounded memory."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar
from unittest.mock import Mock

import pytest

from chaos.experiment.planned import PlannedFault
from chaos.faults.spec import FaultSpec
from chaos.record.journal import Journal, now_ns, read
from chaos.run.lines import Lines
from chaos.run.plan import Plan
from chaos.run.schedule import Schedule
from chaos.run.triggers import Timers
from chaos.testbed.launch import Launch
from harness.errors import InfraError
from harness.hosts import LocalHost
from harness.hosts.clock import Offset
from harness.launch.processes import Backlog, Processes, Start
from harness.launch.streams import LONGEST_LINE, Whole
from harness.workloads.kinds.command import Command
from harness.workloads.reading.lines import Line, LineReader

pytestmark = pytest.mark.timeout(100)
HOST = LocalHost("h0")


class Steps(LineReader):
    """`step N` begins an iteration."""

    own_times: ClassVar[bool] = False

    def __init__(self, rank: int) -> None:
        self.rank, self.steps = rank, 0

    def read(self, lines: Sequence[bytes], read_ns: int) -> Iterator[Line | bytes]:
        for text in lines:
            if text.startswith(b"step "):
                index, self.steps = int(text[5:]), self.steps + 1
                line = {"event": "progress", "t_ns": read_ns, "rank": self.rank, "index": index, "start_ns": read_ns}
                yield line
            elif text:
                yield text

    def end(self, read_ns: int) -> Iterator[Line]:
        yield {"event": "log", "t_ns": read_ns, "message": f"rank {self.rank}: {self.steps} steps"}


def heard(folder: Path, *scripts: str, reader: type[Steps] = Steps) -> tuple[list[Line], list[Line]]:
    """(what the run acts on, the journal) of ranks that are shell scripts."""
    launches = [Launch("h0", f"rank{rank}", ["sh", "-c", script]) for rank, script in enumerate(scripts)]
    plan = Plan("stock", 0, launches, [], [], reader=reader)
    seen: list[Line] = []
    with Journal(folder / "journal.jsonl") as journal, Processes() as processes:
        lines = Lines(plan, journal, lambda rank, pid: None)
        processes.start([Start(e.name, HOST, e.argv, {}, Whole(rank), rank) for rank, e in enumerate(launches)])
        ended = 0
        while ended < len(launches):
            spoken = processes.lines.get(30)
            seen += lines.heard(spoken)
            ended += spoken.lines is None
    return seen, list(read(folder / "journal.jsonl"))


def test_a_workload_brings_its_own_reader(tmp_path: Path) -> None:
    began_ns = now_ns()
    seen, journal = heard(tmp_path, "echo hello; echo step 3; echo; echo step 4", "printf 'step 3'")
    begun = sorted((line["rank"], line["index"]) for line in seen if line["event"] == "progress")
    assert begun == [(0, 3), (0, 4), (1, 3)]
    assert all(began_ns < line["start_ns"] < now_ns() for line in seen if line["event"] == "progress")
    said = sorted(line["message"] for line in journal if line["event"] == "log")
    assert said == ["rank 0: 2 steps", "rank 1: 1 steps", "rank0 printed: hello"]


def test_steps_have_our_times_and_what_nccl_counts_is_brought_to_them(tmp_path: Path) -> None:
    """The host's clock is a minute ahead."""
    theirs = {"t_ns": 90 * 10**9, "event": "traffic", "comm": "a", "ended": 1, "stall_began_ns": 80 * 10**9}
    text = json.dumps({**theirs, "net_stall_began_ns": 0}, separators=(",", ":"))
    command = Command.model_validate({"kind": "command", "argv": ["x"], "progress": {"step": r"step (?P<step>\d+)"}})
    launch = Launch("h0", "rank0", ["sh", "-c", f"echo step 1; echo '{text}'"])
    clocks = {"h0": Offset(60 * 10**9, 1000)}
    plan = Plan("stock", 0, [launch], [], [], clocks=clocks, reader=partial(command.reader, ranks=1))
    seen: list[Line] = []
    began_ns = now_ns()
    with Journal(tmp_path / "journal.jsonl") as journal, Processes() as processes:
        lines = Lines(plan, journal, lambda rank, pid: None, began_ns)
        processes.start([Start("rank0", HOST, launch.argv, {}, Whole(0), 0)])
        while (spoken := processes.lines.get(30)).lines is not None:
            seen += lines.heard(spoken)
    (traffic,) = [line for line in seen if line["event"] == "traffic"]
    times = (traffic["t_ns"], traffic["stall_began_ns"], traffic["net_stall_began_ns"])
    assert times == (30 * 10**9, 20 * 10**9, 0)
    (step,) = [line for line in seen if line["event"] == "iteration"]
    assert began_ns <= step["start_ns"] <= step["end_ns"] <= now_ns()


class Broken(Steps):
    def read(self, lines: Sequence[bytes], read_ns: int) -> Iterator[Line | bytes]:
        raise ValueError("no number")


def test_a_reader_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match=r"the reader .*test_run_lines.Broken failed: ValueError\('no number'\)"):
        heard(tmp_path, "echo step x", reader=Broken)


def test_lines_end_as_terminals_have_it() -> None:
    whole = Whole(1)
    lines = [line for chunk in (b"a\r", b"\nb\rc", b"\r\n\nd") for line in whole(chunk)]
    assert lines == [(1, b"a"), (1, b"b"), (1, b"c"), (1, b"")]
    assert whole.rest == b"d"


def test_output_without_lines_is_cut() -> None:
    whole = Whole()
    lines = [line for _ in range(40) for line in whole(b"\0" * 65536)]
    assert [len(text) for _, text in lines] == [LONGEST_LINE + 65536] * 2


def test_a_program_that_prints_faster_than_it_is_heard_waits() -> None:
    backlog = Backlog(most_bytes=1 << 20)
    with Processes(backlog) as processes:
        processes.start([Start("yes", HOST, ["yes"], {}, Whole(0), 0)])
        deadline = time.monotonic() + 30
        while backlog._bytes <= 1 << 20 and time.monotonic() < deadline:
            time.sleep(0.01)
        taken = sum(len(backlog.get(30).lines or ()) for _ in range(200))
        assert backlog._bytes <= (1 << 20) + 65536
        assert taken > 1000, "and goes on when it was heard"


def test_the_patient_hear_many_lines_at_once_and_an_end_without_delay() -> None:
    steps = ["sh", "-c", "for step in 1 2 3 4 5; do echo $step; sleep 0.2; done"]
    with Processes() as processes:
        processes.start([Start("steps", HOST, steps, {}, Whole(0), 0)])
        began_s, spoken = time.monotonic(), list(processes.heard(40, patient=True))
    assert [text for each in spoken for _, text in each.lines or ()] == [b"1", b"2", b"3", b"4", b"5"]
    assert spoken[-1].lines is None and time.monotonic() - began_s < 30
    assert len({each.at_ns for each in spoken}) == len(spoken) >= 3, "each has the time when it was read"


def test_the_patient_wait_no_longer_than_they_said() -> None:
    with Processes() as processes:
        processes.start([Start("sleep", HOST, ["sh", "-c", "echo 1; exec sleep 60"], {}, Whole(0), 0)])
        found: list[bytes] = []
        while not found:
            found = [text for each in processes.heard(0.2, patient=True) for _, text in each.lines or ()]
    assert found == [b"1"]


def test_a_backlog_that_fills_up_is_heard_without_delay() -> None:
    backlog = Backlog(most_bytes=1 << 20)
    with Processes(backlog) as processes:
        processes.start([Start("yes", HOST, ["yes"], {}, Whole(0), 0)])
        began_s = time.monotonic()
        assert backlog.get(40, patient=True).lines
        assert time.monotonic() - began_s < 30


def test_only_a_fault_that_waits_for_a_line_makes_the_run_impatient() -> None:
    cable = {"kind": "link_down", "host": "h1", "nic": "eth0", "duration_s": 1}
    by_step, after, at_launch = (
        FaultSpec.model_validate({**cable, "id": id_, "at": at})
        for id_, at in (
            ("a", {"iteration": 3}),
            ("b", {"after": "a", "event": "injected", "ms": 5}),
            ("c", {"launch_s": 60}),
        )
    )
    for specs, waits in (((), False), ((by_step, after), True), ((at_launch,), False)):
        plan = Plan("stock", 0, [], [], [PlannedFault(spec, spec) for spec in specs])  # type: ignore[arg-type]
        schedule = Schedule(plan, Mock(), Mock(), Timers(), lambda: None)
        schedule.launched()
        assert schedule.waits() is waits


@pytest.mark.parametrize(
    ("may_miss", "late_s", "deaf", "strikes"),
    [(True, 0, False, 1), (True, 3, False, 0), (False, 3, False, 1), (True, 0, True, 0), (False, 0, True, 1)],
)
def test_a_fault_that_is_late_is_left_out_where_it_may_miss(
    may_miss: bool, late_s: int, deaf: bool, strikes: int
) -> None:
    """Commands of faults before it took long, and nobody wants all of them at once. Or ranks cannot see it now."""
    words = {"id": "a", "kind": "link_down", "host": "h1", "nic": "eth0", "duration_s": 1, "at": {"launch_s": 0}}
    spec = FaultSpec.model_validate({**words, "may_miss": may_miss})
    plan = Plan("stock", 0, [], [], [PlannedFault(spec, spec)])  # type: ignore[arg-type]
    ranks, injector, timers = Mock(), Mock(), Timers()
    ranks.of.return_value = [Mock(eof=False)]
    injector.strike.return_value, injector.clash_of.return_value = now_ns(), None
    injector.deaf.return_value = deaf
    Schedule(plan, ranks, injector, timers, lambda: None).launched()
    for action in timers.due(now_ns()):
        with pytest.MonkeyPatch.context() as clock:
            clock.setattr("chaos.run.schedule.now_ns", lambda: now_ns() + late_s * 10**9)
            action()
    assert injector.strike.call_count == strikes
