"""Workloads on GPUs: what is asked for, what would run where, and what is said where it cannot."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from chaos_double import ScriptedBench
from click.testing import CliRunner

from chaos.commands.chaos import chaos
from chaos.experiment.file import load, loads
from harness.errors import InfraError, InputErrors, UsageError
from harness.facts import local_gpus as gpu
from harness.workloads import rank
from harness.workloads.kinds.registry import kinds

ROOT = Path(__file__).parents[2]
TEXT = """
name: x
topology: {hosts: 2, nics: 2, gpus: %(gpus)d}
workload: {%(workload)s}
faults:
  - {id: f, kind: stop, rank: %(rank)d, at: {iteration: 1}, duration_s: 1.0}
arms: {%(arm)s: {expect: any}}
"""


def text(gpus: int = 1, workload: str = "kind: ddp", rank: int = 0, arm: str = "balance") -> str:
    return TEXT % {"gpus": gpus, "workload": workload, "rank": rank, "arm": arm}


def errors_of(text: str) -> str:
    with pytest.raises(InputErrors) as caught:
        loads(text, Path("x.yaml"))
    return "\n".join(caught.value.errors)


def dry_run(file: Path, *words: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(chaos, ["run", str(file), "--dry-run", "--json", *words], standalone_mode=False)
    assert result.exception is None, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)["runs"]
    return found


def test_every_kind_has_a_rank_program() -> None:
    assert set(rank.KINDS) == {name for name, kind in kinds().items() if kind.on_gpus}


def test_settings_of_a_kind_are_what_its_ranks_are_given() -> None:
    workload = loads(text(workload="kind: graphs, count: 3, iterations: 9"), Path("x.yaml")).workload
    assert workload.spec() == {"bytes": 4 << 20, "count": 3, "replays": 1, "recapture_every": 0}  # type: ignore[union-attr]


def test_what_a_workload_does_not_know_is_said_with_its_line() -> None:
    assert "x.yaml:4: workload.batchs: unknown key" in errors_of(text(workload="kind: ddp, batchs: 3"))
    assert "x.yaml:4: workload.kind: " in errors_of(text(workload="kind: dance"))
    assert "x.yaml:4: workload.hidden: " in errors_of(text(workload="kind: ddp, hidden: -1"))


def test_faults_on_ranks_know_how_many_there_are() -> None:
    assert loads(text(gpus=2, rank=3), Path("x.yaml")).faults[0].rank == 3
    assert "there is no rank 4: the topology has 2 hosts with 2 ranks each" in errors_of(text(gpus=2, rank=4))
    assert "there is no rank 3" in errors_of(text(gpus=2, rank=3, workload="iterations: 9"))  # the bench has no GPUs


def test_only_jobs_can_start_again() -> None:
    assert "x.yaml:7: arms.restart: the host bench is no job" in errors_of(
        text(workload="iterations: 9", arm="restart")
    )


def test_guests_have_no_gpus(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text())
    result = CliRunner().invoke(chaos, ["run", str(file), "--dry-run", "--inventory", "vm:2x2"], standalone_mode=False)
    assert isinstance(result.exception, UsageError)
    assert "have no GPUs" in str(result.exception)


def test_one_rank_a_gpu_in_the_hosts_order(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text(gpus=2, rank=3))
    (step,) = dry_run(file, "--python", "/opt/python")
    ranks = [each for each in step["start"] if each["name"].startswith("rank")]
    assert [(each["host"], each["name"]) for each in ranks] == [
        ("h0", "rank0"), ("h0", "rank1"), ("h1", "rank2"), ("h1", "rank3"),
    ]  # fmt: skip
    for number, each in enumerate(ranks):
        argv, env = each["argv"], each["env"]
        assert argv[argv.index("--gpu") + 1] == str(number)
        assert argv[argv.index("--per-host") + 1] == "2"
        assert (env["NCCL_HOSTID"], env["R2CC_MODE"]) == (f"lab-{each['host']}", "2")
        assert env["LD_PRELOAD"].endswith("build/nccl/lib/libnccl.so.2")
        assert env["R2CC_EVENT_FILE"] == "/proc/self/fd/1"
        words = argv[argv.index("/opt/python") :]
        assert words[1].endswith("harness/workloads/rank.py") and words[2] == "ddp"
        assert json.loads(argv[argv.index("--spec") + 1])["batch"] == 4
    assert step["faults"][0]["host"] == "h1"


def test_only_the_arm_restart_has_supervisors() -> None:
    steps = {step["arm"]: step for step in dry_run(ROOT / "experiments" / "gpu" / "restart.yaml")}
    said = {
        arm: {each["env"].get("R2CC_RESTART_AFTER_S") for each in step["start"] if each["name"].startswith("rank")}
        for arm, step in steps.items()
    }
    assert said["restart"] == {"4"}
    assert {arm for arm, values in said.items() if values == {None}} == set(said) - {"restart"}


@pytest.mark.parametrize("path", sorted((ROOT / "experiments" / "gpu").glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_experiments_expect_something_of_r2cc(path: Path) -> None:
    experiment = load(path)
    assert experiment.workload.kind != "bench"
    assert experiment.arms["balance"].expect == "holds"
    loses_a_rank = any(getattr(fault, "allow_total_loss", False) for fault in experiment.faults)
    assert experiment.hypothesis.exact
    assert experiment.hypothesis.completes != loses_a_rank
    assert experiment.hypothesis.completes or experiment.hypothesis.error_mentions


# ---- GPUs and the Python that has torch ---------------------------------------------------------------------------


def program(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def python_with(folder: Path, gpus: list[str]) -> str:
    told = json.dumps({"torch": "2.11.0", "cuda": "13.0", "torch_nccl": "2.28.9", "gpus": gpus})
    return program(folder / "python", f"#!/bin/sh\necho 'a warning'\necho '{told}'\n")


def test_a_python_with_torch_tells_of_its_gpus(tmp_path: Path) -> None:
    found = gpu.probe(python_with(tmp_path, ["H100", "H100"]))
    assert (found.gpus, found.torch) == (["H100", "H100"], "2.11.0")
    assert gpu.enough(found, 2, share=False) == 2
    assert gpu.enough(found, 4, share=True) == 2
    with pytest.raises(InfraError, match="4 GPUs are needed, and torch sees 2 here") as caught:
        gpu.enough(found, 4, share=False)
    assert caught.value.hint == "let ranks share them: --share-gpus"


@pytest.mark.parametrize(
    "text", ["#!/bin/sh\necho \"No module named 'torch'\" >&2; exit 1\n", "#!/bin/sh\necho hello\n", "#!/bin/sh\n"]
)
def test_a_python_without_torch_is_the_users_mistake(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="need a Python with torch") as caught:
        gpu.probe(program(tmp_path / "python", text))
    assert "--python" in str(caught.value)


def test_no_gpus_is_no_fault_of_r2cc(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match="torch sees 0 here") as caught:
        gpu.enough(gpu.probe(python_with(tmp_path, [])), 2, share=True)
    assert caught.value.exit_code == 3


def test_sharing_starts_a_daemon_of_our_own_and_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    program(tmp_path / gpu.MPS, f'#!/bin/sh\necho "$* $(cat)" >> {log}\ntest -d "$CUDA_MPS_PIPE_DIRECTORY"\n')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with gpu.shared(enabled=True) as env:
        folder = Path(env["CUDA_MPS_PIPE_DIRECTORY"])
        assert folder.is_dir() and log.read_text() == "-d \n"
    assert log.read_text().splitlines()[1:] == [" quit"]
    assert not folder.exists()
    with gpu.shared(enabled=False) as env:
        assert env == {}
    assert len(log.read_text().splitlines()) == 2


def test_sharing_that_cannot_be_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfraError, match="MPS refused a command"), gpu.shared(enabled=True):
        pass


def test_a_machine_without_gpus_says_so_before_anything_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.testbed.workbench.built", lambda quiet, layout: (ScriptedBench(), {"build_id": "b"}))
    monkeypatch.setattr("chaos.testbed.gpubench.built_library", lambda layout: (tmp_path / "lib", {"build_id": "n"}))
    file = str(ROOT / "experiments" / "gpu" / "link_down.yaml")
    words = ["run", file, "--python", python_with(tmp_path, []), "--out", str(tmp_path / "runs")]
    result = CliRunner().invoke(chaos, words, standalone_mode=False)
    assert isinstance(result.exception, InfraError)
    assert "2 GPUs are needed, and torch sees 0 here" in str(result.exception)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("mine", "cards", "named"),
    [(None, [0, 1], "0,1"), ("", [1], "1"), ("2,3", [0, 1], "2,3"), (" GPU-b, GPU-a", [1], "GPU-a")],
)
def test_ranks_use_only_the_gpus_that_were_given_to_us(
    monkeypatch: pytest.MonkeyPatch, mine: str | None, cards: list[int], named: str
) -> None:
    """A scheduler gives a job some of a machine's GPUs by CUDA_VISIBLE_DEVICES."""
    if mine is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mine)
    assert gpu.visible(cards) == named
