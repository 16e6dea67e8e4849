"""`r2cc run` over launchers, with a stand-in for srun that really starts processes, and ranks that misbehave."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parent))
import launch_double
from ports import free_port
from processes import with_word
from torch_python import mended_python, needs_torch, torch_python
from waits import LIMIT_S, until

from harness.commands.run import run
from harness.errors import InfraError, UsageError
from harness.hosts import LocalHost
from harness.launch.hosts import JobHosts
from harness.launch.job import Job
from harness.launch.launchers import torchrun
from harness.launch.launchers.launcher import Command, Plan
from harness.launch.plan import met, ranks_port, starts
from harness.launch.processes import Processes, Start
from harness.launch.run import JobRun
from harness.launch.streams import Whole
from harness.launch.watch import Watch
from harness.launch.workloads import Asked, job
from harness.workloads.kinds.workload import Programs

ROOT = Path(__file__).parents[2]
SLURM = ROOT / "tests" / "data" / "slurm"

pytestmark = pytest.mark.timeout(200)


@pytest.fixture
def allocation(tmp_path: Path) -> dict[str, str]:
    """The environment inside an allocation of two hosts with two tasks each, and a deployed build of a stand-in."""
    launch_double.standin_rank(tmp_path)
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "srun").write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(SLURM / "srun")])} "$@"\n')
    (folder / "srun").chmod(0o755)
    env = dict(line.split("=", 1) for line in (SLURM / "salloc_even.env").read_text().splitlines())
    return {**env, "PATH": f"{folder}:{os.environ['PATH']}", "FAKE_SRUN_SEEN": str(tmp_path / "seen")}


def call(tmp_path: Path, env: dict[str, str], *words: str, **plan: object) -> Result:
    argv = ["bench", "--launcher", "srun", "--prefix", str(tmp_path), "--json", "--quiet", *words]
    return CliRunner(env={**env, "STANDIN": launch_double.plan(**plan)}).invoke(run, argv, standalone_mode=False)


def test_srun_takes_hosts_and_ranks_from_the_allocation(tmp_path: Path, allocation: dict[str, str]) -> None:
    result = call(tmp_path, allocation, "--env", "HF_TOKEN=s3cret", show=["HF_TOKEN", "R2CC_MODE"])
    assert result.return_value == 0, result.output
    told = json.loads(result.stdout)
    assert told["hosts"] == {"n1": 2, "n2": 2}
    assert (told["completed"], told["iterations"], told["wrong_elements"]) == (True, 3, 0)
    assert told["iteration_ms"] == {"median": 2.0, "max": 2.0}
    assert "rank 3 on n2: has s3cret 2" in result.stderr
    seen = (tmp_path / "seen").read_text()
    assert "--nodelist=n1,n2" in seen and "s3cret" not in seen


def test_uneven_tasks_are_placed_one_by_one(tmp_path: Path, allocation: dict[str, str]) -> None:
    env = {**allocation, "SLURM_TASKS_PER_NODE": "2,1", "SLURM_NTASKS": "3"}
    result = call(tmp_path, env)
    assert (result.return_value, json.loads(result.stdout)["hosts"]) == (0, {"n1": 2, "n2": 1})
    assert "--distribution=arbitrary" in (tmp_path / "seen").read_text()


@pytest.mark.parametrize(
    ("plan", "code", "reason"),
    [
        ({"wrong": [1, 2]}, 1, "wrong results"),
        ({"die": [2, 1]}, 3, "rank 2 on n2 ended with exit code 7; its last lines:\n  | going down"),
        ({"die": [3, 0], "signal": True}, 3, "rank 3 on n2 was killed by SIGKILL; its last lines:\n  | going down"),
    ],
)
def test_how_it_ends(tmp_path: Path, allocation: dict[str, str], plan: dict[str, Any], code: int, reason: str) -> None:
    result = call(tmp_path, allocation, **plan)
    assert result.return_value == code, result.output
    assert json.loads(result.stdout)["reason"] == reason


def test_a_program_that_is_not_there_has_a_remedy(tmp_path: Path, allocation: dict[str, str]) -> None:
    result = call(tmp_path, allocation, "--prefix", str(tmp_path / "nowhere"))
    assert result.return_value == 3, result.output
    reason = json.loads(result.stdout)["reason"]
    assert "ended with exit code 127: its program is not there; `r2cc deploy`" in reason and "--prefix" in reason


def test_outside_of_an_allocation(tmp_path: Path, allocation: dict[str, str]) -> None:
    result = call(tmp_path, {**allocation, "SLURM_JOB_ID": "", "SLURM_JOBID": ""})
    assert isinstance(result.exception, UsageError) and "salloc" in str(result.exception)
    other = call(tmp_path, allocation, "--inventory", "vm")
    assert isinstance(other.exception, UsageError) and "only in its allocation" in str(other.exception)
    assert not (tmp_path / "seen").exists()
    without = call(tmp_path, {**allocation, "PATH": str(tmp_path)})
    assert isinstance(without.exception, InfraError) and "there is no srun" in str(without.exception)


@pytest.mark.parametrize(
    ("says", "wrong"),
    [
        ("mpirun (Open MPI) 4.1.4", ""),
        ("HYDRA build details:\n    Version:  4.0.2", "is not Open MPI's"),
        ("mpirun (Open MPI) 5.0.7", ""),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.13", "is not Open MPI's"),
    ],
)
def test_another_mpirun_is_not_given_words_of_open_mpi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, wrong: str
) -> None:
    (tmp_path / "mpirun").write_text(f"#!/bin/sh\necho '{says}'\n")
    (tmp_path / "mpirun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    planned = Plan("mpirun", [Command("", "mpirun", ["mpirun"], {})])
    with pytest.raises(InfraError, match=wrong) if wrong else nullcontext() as caught:
        starts(planned, {}, tmp_path)
    if caught is not None:
        assert "update-alternatives" in str(caught.value)


def test_a_python_without_torch_has_a_remedy(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1\n")
    bare.chmod(0o755)
    made = Job(("true",), {"a": 1}, "127.0.0.1:1", python=str(bare))
    start = Start("torchrun on a", LocalHost(), torchrun.command(made, "a"), {}, Whole())
    result = JobRun(made, "torchrun", str, str, Watch(time.monotonic())).run([start])
    assert result.exit_code == 3 and "R2CC_PYTHON) names a Python" in result.reason


def test_torchruns_python_is_the_users_choice_for_the_bench_too(allocation: dict[str, str]) -> None:
    argv = ["bench", "--launcher", "torchrun", "--inventory", "lab", "--python", "/opt/python", "--dry-run"]
    result = CliRunner(env=allocation).invoke(run, argv, standalone_mode=False)
    assert "/opt/python -m torch.distributed.run" in result.output, result.output


@pytest.mark.parametrize("more", [["--dry-run"], []], ids=["dry", "real"])
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["bench", "--launcher", "torchrun", "--inventory", "vm"], "torchrun is a program of torch's, and the guests"),
        (["collectives", "--inventory", "uml:2x2", "--cpu"], "collectives needs torch, and the guests of 'uml:2x2'"),
    ],
)
def test_guests_without_torch_are_refused_before_anything_starts(
    words: list[str], why: str, more: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.build.build_net", lambda **_: pytest.fail("it is built"))
    result = CliRunner().invoke(run, [*words, *more], standalone_mode=False)
    assert isinstance(result.exception, UsageError) and why in result.exception.message, result.output
    assert result.output == ""


def test_what_is_no_network_is_bad_usage() -> None:
    result = CliRunner().invoke(run, ["bench", "--launcher", "mpirun", "--oob", "nonsense", "--dry-run"])
    assert result.exit_code == 2 and "'nonsense' is no network such as" in result.output


def test_ctrl_c_ends_all_ranks(tmp_path: Path, allocation: dict[str, str]) -> None:
    words = ["run", "bench", "--launcher", "srun", "--prefix", str(tmp_path)]
    code = f"import sys; sys.argv = ['r2cc', *{words!r}]; from harness.cli import main; main()"
    env = {**os.environ, **allocation, "STANDIN": launch_double.plan(hang=1)}
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=env, stderr=subprocess.DEVNULL) as child:
        until(lambda: child.poll() is not None or len(ranks(tmp_path)) == 4)
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        assert child.wait(LIMIT_S) == 130
    assert not ranks(tmp_path)


def ranks(folder: Path) -> list[int]:
    return with_word(str(folder / "rank.py"))


def local(folder: Path, ranks: int, **plan: object) -> list[Start]:
    """Ranks as plain SSH has them, on this machine."""
    program = folder / "current" / "bin" / "r2cc_bench"
    if not program.exists():
        launch_double.standin_rank(folder)
    made = Job((str(program), "--ranks", str(ranks)), {"here": ranks}, "here:1")
    env = {"STANDIN": launch_double.plan(**plan)}
    return [
        Start(f"rank {rank} on here", LocalHost(), made.as_rank(rank), env, Whole(rank), rank) for rank in range(ranks)
    ]


def run_here(folder: Path, ranks: int, patience_s: float = 30.0, **plan: object) -> Any:
    made = Job(("x",), {"here": ranks}, "here:1")
    watch = Watch(time.monotonic(), patience_s=patience_s)
    lines: list[str] = []
    result = JobRun(made, "ssh", lines.append, lines.append, watch).run(local(folder, ranks, **plan))
    assert "rank 1 on here: has" in lines
    return result


def test_a_hang_is_judged_by_progress(tmp_path: Path) -> None:
    result = run_here(tmp_path, 2, patience_s=8.0, hang=1)
    assert (result.exit_code, result.figures.iterations) == (3, 1)
    assert "nothing moved for" in result.reason and "all ranks were ended" in result.reason
    assert not ranks(tmp_path)


def test_the_others_of_one_that_died_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.launch.run.PEERS_S", 0.2)
    result = run_here(tmp_path, 3, die=[1, 0], signal=True, hang=2)
    assert result.reason == "rank 1 on here was killed by SIGKILL; its last lines:\n  | going down"
    assert not ranks(tmp_path)


def test_one_that_cannot_start_ends_the_rest(tmp_path: Path) -> None:
    starts = local(tmp_path, 2, hang=0)
    broken = Start("rank 2 on there", LocalHost("there"), [str(tmp_path / "nowhere")], {}, Whole(2), 2)
    with Processes() as made, pytest.raises(InfraError, match="there: cannot start"):
        made.start([*starts, broken])
    assert not ranks(tmp_path)


def test_one_that_starts_late_is_ended_too(tmp_path: Path) -> None:
    """Ctrl-C comes while a host is still connecting."""

    connecting = threading.Event()

    class Slow(LocalHost):
        def spawn(self, *args: Any, **more: Any) -> Any:
            connecting.set()
            time.sleep(0.5)
            return super().spawn(*args, **more)

    start = local(tmp_path, 1, hang=0)[0]
    slow = Start(start.shown, Slow(), start.argv, start.env, start.reader, 0)
    with pytest.raises(KeyboardInterrupt), Processes() as made:
        threading.Thread(target=made.start, args=([slow],), daemon=True).start()
        assert connecting.wait(LIMIT_S)
        raise KeyboardInterrupt
    assert not ranks(tmp_path)


def test_nccl_tests_under_srun(tmp_path: Path, allocation: dict[str, str]) -> None:
    """As with MPI, the first rank alone prints."""
    standin = ROOT / "tests" / "data" / "nccl_tests" / "standin.py"
    program = tmp_path / "current" / "bin" / "all_reduce_perf"
    program.write_text(
        f'#!/bin/sh\n[ "$SLURM_PROCID" = 0 ] || exit 0\nexec {shlex.join([sys.executable, str(standin)])} "$@"\n'
    )
    program.chmod(0o755)
    words = ["nccl-tests", "--launcher", "srun", "--prefix", str(tmp_path), "--gpus", "2", "--mode", "0"]
    assert isinstance(CliRunner(env=allocation).invoke(run, words, standalone_mode=False).exception, click.UsageError)
    words += ["--bin", str(program.parent)]
    words += ["--begin", "1K", "--end", "4K", "--json"]
    (tmp_path / "current" / "lib").mkdir()
    (tmp_path / "current" / "lib" / "libnccl.so.2").symlink_to(libc())
    result = CliRunner(env={**allocation, "STANDIN": "{}"}).invoke(run, words, standalone_mode=False)
    assert result.return_value == 0, result.output
    assert [row["size_bytes"] for row in json.loads(result.stdout)["rows"]] == [1024, 1024, 2048, 2048, 4096, 4096]
    assert "--mpi=pmix" in (tmp_path / "seen").read_text()


def libc() -> str:
    """What any program can preload: what this Python itself runs on."""
    found = re.search(r"/\S+/libc\.so\.6$|/\S+/libc-[\d.]+\.so$", Path("/proc/self/maps").read_text(), re.MULTILINE)
    assert found is not None
    return found.group()


def python_that_tries(tmp_path: Path, ports: list[int]) -> str:
    """A Python of the first host whose choice of ports to try is not left to chance."""
    chance = f"import random; random.sample = lambda *_: {ports}"
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ncode=$2\nshift 2\nexec {sys.executable} -c "{chance}\n$code" "$@"\n')
    python.chmod(0o755)
    return str(python)


def test_torchruns_processes_meet_where_no_other_job_does(tmp_path: Path) -> None:
    """The same port in the words of all hosts, not one that another job holds."""
    free = free_port()
    with socket.socket() as other:
        other.bind(("", 0))
        taken = other.getsockname()[1]
        made = Job(("true",), {"a": 1, "b": 1}, "10.0.0.1:29500", python=python_that_tries(tmp_path, [taken, free]))
        found = met(made, "torchrun", {"a": LocalHost()})
        assert [f"10.0.0.1:{free}" in torchrun.command(found, host) for host in "ab"] == [True, True]
        assert met(made, "ssh", {}) is made
        for ranks, ports in ((1, [taken]), (free, [taken, free])):  # the ranks take theirs later
            full = replace(made, rendezvous=f"10.0.0.1:{ranks}", python=python_that_tries(tmp_path, ports))
            with pytest.raises(InfraError, match="a has no free port where torchrun's"):
                met(full, "torchrun", {"a": LocalHost()})


def test_ranks_meet_where_no_other_job_does(tmp_path: Path) -> None:
    site = JobHosts(["a", "b"], "10.0.0.1", launch_double.PROGRAMS, {"a": LocalHost()})
    free = free_port()
    with socket.socket() as other:
        other.bind(("", 0))
        taken = other.getsockname()[1]
        asked = Asked("bench", python=python_that_tries(tmp_path, [taken, free]))
        assert ranks_port(asked, site) == free
        with pytest.raises(InfraError, match="a has no free port where ranks could meet"):
            ranks_port(replace(asked, python=python_that_tries(tmp_path, [taken])), site)
    for silent in (replace(site, hosts={}), replace(site, hosts={"b": LocalHost()})):
        assert ranks_port(asked, silent) == 29500
    assert ranks_port(replace(asked, python=str(tmp_path / "none")), site) == 29500


@needs_torch
@pytest.mark.parametrize(("corrupt", "code"), [("", 0), pytest.param("1:1", 1, marks=pytest.mark.slow)])
def test_real_torchrun_starts_ranks_of_a_workload(tmp_path: Path, corrupt: str, code: int) -> None:
    """One host with two ranks, gloo."""
    python = torch_python()
    assert python is not None
    nothing = tmp_path / "nothing"
    rank = ROOT / "harness" / "workloads" / "rank.py"
    site = JobHosts(("here",), "127.0.0.1", Programs(nothing, nothing, nothing, rank))
    asked = Asked(
        "collectives", 0, 2, iterations=2, warmup=1, cpu=True, python=python, port=free_port(), corrupt=corrupt,
        spec={"bytes": 4096, "ops": ["all_reduce"]}, env={"GLOO_SOCKET_IFNAME": "lo"},
    )  # fmt: skip
    here = LocalHost()
    made = met(replace(job(asked, site, {}), python=str(mended_python(tmp_path))), "torchrun", {"here": here})
    said: list[str] = []
    start = Start("torchrun on here", here, torchrun.command(made, "here"), made.env, Whole())
    result = JobRun(made, "torchrun", said.append, said.append, Watch(time.monotonic())).run([start])
    assert (result.exit_code, result.figures.iterations) == (code, 2), (result, said)
