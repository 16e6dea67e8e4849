"""Options that name what is written: one behaviour, and refused before any work, in a dry run, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from harness.cli import cli, run_cli
from harness.commands.options import OutFile, OutFolder
from harness.files import rundir, writing

ROOT = Path(__file__).parents[2]
SIMULATION = str(ROOT / "experiments/sim/job_30_days.yaml")
EXPERIMENT = str(ROOT / "experiments/nic_down.yaml")
CAMPAIGN = str(ROOT / "experiments/campaigns/two_gpus.yaml")
DRY = {
    "chaos run": ["chaos", "run", EXPERIMENT],
    "chaos campaign": ["chaos", "campaign", CAMPAIGN],
    "sim run": ["sim", "run", SIMULATION],
    "sim sweep": ["sim", "sweep", SIMULATION],
}
READ = {
    "chaos soak --under",
    "ci gate --policy",
    "ci turns --policy",
    "drain --control",
    "drain --status",
    "health --status",
    "job-report --status",
    "metrics --status",
    "runs import --degraded",
    "undrain --control",
}
"""Files and folders that are read; those of --control are a job's."""
FOLDERS_READ = {"chaos soak --resume", "run nccl-tests --bin"}
RECORDED = ROOT / "tests" / "data" / "runs" / "recorded"


def test_a_trace_of_faults_makes_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "runs" / "deep" / "trace.jsonl"
    assert run_cli(["sim", "faults", SIMULATION, "--set", "faults.traces=1", "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    assert json.loads(out.read_text().splitlines()[0])["schema"] == 1
    assert [path.name for path in out.parent.iterdir()] == ["trace.jsonl"]


@pytest.mark.parametrize("where", ["file/trace.jsonl", "x" * 300])
def test_what_cannot_be_written_is_one_error(where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert run_cli(["sim", "faults", SIMULATION, "--out", str(tmp_path / where)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"r2cc: error: cannot write {tmp_path / where}: ")
    assert said.endswith("\n  try: name a place that you may write\n")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def _paths(
    command: click.Command, words: tuple[str, ...] = (), *, folders: bool = False
) -> Iterator[tuple[str, click.Path]]:
    """Every option of the command and those under it that names a file, or what may be one; or a folder alone."""
    context = click.Context(command)
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        if found := command.get_command(context, name):
            yield from _paths(found, (*words, name), folders=folders)
    for option in command.params:
        if isinstance(option, click.Option) and isinstance(option.type, click.Path):
            if option.type.file_okay is folders or option.opts[0] == "--store":
                continue
            yield " ".join((*words, option.opts[0])), option.type


def test_all_files_that_are_written_are_of_one_kind() -> None:
    """Those that are read are there, or are named here."""
    found = {name: kind for name, kind in _paths(cli) if not kind.exists}
    others = {name for name, kind in found.items() if not isinstance(kind, OutFile)}
    assert others == READ
    assert len(found) - len(others) >= 9


def test_folders_are_tried_before_work() -> None:
    """By their type, or by `rundir.check`, as a run directory is made in them."""
    found = {name: kind for name, kind in _paths(cli, folders=True) if not kind.exists}
    others = {name for name, kind in found.items() if not isinstance(kind, OutFolder)}
    assert others == {*(f"{name} --out" for name in (*DRY, "chaos soak")), *FOLDERS_READ}
    assert {*found} - others == {"report --out", "runs export --out"}


@pytest.mark.parametrize("where", ["file", "file/deep"])
@pytest.mark.parametrize("words", [["report"], ["report", "--figures", "pdf"], ["runs", "export"]], ids=" ".join)
def test_a_folder_that_cannot_be_is_told_before_the_run_is_read(
    words: list[str], where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("reports.reading.rundir.load", lambda *_: pytest.fail("the run is read"))
    assert run_cli([*words, str(RECORDED), "--out", str(tmp_path / where)]) == 2
    assert str(tmp_path / "file") in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_run_directory_that_cannot_be_written_is_told_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(folder: Path, _name: str) -> None:
        raise OSError(30, "Read-only file system", str(folder))

    monkeypatch.setattr(writing, "try_file", refused)
    monkeypatch.setattr("reports.reading.rundir.load", lambda *_: pytest.fail("the run is read"))
    assert run_cli(["report", str(RECORDED)]) == 2
    assert f"cannot write {RECORDED}: Read-only file system" in capsys.readouterr().err


def test_a_folder_is_refused_in_the_same_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["metrics", "--textfile", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"r2cc: error: {tmp_path}: it is a folder\n  try: name a file\n"


def test_a_folder_that_another_program_looks_into_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "node_exproter" / "r2cc.prom")
    for path in (tmp_path / "node_exproter" / "r2cc.prom", tmp_path / "link"):
        assert run_cli(["metrics", "--status", str(tmp_path), "--once", "--textfile", str(path)]) == 2
        said = (
            f"invalid value for '--textfile': folder '{tmp_path / 'node_exproter'}' does not exist: it is not made here"
        )
        assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["link"]
    assert run_cli(["metrics", "--status", str(tmp_path), "--once", "--textfile", str(tmp_path / "r2cc.prom")]) == 0
    assert run_cli(["metrics", "--status", str(tmp_path), "--once", "--textfile", "/dev/stdout"]) == 0


def test_what_writes_nothing_tries_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    words = ["results", "render", str(tmp_path / "board.yaml"), "--html", str(tmp_path / "file" / "x.html")]
    for more, said in (([], "cannot write"), (["--check"], "board.yaml")):
        assert run_cli([*words, *more]) == 2
        err = capsys.readouterr().err
        assert said in err and ("cannot write" in err) is not bool(more)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_completion_of_a_line_tries_nothing(tmp_path: Path) -> None:
    context = click.Context(click.Command("x"), resilient_parsing=True)
    assert OutFile().convert(str(tmp_path / "file" / "x"), None, context) == tmp_path / "file" / "x"
    (tmp_path / "file").write_text("")
    OutFile().convert(str(tmp_path / "file" / "x"), None, context)


@pytest.mark.parametrize("words", DRY.values(), ids=DRY)
def test_a_dry_run_refuses_what_the_run_would(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run_cli([*words, "--out", str(tmp_path / "file" / "runs"), "--dry-run"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and f"cannot make the run directory {tmp_path / 'file' / 'runs'}: Not a directory" in said.err
    assert run_cli([*words, "--out", str(tmp_path / "fine" / "runs"), "--dry-run"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("words", DRY.values(), ids=DRY)
def test_a_dry_run_writes_nothing_where_it_looks(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(writing, "try_file", lambda *_: pytest.fail("a dry run writes"))
    monkeypatch.setattr(rundir, "try_file", lambda *_: pytest.fail("a dry run writes"))
    assert run_cli([*words, "--out", str(tmp_path / "runs"), "--dry-run"]) == 0
    monkeypatch.setattr(writing.os, "access", lambda path, _mode: Path(path) != tmp_path)
    assert run_cli([*words, "--out", str(tmp_path / "runs"), "--dry-run"]) == 2
    assert f"cannot make the run directory {tmp_path / 'runs'}: Permission denied" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["chaos run", "sim run"])
def test_a_dry_run_without_out_needs_no_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").symlink_to("nowhere")
    monkeypatch.chdir(tmp_path)
    assert run_cli([*DRY[name], "--dry-run"]) == 0
    assert run_cli([*DRY[name], "--out", "runs/x", "--dry-run"]) == 2
    assert run_cli([*DRY["sim run"], "--quiet"]) == 2, "it is needed"


def test_a_dry_run_of_a_sweep_knows_what_its_folder_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sim", "sweep", SIMULATION, "--out", str(tmp_path), "--dry-run"]
    (tmp_path / "experiment.yaml").write_text("another")
    assert run_cli(words) == 2 and "already holds a simulation" in capsys.readouterr().err
    assert run_cli([*words, "--resume"]) == 2 and "another simulation" in capsys.readouterr().err


def test_a_full_disk_is_seen_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder may still be made on a disk that is full: test_full_disk.py."""

    def full(path: Path, _data: bytes) -> int:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(writing.InfraError, match="no space is left on the disk"):
        rundir.check(tmp_path)
    assert list(tmp_path.iterdir()) == []
