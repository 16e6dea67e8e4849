"""`r2cc drain` and `undrain`: the file that jobs watch, and what is refused."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harness.commands.drain import drain, undrain
from harness.schemas import problems
from tests.unit.watch_files import nic, status, write


def call(command: Any, *args: str) -> Result:
    return CliRunner().invoke(command, list(args), standalone_mode=False)


def said(result: Result) -> str:
    return str(result.exception)


def test_a_drain_is_a_file_that_only_its_owner_can_change(tmp_path: Path) -> None:
    control = tmp_path / "control"
    done = call(drain, "h1:eth2", "--control", str(control), "--for", "60")
    assert done.return_value == 0
    assert f"{control} was not there, and was made" in done.stderr, (
        "a name that is wrong must not pass for one that jobs watch"
    )
    assert "was made" not in call(drain, "h1:eth2", "--control", str(control), "--for", "60").stderr
    (file,) = control.iterdir()
    assert file.name == "drain-h1-eth2.json"
    assert file.stat().st_mode & 0o777 == 0o644
    value = json.loads(file.read_text())
    assert problems("drain", value) == []
    assert (value["host"], value["nic"]) == ("h1", "eth2")
    assert call(undrain, "h1:eth2", "--control", str(control)).return_value == 0
    assert list(control.iterdir()) == []


def test_it_waits_until_every_process_has_left_the_nic(tmp_path: Path) -> None:
    write(tmp_path, status(nic("eth0"), nic("eth2", "draining", connections_here=0)))
    done = call(drain, "h1:eth2", "--control", str(tmp_path / "c"), "--status", str(tmp_path))
    assert done.return_value == 0
    assert "h1:eth2 carries nothing any more" in done.stdout


@pytest.mark.parametrize("others", [False, True])
def test_a_host_of_which_nobody_reports_is_not_said_to_have_left(tmp_path: Path, others: bool) -> None:
    if others:
        write(tmp_path, status(nic("eth0"), nic("eth2")))
    words = ["n7:eth2", "--control", str(tmp_path / "a b"), "--status", str(tmp_path)]
    done = call(drain, *words)
    assert done.return_value == 0
    assert "carries nothing" not in done.stdout
    assert f"No process of n7 reports in {tmp_path} (of hosts there: {'h1' if others else 'none'})" in done.stdout
    assert json.loads(call(drain, *words, "--json").stdout)["connections_left"] is None


def test_the_way_back_can_be_typed_as_it_stands(tmp_path: Path) -> None:
    write(tmp_path, status(nic("eth0"), nic("eth2", "draining", connections_here=0)))
    said = call(drain, "h1:eth2", "--control", str(tmp_path / "a b"), "--status", str(tmp_path)).stdout
    words = shlex.split(said.partition("When it is back: r2cc undrain ")[2])
    assert call(undrain, *words).return_value == 0


@pytest.mark.parametrize("state", ["up", "draining"])
def test_what_stays_is_said(tmp_path: Path, state: str) -> None:
    write(tmp_path, status(nic("eth0"), nic("eth2", state, connections_here=3)))
    done = call(drain, "h1:eth2", "--control", str(tmp_path / "c"), "--status", str(tmp_path), "--wait", "0.3")
    assert getattr(done.exception, "exit_code", None) == 1
    assert "h1:eth2 still carries something after 0.3 s (3 connections)" in said(done)


def test_the_last_nic_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    write(tmp_path, status(nic("eth0", "down"), nic("eth2")))
    done = call(drain, "h1:eth2", "--control", str(tmp_path / "c"), "--status", str(tmp_path))
    assert getattr(done.exception, "exit_code", None) == 1
    assert "h1:eth2 is the last NIC of process 7 that works" in said(done)
    assert not (tmp_path / "c").exists()


def test_a_nic_that_no_process_has_is_bad_usage(tmp_path: Path) -> None:
    write(tmp_path, status(nic("eth0"), nic("eth1")))
    done = call(drain, "h1:eth7", "--control", str(tmp_path / "c"), "--status", str(tmp_path))
    assert "has no NIC eth7" in said(done)
    assert "it has eth0, eth1" in said(done)


@pytest.mark.parametrize("place", ["eth2", "h1:", ":eth2", "h1:../x", "h1/..:eth2", "h1:eth 2"])
def test_what_is_no_place_is_bad_usage(tmp_path: Path, place: str) -> None:
    done = call(drain, place, "--control", str(tmp_path))
    assert getattr(done.exception, "exit_code", None) == 2
    assert "is no HOST:NIC" in said(done)
    assert list(tmp_path.iterdir()) == []


def test_undrain_of_what_is_not_drained_names_what_is(tmp_path: Path) -> None:
    call(drain, "h1:eth2", "--control", str(tmp_path))
    done = call(undrain, "h1:eth3", "--control", str(tmp_path))
    assert "h1:eth3 is not drained" in said(done)
    assert "drained here: h1:eth2" in said(done)


def test_no_folder_is_bad_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("R2CC_CONTROL_DIR", raising=False)
    done = call(drain, "h1:eth2")
    assert "no folder is named: --control DIR, or R2CC_CONTROL_DIR" in said(done)
