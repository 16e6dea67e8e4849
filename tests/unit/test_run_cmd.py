"""`r2cc run`: the exact commands of other people's workloads, and nccl-tests run through a stand-in for it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harness.commands.run import OPS, run
from harness.errors import R2ccError, UsageError
from harness.programs import adapters
from harness.programs.foreground import run_launch
from harness.programs.nccltests import Plan
from harness.workloads.nccltests import spec

ROOT = Path(__file__).resolve().parents[2]
STANDIN = ROOT / "tests" / "data" / "nccl_tests" / "standin.py"
LIBRARY = Path("/opt/r2cc/lib/libnccl.so.2")

pytestmark = pytest.mark.timeout(100)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the machine shows in golden commands; no patched NCCL was built."""
    for name in list(os.environ):
        if name.startswith(("NCCL_", "LD_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr("harness.repo.Layout.nccl", tmp_path / "build" / "nccl")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for op in OPS:
        (folder / f"{op}_perf").write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(STANDIN)])} "$@"\n')
        (folder / f"{op}_perf").chmod(0o755)
    return folder


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """One that any program can preload: what this Python itself runs on."""
    found = re.search(r"/\S+/libc\.so\.6$|/\S+/libc-[\d.]+\.so$", Path("/proc/self/maps").read_text(), re.MULTILINE)
    assert found is not None
    (tmp_path / "libnccl.so.2").symlink_to(found.group())
    return tmp_path / "libnccl.so.2"


def call(*words: str, standin: dict[str, Any] | None = None) -> Result:
    env = {"STANDIN": json.dumps(standin or {})}
    return CliRunner(env=env).invoke(run, list(words), standalone_mode=False)


def perf(programs: Path, *words: str, standin: dict[str, Any] | None = None) -> Result:
    words = ("nccl-tests", "--bin", str(programs), "--mode", "0", "--begin", "1K", "--end", "4K", *words)
    return call(*words, standin=standin)


def test_it_shows_rows_and_what_they_come_to(programs: Path) -> None:
    result = perf(programs)
    assert result.return_value == 0, result.output
    assert sum(line.lstrip()[:1].isdigit() for line in result.stdout.splitlines()) == 3
    assert "6 rows, 0 wrong elements, up to" in result.stderr


def test_json_has_typed_rows_and_no_environment(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cret-value")
    result = perf(programs, "--json", "--op", "alltoall", "--gpus", "2", standin={"raw": {"0": '"nan"'}})
    value = json.loads(result.stdout)
    assert "s3cret-value" not in result.output
    assert (value["exit_code"], value["complete"], value["ranks"]) == (0, True, 2)
    assert value["rows"][0]["time_us"] is None
    assert [row["size_bytes"] for row in value["rows"]] == [1024, 1024, 2048, 2048, 4096, 4096]
    assert "alltoall_perf" not in result.stdout and "#" in result.stderr


@pytest.mark.parametrize(
    ("standin", "code", "reason"),
    [
        ({"wrong": {"1": 3}}, 1, "wrong results"),
        ({"wrong": {"0": 3}, "die_after": 2}, 1, "wrong results"),
        ({"die_after": 2}, 3, "it ended with exit code 3"),
        ({"exit": 7}, 3, "it ended with exit code 7"),
        ({"die_after": 0}, 3, "Test failure"),
        ({"alone": True}, 3, "2 programs ran side by side"),
    ],
)
def test_exit_codes(programs: Path, standin: dict[str, Any], code: int, reason: str) -> None:
    result = perf(programs, standin=standin)
    assert result.return_value == code, result.output
    assert reason in result.stderr


def test_rows_of_one_that_died_are_kept(programs: Path) -> None:
    value = json.loads(perf(programs, "--json", standin={"die_after": 2}).stdout)
    assert (value["complete"], len(value["rows"]), value["exit_code"]) == (False, 4, 3)


def test_one_that_hangs_is_ended(programs: Path) -> None:
    result = perf(programs, "--timeout-s", "1.5", standin={"hang_after": 1})
    assert result.return_value == 3
    assert "it still ran after 1.5 s and was ended" in result.stderr


def test_rows_come_before_the_end(programs: Path) -> None:
    """The program hangs after its first row, which must be shown while it does; Ctrl-C then ends both."""
    words = ["nccl-tests", "--bin", str(programs), "--mode", "0", "--begin", "1K", "--end", "4K"]
    code = f"import sys; sys.argv = ['r2cc', 'run', *{words!r}]; from harness.cli import main; main()"
    env = {**os.environ, "STANDIN": json.dumps({"hang_after": 1})}
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        pids: list[int] = []
        for line in child.stdout:
            if found := re.search(r"Pid +(\d+)", line):
                pids.append(int(found.group(1)))
            if line.lstrip().startswith("1024"):
                break
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130
    assert pids and not Path(f"/proc/{pids[0]}").exists()


def test_the_library_is_preloaded_before_what_was_there(programs: Path, library: Path) -> None:
    (programs / "all_reduce_perf").write_text('#!/bin/sh\necho "preload=$LD_PRELOAD mode=$R2CC_MODE"\nexit 5\n')
    words = ["nccl-tests", "--bin", str(programs), "--mode", "3", "--library", str(library)]
    result = call(*words)
    found = re.search(r"preload=(\S+) mode=3", result.stdout)
    assert found is not None, result.output
    assert found.group(1).split(":")[0] == str(library.resolve())


def test_without_a_patched_nccl_only_stock_runs(programs: Path) -> None:
    result = call("nccl-tests", "--bin", str(programs))
    assert isinstance(result.exception, UsageError)
    assert "r2cc build nccl" in str(result.exception)


def test_bad_usage_is_said_before_anything_starts(programs: Path, tmp_path: Path) -> None:
    missing = perf(tmp_path / "nowhere")
    assert isinstance(missing.exception, UsageError) and "r2cc build nccl-tests" in str(missing.exception)
    (tmp_path / "build.json").write_text(json.dumps({"inputs": {"mpi": ""}}))
    alone = perf(programs, "--mpi", "a,b")
    assert isinstance(alone.exception, UsageError) and "built without MPI" in str(alone.exception)
    assert isinstance(perf(programs, "--mpi", "-x").exception, UsageError)


def test_one_that_cannot_start_is_an_error_with_a_hint(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(programs))
    assert isinstance(perf(programs, "--mpi", "a").exception, R2ccError)


def test_dry_run_of_nccl_tests(monkeypatch: pytest.MonkeyPatch, library: Path) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    words = ["nccl-tests", "--bin", "/opt/nt", "--library", str(library), "--gpus", "2", "--end", "1M", "--dry-run"]
    real = library.resolve()
    env = f"env LD_LIBRARY_PATH={real.parent} "
    tail = "-n 20 -w 5 -d float -c 1\n"
    assert call(*words).stdout == (
        f"{env}LD_PRELOAD={real} R2CC_MODE=2 stdbuf -oL /opt/nt/all_reduce_perf -b 8 -e 1M -f 2 -g 2 {tail}"
    )
    assert call(*words, "--mpi", "a,b").stdout == (
        f"{env}R2CC_MODE=2 mpirun -np 4 -H a:2,b:2 --map-by slot --bind-to none -x LD_LIBRARY_PATH -x NCCL_DEBUG "
        f"-x R2CC_MODE env LD_PRELOAD={real} stdbuf -oL /opt/nt/all_reduce_perf -b 8 -e 1M -f 2 -g 1 {tail}"
    )


def test_stock_without_a_library_preloads_nothing() -> None:
    asked = spec.Spec("broadcast", Path("/opt/nt"), 1)
    launch = Plan(asked, ["a"], 0, None, {}).launch()
    assert launch.env == {"R2CC_MODE": "0"}
    assert "env" not in launch.argv


def test_golden_vllm() -> None:
    env = adapters.r2cc_env(LIBRARY, 2, {"LD_PRELOAD": "/x.so", "LD_LIBRARY_PATH": "/cuda"})
    serve = adapters.vllm_serve("org/model", env, LIBRARY, tensor_parallel=4, more=["--max-model-len", "4096"])
    assert serve.text() == (
        "env LD_LIBRARY_PATH=/opt/r2cc/lib:/cuda LD_PRELOAD=/opt/r2cc/lib/libnccl.so.2:/x.so R2CC_MODE=2 "
        "VLLM_NCCL_SO_PATH=/opt/r2cc/lib/libnccl.so.2 "
        "vllm serve org/model --tensor-parallel-size 4 --port 8000 --max-model-len 4096"
    )
    assert adapters.vllm_bench("org/model", prompts=10).text() == (
        "env vllm bench serve --model org/model --port 8000 --dataset-name random --random-input-len 1024 "
        "--random-output-len 128 --num-prompts 10 --seed 1 --percentile-metrics ttft,tpot,itl "
        "--metric-percentiles 50,99 --ignore-eos"
    )


def test_golden_deepspeed() -> None:
    inherited = {"NCCL_DEBUG": "INFO", "HOME": "/root", "R2CC_MODE": "1"}
    env = adapters.r2cc_env(LIBRARY, 3, inherited)
    words = ["train.py", "--deepspeed_config", "ds.json"]
    one = adapters.deepspeed(words, env, inherited, gpus=4)
    assert one.text() == (
        "env LD_LIBRARY_PATH=/opt/r2cc/lib LD_PRELOAD=/opt/r2cc/lib/libnccl.so.2 R2CC_MODE=3 "
        "deepspeed --num_gpus 4 --master_port 29500 train.py --deepspeed_config ds.json"
    )
    assert one.env_file() == ""
    many = adapters.deepspeed(words, env, inherited, hostfile=Path("hosts"), master="10.0.0.1")
    assert many.argv[:5] == ["deepspeed", "--hostfile", "hosts", "--master_addr", "10.0.0.1"]
    assert many.env_file() == (
        "LD_LIBRARY_PATH=/opt/r2cc/lib\nLD_PRELOAD=/opt/r2cc/lib/libnccl.so.2\nNCCL_DEBUG=INFO\nR2CC_MODE=3\n"
    )


def test_names_that_are_options_are_refused() -> None:
    with pytest.raises(UsageError, match="--evil"):
        adapters.vllm_serve("--evil", {}, None)
    with pytest.raises(UsageError, match="no script"):
        adapters.deepspeed([], {}, {})
    with pytest.raises(UsageError, match="R2CC_MODE 4"):
        adapters.r2cc_env(None, 4, {})


def test_dry_runs_of_the_adapters(tmp_path: Path) -> None:
    served = call("vllm", "serve", "m", "--mode", "0", "--tensor-parallel", "2", "--dry-run", "--", "--dtype", "half")
    assert served.stdout == "env R2CC_MODE=0 vllm serve m --tensor-parallel-size 2 --port 8000 --dtype half\n"
    (tmp_path / "hosts").write_text("a slots=4\n")
    words = ["deepspeed", "--mode", "0", "--dry-run", "--hostfile", str(tmp_path / "hosts"), "t.py", "--mode", "9"]
    lines = call(*words).stdout.splitlines()
    assert lines[0].endswith("--master_port 29500 t.py --mode 9")
    assert lines[1:] == ["# on every host, through DS_ENV_FILE:", "R2CC_MODE=0"]


def script(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_the_adapters_run_in_the_foreground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path, "deepspeed", f'cat "$DS_ENV_FILE" > {tmp_path}/told; echo "$@" >> {tmp_path}/told; exit 7')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "hosts").write_text("a slots=4\n")
    result = call("deepspeed", "--mode", "0", "--hostfile", str(tmp_path / "hosts"), "t.py", "-x")
    assert result.return_value == 7
    assert (tmp_path / "told").read_text().splitlines() == [
        "R2CC_MODE=0", f"--hostfile {tmp_path}/hosts --master_port 29500 t.py -x"]  # fmt: skip
    script(tmp_path, "deepspeed", f'echo "$@" > {tmp_path}/told')
    assert call("deepspeed", "--mode", "0", "t.py").return_value == 0
    ports = re.fullmatch(r"--master_port (\d+) t.py\n", (tmp_path / "told").read_text())
    assert ports is not None and 20000 <= int(ports[1]) < 29000  # free on this machine, where all ranks are


def test_a_signal_is_an_exit_code_as_in_a_shell(tmp_path: Path) -> None:
    script(tmp_path, "p", "kill -TERM $$")
    assert run_launch(adapters.Launch([str(tmp_path / "p")], {})) == 128 + signal.SIGTERM
    with pytest.raises(R2ccError, match="cannot start"):
        run_launch(adapters.Launch([str(tmp_path / "nowhere")], {}))


def test_a_variable_of_several_lines_cannot_go_to_other_hosts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="NCCL_X"):
        run_launch(adapters.Launch(["true"], {}, {"NCCL_X": "a\nEVIL=1"}))


def test_help_loads_nothing_heavy() -> None:
    code = "import sys, harness.commands.run; print([m for m in ('pydantic', 'yaml', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert spec.OPS == OPS, "written twice, so that --help need not import it"
