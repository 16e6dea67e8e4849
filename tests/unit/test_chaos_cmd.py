"""`r2cc chaos`: what a user types and sees. Nothing is started but click itself, unless a test says so."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from chaos_double import EXPERIMENT, ScriptedBench, Switch, bed
from click.testing import CliRunner, Result
from rich.console import Console

from chaos.commands.chaos import chaos
from chaos.commands.faults import _nics, _table
from chaos.faults.catalogue import catalogue
from chaos.faults.needs import Able
from chaos.faults.registry import kinds
from chaos.faults.support import Support
from harness.cli import run_cli
from harness.errors import InputErrors, R2ccError, UsageError
from harness.repo import checkout

ROOT = Path(__file__).resolve().parents[2]
NIC_DOWN = str(ROOT / "experiments" / "nic_down.yaml")


def call(*arguments: str) -> Result:
    return CliRunner().invoke(chaos, list(arguments), standalone_mode=False)


def error_of(*arguments: str) -> R2ccError:
    result = call(*arguments)
    assert isinstance(result.exception, R2ccError), result
    assert result.stdout == ""
    return result.exception


@pytest.fixture(autouse=True)
def _no_nccl_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the machine that runs the tests would show in golden command lines."""
    for name in list(os.environ):
        if name.startswith("NCCL_"):
            monkeypatch.delenv(name)


def test_dry_run_prints_the_exact_commands_in_order() -> None:
    result = call("run", NIC_DOWN, "--dry-run", "--arms", "migrate", "--repeats", "1")
    folder = checkout().net
    sampler, bench, library = (
        shlex.quote(f"{folder}/{name}") for name in ("r2cc_sampler", "r2cc_bench", "libr2cc_net.so")
    )
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert lines[0] == "nic_down: would run 1 time(s); nothing was started"
    assert lines.pop(1).startswith("sizes are those at 1 Gbit/s a NIC")
    assert lines[3] == f"h0       $ {sampler} --interval-ms 10 --nics eth0,eth1,eth2,eth3 --cpu"
    assert lines[8] == (
        "h1       $ NCCL_DEBUG=WARN NCCL_SOCKET_IFNAME=eth R2CC_EVENT_FILE=/proc/self/fd/1 R2CC_MODE=1 "
        f"R2CC_SIDE_IFNAME=mgmt0 R2CC_TOPO_FILE='<folder of the lab>/places.json' {bench} "
        "--rank 1 --ranks 4 --root 10.250.0.1:29500 --op allreduce --bytes 67108864 "
        "--iterations 22 --warmup 2 --channels 4 --connections-per-peer 1 --chunk-bytes 131072 --slots 8 --seed 1 "
        f"--net socket --timeout-s 120 --library {library}"
    )
    assert lines[11:] == [
        "fault cable: link_down on h1 eth2, 50% into iteration 8",
        "from 0 s to 2.5 s:",
        "switch   $ ip link set dev h1-eth2 down",
        "switch   $ ip -j link show dev h1-eth2",
        "switch   $ ip link set dev h1-eth2 up",
        "switch   $ ip -j link show dev h1-eth2",
    ]


def test_settings_of_the_callers_shell_are_kept_from_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_BUFFSIZE", "1")
    monkeypatch.setenv("R2CC_MODE", "3")
    words = ("--dry-run", "--json", "--arms", "stock", "--repeats", "1")
    (step,) = json.loads(call("run", NIC_DOWN, *words).stdout)["runs"]
    rank = step["start"][-1]
    assert rank["argv"][:3] == ["env", "-u", "NCCL_BUFFSIZE"]
    assert rank["env"]["R2CC_MODE"] == "0"


def test_settings_go_into_the_experiment_before_it_is_checked() -> None:
    words = ("--dry-run", "--arm", "migrate", "--set", "workload.bytes=1MiB", "--set", "repeats=1")
    assert "--bytes 1048576" in call("run", NIC_DOWN, *words).stdout
    wrong = error_of("run", NIC_DOWN, "--dry-run", "--set", "workload.bytes=none")
    assert "workload.bytes" in wrong.message
    nowhere = error_of("run", NIC_DOWN, "--dry-run", "--set", "repeats.more=1")
    assert "--set repeats.more" in nowhere.message


def test_dry_run_as_json_shows_modes_repeats_and_order() -> None:
    steps = json.loads(call("run", NIC_DOWN, "--dry-run", "--json", "--repeats", "2", "--seed", "7").stdout)["runs"]
    assert [(step["arm"], step["run"], step["mode"]) for step in steps] == [
        ("stock", 0, 0), ("migrate", 0, 1), ("stock", 1, 0), ("migrate", 1, 1)]  # fmt: skip
    rank = steps[0]["start"][-1]
    assert rank["argv"][rank["argv"].index("--seed") + 1] == "7"
    assert steps[0]["faults"][0]["inject"] == [{"on": "switch", "command": "ip link set dev h1-eth2 down"}]


def test_dry_run_needs_neither_a_build_nor_a_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a dry run started something")

    monkeypatch.setattr("subprocess.Popen.__init__", forbidden)
    assert call("run", NIC_DOWN, "--dry-run").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["nowhere.yaml"], "cannot read the experiment nowhere.yaml", "a checkout has some in experiments/"),
        ([NIC_DOWN, "--arms", "nope"], "--arms: nic_down has no arm 'nope'", "it has stock, migrate"),
        ([NIC_DOWN, "--arms", ","], "--arms: nic_down has no arm ','", "it has stock, migrate"),
        (
            [NIC_DOWN, "--inventory", "lab:small", "--dry-run"],
            "fault cable: this testbed has no NIC eth2 on host h1",
            "topology",
        ),
        ([NIC_DOWN, "--inventory", "lab:small"], "fault cable: this testbed has no NIC eth2 on host h1", "topology"),
        ([NIC_DOWN, "--inventory", "cluster.yaml", "--dry-run"], "no inventory", "lab"),
    ],
)
def test_bad_usage_starts_nothing(arguments: Sequence[str], message: str, hint: str, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    error = error_of("run", *arguments, "--out", str(out))
    assert isinstance(error, UsageError)
    assert message in error.message
    assert hint in str(error.hint)
    assert not out.exists()


def test_a_bad_file_lists_everything_and_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("name: x\ntopology: {hosts: 2, nics: 1, rate_gbit: 0}\nworkload: {op: dance}\narms: {}\n")
    assert run_cli(["chaos", "run", str(path), "--out", str(tmp_path / "runs")]) == 2
    shown = capsys.readouterr()
    for part in (f"{path}:2: rate_gbit", f"{path}:3: workload.op", f"{path}:4: arms"):
        assert part in shown.err
    assert not (tmp_path / "runs").exists()


def test_validate_reports_good_files_and_all_errors_of_bad_ones(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text("name: 1\n")
    result = call(
        "validate", NIC_DOWN, str(tmp_path / "one.yaml"), str(tmp_path / "two.yaml"), str(tmp_path / "no.yaml")
    )
    assert isinstance(result.exception, InputErrors)
    assert f"{NIC_DOWN}: ok (nic_down: 1 fault(s), arms stock, migrate)" in result.stdout
    text = str(result.exception)
    assert all(f"{name}.yaml:1: name: " in text for name in ("one", "two"))
    assert "no.yaml" in text


def test_faults_lists_every_kind_and_whether_this_machine_can() -> None:
    entries = json.loads(call("faults", "--json").stdout)["faults"]
    assert [entry["kind"] for entry in entries] == list(kinds())
    here = {entry["kind"]: entry["hosts"]["localhost"] for entry in entries}
    assert here["stop"] == {"supported": True, "why": [], "notes": []}
    assert here["controller_lost"]["why"] == ["it is not reached over SSH"]
    shown = call("faults").stdout
    assert "localhost" in shown
    assert "side_channel_lost" in shown
    assert shown.rstrip().endswith("the lab needs no root: r2cc chaos faults --inventory lab")


def test_faults_of_hosts_that_cannot_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No table that says nothing of them, and each name once."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        (tmp_path / "gone.yaml").write_text(f"hosts:\n  - name: node1\n    address: 127.0.0.1\n    port: {port}\n")
        assert run_cli(["chaos", "faults", "--inventory", str(tmp_path / "gone.yaml")]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("node1: cannot reach ") and said.err.count("node1") == 1
    assert said.err.splitlines()[-1].startswith("no host could be asked; ")


def test_faults_begin_with_what_drives_the_nics_where_that_says_something() -> None:
    virtual = Able(frozenset(), frozenset(), 0, 0)
    real = replace(virtual, nics=dict.fromkeys(("eth0", "eth1"), ("mlx5_core", "1", "/sys/x")), rdma=("mlx5_0",))
    assert _nics({"h0": virtual, "h1": virtual}) == []
    assert _nics({"n1": real, "n2": real, "n3": virtual}) == [
        "NICs of n[1-2]: mlx5_core x 2; RDMA: mlx5_0",
        "NICs of n3: virtual ones alone",
    ]


def test_the_table_of_faults_can_be_read_on_80_columns() -> None:
    """Hosts that are alike share a column, and no name of a fault is cut off."""
    can, cannot = Support(True, (), ()), Support(False, ("it has no RDMA device",), ())
    hosts = ["h0", "h1", "h2", "h3"]
    support = {kind: {host: cannot if host == "h3" else can for host in hosts} for kind in kinds()}
    made = _table(catalogue(), hosts, support, inside=True)
    assert [column.header for column in made.columns] == ["fault", "what it does", "h[0-2]", "h3"]
    out = StringIO()
    Console(file=out, width=80).print(made)
    assert [line.split()[0] for line in out.getvalue().splitlines()[1:] if line[0] != " "] == list(kinds())


def test_faults_shows_commands_and_asks_nobody() -> None:
    shown = call("faults", "--commands").stdout
    assert "inject ip link set dev h1-eth2 down" in shown
    assert "inject ip -batch - <<< 'link set dev eth2 down'" in shown
    assert "sh SCRIPT" in shown


@pytest.mark.parametrize("words", [("--host", "n1"), ("--inventory", "lab:nowhere")])
def test_faults_of_a_host_that_there_is_not(words: tuple[str, ...]) -> None:
    assert isinstance(call("faults", *words).exception, UsageError)


def test_help_has_examples_and_loads_nothing_heavy() -> None:
    assert "r2cc chaos run experiments/nic_down.yaml" in call("run", "--help").stdout
    code = (
        "import sys, chaos.commands.chaos; "
        "print([m for m in ('pydantic', 'yaml', 'rich', 'pyroute2') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """`r2cc chaos run` with the scripted workload and this machine as its bed; what reporters were called with."""
    called: list[Any] = []
    monkeypatch.setattr("chaos.testbed.beds.open_bed", lambda site, experiment: bed(Switch()))
    monkeypatch.setattr("chaos.testbed.workbench.built", lambda quiet, layout: (ScriptedBench(), {"build_id": "b"}))
    monkeypatch.setattr("harness.plugins.after_run", lambda path, quiet: called.append((path, quiet)))
    values = {"iterations": 8, "kind": "link_down", "times": "duration_s: 0.1", "repeats": 1}
    text = EXPERIMENT % {**values, "arms": "{stock: {expect: any}, migrate: {expect: holds}}"}
    (tmp_path / "e.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return called


def test_a_run_ends_with_its_directory_after_the_reports(scripted: list[Any]) -> None:
    result = call("run", "e.yaml", "--void-ok")
    assert result.return_value == 0
    last = result.stdout.splitlines()[-1]
    assert Path(last).parent == Path("runs")
    assert scripted == [(Path(last), False)]
    assert re.search(r"verdict: (holds|void) \(exit code 0\)", result.stdout), "void on a busy machine"
    assert "iteration   7" in result.stdout


def test_json_is_the_summary_alone_on_stdout(scripted: list[Any], tmp_path: Path) -> None:
    result = call("run", "e.yaml", "--json", "--arms", "migrate", "--out", str(tmp_path / "elsewhere"))
    summary = json.loads(result.stdout)
    assert [arm["name"] for arm in summary["arms"]] == ["migrate"]
    (made,) = (tmp_path / "elsewhere").iterdir()
    assert json.loads((made / "summary.json").read_text()) == summary
    assert "iteration   7" in result.stderr
    assert scripted == [(made, True)]


def test_why_an_experiment_failed_is_said(scripted: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(path.read_text().replace("at: {iteration: 4, fraction: 0.5}", "at: {time_s: 60}"))
    result = call("run", "e.yaml", "--arms", "migrate")
    assert result.return_value == 3
    assert "the fault f0 missed: the workload ended before it could strike" in result.stdout


def test_quiet_says_only_where(scripted: list[Any]) -> None:
    result = call("run", "e.yaml", "--quiet", "--arms", "migrate")
    assert len(result.stdout.splitlines()) == 1


def test_the_directory_is_named_even_when_a_report_fails(scripted: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path, quiet: bool) -> None:
        raise UsageError("no report")

    monkeypatch.setattr("harness.plugins.after_run", broken)
    result = call("run", "e.yaml", "--arms", "migrate")
    assert isinstance(result.exception, UsageError)
    assert Path(result.stdout.splitlines()[-1]).is_dir()


def test_quiet_says_why_it_was_not_as_expected(scripted: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(path.read_text().replace("at: {iteration: 4, fraction: 0.5}", "at: {time_s: 60}"))
    result = call("run", "e.yaml", "--quiet", "--arms", "migrate")
    assert result.return_value == 3
    assert len(result.stdout.splitlines()) == 1
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("r2cc: failed: ")]
    assert "the fault f0 missed: the workload ended before it could strike" in line


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_launcher_needs_hosts_of_a_file(scripted: list[Any], more: list[str]) -> None:
    result = call("run", "e.yaml", "--launcher", "torchrun", *more)
    assert isinstance(result.exception, UsageError), result
    assert str(result.exception).startswith(
        "--launcher torchrun is for hosts over SSH: ranks on 'lab' are started directly"
    )
    assert not Path("runs").exists()
