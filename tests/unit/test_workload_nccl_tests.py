"""nccl-tests as a workload: its commands, what is made of its rows and its JSON, and what cannot be."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.experiment.file import loads
from chaos.experiment.model import Experiment
from chaos.testbed.programs import check_programs
from harness.errors import InfraError, InputErrors, UsageError
from harness.lab.remote import NETWORK, Inside, shell
from harness.launch.gather import gathered
from harness.launch.launchers.mpirun import Mpirun
from harness.sites.lab import LabSite
from harness.workloads.kinds.nccl_tests import NcclTests
from harness.workloads.kinds.registry import TRIED
from harness.workloads.nccltests.spec import OPS
from harness.workloads.reading.nccl_lines import Rows
from harness.workloads.reading.steps import Wanted

MS = 1_000_000
GOLDEN = Path(__file__).parents[1] / "data" / "nccl_tests" / "mpirun-lab.txt"
HEADER = (
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max    i_p99"
    "    i_cv%     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv% "
)
TWICE = {"size": 4000, "count": 1000, "type": "float", "redop": "sum", "root": "    -1"}


def row(time_us: float, wrong: int = 0, size: int = 4000) -> str:
    """Out of place and in place alike."""
    part = f"{time_us:7.2f}    0.40    0.80  {wrong:6}  {time_us:7.2f}  {time_us:7.2f}  {time_us:7.2f}     0.10"
    return f"{size:12}  {size // 4:12}     float     sum      -1  {part}  {part}"


def both(times_us: list[float]) -> dict[str, Any]:
    part = {"time": sum(times_us) / len(times_us), "alg_bw": 0.4, "bus_bw": 0.8, "nwrong": 0.0}
    each = {"times_us": times_us}
    return {**TWICE, "out_of_place": part, "out_of_place_per_iter": each, "in_place": part, "in_place_per_iter": each}


def reader(sizes: tuple[int, ...] = (4000,), each: int = 2) -> Rows:
    made = Rows(Wanted(0, 2, 0), sizes=sizes, each=each, op="all_reduce")
    made.begin(0)
    return made


def events(made: Rows, *lines: tuple[int, str]) -> list[dict[str, Any]]:
    return [line for ms, text in lines for line in made.read([text.encode()], ms * MS) if isinstance(line, dict)]


def iterations(lines: Any) -> list[tuple[int, float, float]]:
    """(index, start, end) in ms."""
    return [
        (line["index"], line["start_ns"] / MS, line["end_ns"] / MS) for line in lines if line["event"] == "iteration"
    ]


def test_iterations_lie_in_their_row_with_the_times_that_the_json_says() -> None:
    made = reader()
    begun = events(made, (50, HEADER), (100, row(10_000)), (180, row(10_000)))
    assert [line["event"] for line in begun[:2]] == ["bench_start", "progress"]
    assert begun[0]["program"] == "all_reduce_perf"
    report = {"results": [both([10_000, 10_000]), both([5_000, 15_000])]}
    # of the second row's 80 ms 40 are not timed: 10 before, 20 between, 10 after
    assert iterations(made.left(json.dumps(report))) == [
        (0, 30.0, 40.0), (1, 40.0, 50.0), (2, 70.0, 80.0), (3, 80.0, 90.0),
        (4, 110.0, 115.0), (5, 115.0, 130.0), (6, 150.0, 155.0), (7, 155.0, 170.0),
    ]  # fmt: skip


@pytest.mark.parametrize(("first", "last", "begin"), [(5_000, 15_000, 170.0), (15_000, 5_000, 470.0)])
def test_a_stall_that_is_not_timed_goes_beside_the_longest_iteration(first: int, last: int, begin: float) -> None:
    """The third row takes 300 ms more; its longest iteration is the last in place, or the first out of place."""
    made = reader()
    events(made, (0, HEADER), (80, row(10_000)), (160, row(10_000)), (540, row(10_000)))
    third = both([10_000, 10_000])
    place = "in_place_per_iter" if last > first else "out_of_place_per_iter"
    third[place] = {"times_us": [first, last]}
    report = {"results": [both([10_000, 10_000]), both([10_000, 10_000]), third]}
    lines = [line for line in made.left(json.dumps(report)) if isinstance(line, dict)]
    spans = iterations(lines)
    assert spans[8][1] == begin
    assert spans[11][2] == (230.0 if last > first else 530.0)
    beside = [(line["index"], line["beside_ms"], line["row"]) for line in lines if "beside_ms" in line]
    assert beside == [(11 if last > first else 8, 300.0, [8, 11])]


def test_bus_bandwidth_of_an_iteration_goes_as_one_over_its_time() -> None:
    made = reader()
    events(made, (50, HEADER), (100, row(10_000)))
    lines = [line for line in made.left(json.dumps({"results": [both([5_000, 15_000])]})) if isinstance(line, dict)]
    assert [round(line["busbw_GBps"], 3) for line in lines] == [1.6, 0.533, 1.6, 0.533]
    assert {line["bytes"] for line in lines} == {4000}


def test_iterations_of_the_next_row_are_foreseen() -> None:
    made = reader()
    found = events(made, (50, HEADER), (100, row(10_000)), (180, row(10_000)))
    ahead = [line for line in found if line["event"] == "progress" and line["index"] in range(8, 12)]
    assert [(line["index"], line["start_ns"] / MS, line["usual_ms"]) for line in ahead] == [
        (8, 190.0, 10.0), (9, 200.0, 10.0), (10, 230.0, 10.0), (11, 240.0, 10.0),
    ]  # fmt: skip


def test_of_several_sizes_the_next_row_is_as_the_last_one_of_its_size() -> None:
    made = reader(sizes=(4000, 8000), each=1)
    found = events(made, (50, HEADER), (100, row(1_000)), (200, row(2_000, size=8000)), (300, row(1_000)))
    usual = [(line["index"], line["usual_ms"]) for line in found if "usual_ms" in line]
    assert usual == [(4, 1.0), (5, 1.0), (6, 2.0), (7, 2.0)]


@pytest.mark.parametrize("text", [None, "", '{"results": [', '{"results": [{"size": 4000, "count": 10'])
def test_without_a_whole_json_iterations_have_the_mean(text: str | None) -> None:
    made = reader()
    events(made, (50, HEADER), (100, row(10_000)))
    lines = [line for line in made.left(text) if isinstance(line, dict)]
    assert "left no times of 1 of 1 rows" in lines[0]["message"]
    assert [end - start for _, start, end in iterations(lines)] == [10.0] * 4


def test_rows_that_are_torn_are_none() -> None:
    made = reader()
    assert events(made, (50, HEADER), (100, row(10_000)[:70]), (110, "garbage 1 2 3"))[2:] == []
    assert list(made.left(None)) == []


def test_wrong_elements_are_those_of_the_last_iteration_of_their_row() -> None:
    made = reader()
    events(made, (50, HEADER), (100, row(10_000, wrong=7)))
    assert [line["wrong_elements"] for line in made.left(None) if "wrong_elements" in line] == [0, 7, 0, 7]
    (end,) = made.end(200 * MS)
    assert isinstance(end, dict)
    assert (end["completed"], end["wrong_elements"]) == (4, 14)


def test_ranks_that_print_nothing_say_nothing() -> None:
    made = Rows(Wanted(1, 2, 0), sizes=(4000,), each=2, op="all_reduce")
    assert [*made.read([b"hello"], 5), *made.end(9), *made.left(None)] == []


def command(**settings: object) -> list[str]:
    return NcclTests.model_validate({"kind": "nccl_tests", "programs": "/opt/nt", **settings}).command(TRIED)


@pytest.mark.parametrize("op", OPS)
def test_command_of_each_operation(op: str) -> None:
    words = command(op=op)
    assert words[:2] == ["sh", "-c"]
    assert '-J "$R2CC_OUT/nccl-tests.json"' in words[2]
    assert words[3:] == [
        "r2cc", ".", "stdbuf", "-oL", f"/opt/nt/{op}_perf", "-b", "67108864", "-e", "67108864", "-f", "4", "-g", "1",
        "-n", "20", "-w", "5", "-d", "float", "-c", "1", "-I", "1", "-N", "8",
    ]  # fmt: skip


def test_sizes_of_a_sweep_and_how_many_iterations_there_are() -> None:
    made = NcclTests.model_validate({"kind": "nccl_tests", "bytes": "1M", "up_to": "64M", "cycles": 3})
    assert made.sizes == [1 << 20, 4 << 20, 16 << 20, 64 << 20]
    assert (made.foreseen, made.measured) == (160, 480)


def test_mpirun_inside_a_lab() -> None:
    """To write it anew: WRITE_GOLDEN=1, then read the difference."""
    addresses = {"h0": "10.250.0.1", "h1": "10.250.0.2"}
    rank_env = [{"R2CC_MODE": "2", "LD_PRELOAD": "/lib/libnccl.so.2", "NCCL_HOSTID": f"lab-h{n}"} for n in range(2)]
    inside = Inside(addresses, NETWORK, shell(addresses, Path("/run/labs/x")))
    argv = command(op="all_gather")
    job = gathered(["h0", "h1"], [argv, argv], rank_env, rendezvous="10.250.0.1:29500", inside=inside, mpi=True)
    plan = Mpirun().plan(job, None, "/tmp/r2cc-run")  # type: ignore[arg-type]
    text = plan.text().replace(sys.executable, "PYTHON").replace(str(Path(__file__).parents[2]), "CHECKOUT")
    if os.environ.get("WRITE_GOLDEN") == "1":
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
    assert plan.commands[0].host == "h0"


EXPERIMENT = """\
name: x
topology: {hosts: 2, nics: 2}
workload: {kind: nccl_tests, WORKLOAD}
faults: [{id: a, kind: link_down, host: h0, nic: eth0, at: {iteration: ITERATION}, duration_s: 1.0}]
arms: {stock: {expect: any}}
"""


def experiment(workload: str = "iterations: 10, cycles: 4", iteration: int = 30) -> Experiment:
    text = EXPERIMENT.replace("WORKLOAD", workload).replace("ITERATION", f"{iteration}")
    return loads(text, Path("x.yaml"))


@pytest.mark.parametrize(
    ("workload", "iteration", "message"),
    [
        ("op: all_of_them", 30, "workload.op: input should be 'all_reduce', "),
        ("bytes: 4M, up_to: 1M", 40, "workload.up_to: it is less than bytes"),
        ("cycles: 1", 30, "workload.cycles: input should be greater than or equal to 2"),
        ("iterations: 10, cycles: 4", 19, "when iteration 19 begins cannot be foreseen: the first that can be is 20"),
        ("iterations: 10, cycles: 4", 80, "iteration 80 is never reached: the last one is 79"),
        ("gpus_per_rank: 0", 50, "the patched NCCL needs GPUs: say gpus_per_rank"),
    ],
)
def test_what_cannot_be(workload: str, iteration: int, message: str) -> None:
    with pytest.raises(InputErrors, match=re.escape(message)):
        experiment(workload, iteration)


def test_a_program_that_is_not_there_and_one_without_mpi(tmp_path: Path) -> None:
    wanted = experiment(f"iterations: 10, cycles: 4, programs: {tmp_path}")
    with pytest.raises(UsageError, match=r"there is no program .*/all_reduce_perf on this machine"):
        check_programs(LabSite(), wanted)
    program = tmp_path / "all_reduce_perf"
    program.write_bytes(b"\x7fELF and nothing of it")
    program.chmod(0o755)
    with pytest.raises(UsageError, match="was built without MPI: its ranks cannot meet across hosts"):
        check_programs(LabSite(), wanted)
    program.write_bytes(b"\x7fELF MPI_Init")
    check_programs(LabSite(), wanted)


def test_ranks_that_each_ran_alone_are_no_run() -> None:
    """Built without MPI: all of them count, move bytes within their GPU, find no wrong element and end with 0."""
    made = Rows(Wanted(1, 2, 0), sizes=(4000,), each=2, op="all_reduce")
    made.begin(0)
    with pytest.raises(InfraError, match="rank 1 of nccl-tests printed a table of its own") as caught:
        events(made, (1, HEADER + "\n"))
    assert "--mpi" in (caught.value.hint or "")


def test_a_row_that_a_warning_tears_is_a_row() -> None:
    """Seen on two H200: NCCL warns of each lane that a fault ended, and a row is printed in three pieces."""
    warning = (
        "\n[2026-11-29 22:25:59] h0:155:205 [0] misc/socket.cc:35 NCCL WARN socketProgress: Connection closed \n\n"
    )
    head, part = row(10.0).split("-1", 1)[0] + "-1", row(10.0).split("-1", 1)[1].split()
    half = len(part) // 2
    first, second = "  ".join(part[:half]), "  ".join(part[half:])
    torn = [
        f"{head}{warning}{first}{second and '   '}{second}\n",
        f"{head}   {first}{warning}{second}\n",
        f"{head}{warning}{first}{warning}   {second}\n",
    ]
    made = reader()
    lines = events(made, (1, HEADER + "\n"), *((10 * n, text) for n, text in enumerate(torn, 2)))
    assert len(made.printed) == 3
    assert [each.rows[1].time_us for each in made.printed] == [10.0] * 3
    assert not [line for line in lines if line["event"] == "error"]


def test_numbers_alone_are_no_row() -> None:
    made = reader()
    events(made, (1, HEADER + "\n"), (2, "7 8 9\n4000 1000 float sum -1\n12\n1 2 3 4 5 6 7 x\n"))
    assert made.printed == []


def test_a_torn_row_without_a_reduction_is_a_row() -> None:
    """hypercube_perf leaves that column empty."""
    bare = row(10.0).replace("     sum", "")
    head, part = bare.split("-1", 1)[0] + "-1", bare.split("-1", 1)[1].split()
    half = len(part) // 2
    made = reader()
    warning = "\n[x] h0:1:2 [0] NCCL WARN away \n"
    text = f"{head}{warning}{'  '.join(part[:half])}{warning}{'  '.join(part[half:])}\n"
    events(made, (1, HEADER + "\n"), (2, text))
    assert [each.rows[1].redop for each in made.printed] == ["none"]
