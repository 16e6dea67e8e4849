"""`r2cc runs export`: tables of runs as files that pandas and others read."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from harness.cli import cli, run_cli
from reports.commands.runs import TABLES
from reports.frames import export

RECORDED = Path(__file__).resolve().parents[1] / "data" / "runs" / "recorded"
NAMES = ("20261125T033900Z-link_down", "20261126T033900Z-link_down")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for name in NAMES:
        shutil.copytree(RECORDED, tmp_path / "store" / name)
    return tmp_path / "store"


def exported(*words: object) -> list[str]:
    made = CliRunner().invoke(cli, ["runs", "export", *map(str, words)], catch_exceptions=False)
    assert made.exit_code == 0, made.output
    return made.stdout.splitlines()


def test_all_tables_of_all_runs(store: Path, tmp_path: Path) -> None:
    written = exported("--store", store, "--out", tmp_path / "out")
    assert written == [str(tmp_path / "out" / name / f"{table}.csv") for name in reversed(NAMES) for table in TABLES]
    table = pd.read_csv(tmp_path / "out" / NAMES[0] / "iterations.csv")
    assert table.run.unique().tolist() == [NAMES[0]]
    assert len(table) == 24


def test_a_table_of_a_run_as_parquet(store: Path, tmp_path: Path) -> None:
    words = ("20261125", "--store", store, "--out", tmp_path / "out", "--table", "samples", "--format", "parquet")
    (line,) = exported(*words, "--json")
    (written,) = json.loads(line)["files"]
    table = pd.read_parquet(written)
    assert (table.tx_bytes.dtype, table.time_s.dtype) == ("int64", "float64")
    assert exported(*words) == [written]


def test_a_run_directory_itself(tmp_path: Path) -> None:
    assert exported(RECORDED, "--out", tmp_path, "--table", "faults") == [str(tmp_path / "recorded" / "faults.csv")]


def test_the_tables_of_the_command_are_those_that_there_are() -> None:
    assert tuple(export.TABLES) == TABLES


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing", "--out", "out"], "no run 'nothing'"),
        (["--out", "taken"], "Directory 'taken' is a file"),
    ],
)
def test_bad_input(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    monkeypatch.chdir(store.parent)
    Path("taken").touch()
    assert run_cli(["runs", "export", "--store", "store", *words]) == 2
    assert said in capsys.readouterr().err


def test_without_pyarrow(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    words = ["runs", "export", "--store", str(store), "--format", "parquet", "--out", str(tmp_path / "out")]
    assert run_cli(words) == 2
    assert f"{shlex.quote(sys.executable)} -m pip install 'r2cc[parquet]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
