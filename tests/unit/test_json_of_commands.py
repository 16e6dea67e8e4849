"""JSON of commands that no other cheap test asks for it: each is printed, held against its schema, and looked at."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from json_page import PRINTED

from chaos.commands import panic as panic_cmd
from chaos.commands import run as run_cmd
from chaos.deadman.record import Found
from harness import build as building
from harness import schemas
from harness.build.nccl import NcclBuild
from harness.build.nccl_tests import NcclTestsBuild
from harness.build.net import NetBuild
from harness.cli import run_cli
from harness.errors import InfraError, UsageError
from harness.hosts import Host, LocalHost
from harness.hosts.lease import Holder

ROOT = Path(__file__).parents[2]
LOG = " iteration 10/ 10 | elapsed time per iteration (ms): 512.3 | lm loss: 1.5E+00 |\n"
Printed = Callable[..., Any]


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Printed:
    """What a command prints with --json, which must have been held against a schema that the table gives it."""
    held: list[str] = []
    validate = schemas.validate

    def heard(name: str, value: object) -> None:
        validate(name, value)
        held.append(name)

    monkeypatch.setattr(schemas, "validate", heard)

    def call(command: str, *words: str, code: int = 0) -> Any:
        held.clear()
        capsys.readouterr()
        assert run_cli([*command.split(), *words, "--json"]) == code
        assert held and held[-1] in PRINTED[command]
        return json.loads(capsys.readouterr().out)

    return call


def test_build(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    there = Path("/x")
    for name, found in {
        "build_net": NetBuild(there, there, there, there, there, there, there, "b1", rebuilt=True),
        "build_nccl": NcclBuild(there, "b2", rebuilt=False),
        "build_nccl_tests": NcclTestsBuild(there, ["all_reduce_perf"], "git", "t1", rebuilt=False),
    }.items():
        monkeypatch.setattr(building, name, lambda *_, found=found, **__: found)
    assert printed("build net")["build_id"] == "b1"
    assert printed("build nccl")["rebuilt"] is False
    assert printed("build nccl-tests")["programs"] == ["all_reduce_perf"]


def test_fork(printed: Printed, monkeypatch: pytest.MonkeyPatch, tiny_fork: Any) -> None:
    monkeypatch.setattr("harness.repo.checkout", lambda _version=None: tiny_fork.layout)
    tiny_fork.layout.patches.joinpath("9.9.9").mkdir(parents=True)
    source = ("--source", str(tiny_fork.upstream))
    assert printed("fork status")["fetched"] is False
    assert printed("fork fetch", *source)["fetched"] is True
    assert printed("fork patch")["patched"] is True
    assert printed("fork refresh")["done"] == []


def test_lab(printed: Printed) -> None:
    assert printed("lab down", "--name", "there-is-none") == {"schema": 1, "lab": "there-is-none", "was_up": False}
    assert isinstance(printed("lab status")["labs"], list)


@contextmanager
def _here(_targets: object) -> Iterator[Mapping[str, Host]]:
    yield {"n1": LocalHost("n1")}


def test_deploy(printed: Printed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("harness.hosts.ssh.hosts.ssh_hosts", _here)
    (tmp_path / "cluster.yaml").write_text("schema: 1\nhosts:\n- name: n1\n")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "build.json").write_text('{"build_id": "b1"}')
    at = ("--inventory", str(tmp_path / "cluster.yaml"), "--prefix", str(tmp_path / "prefix"))
    put = (*at, "--build", str(tmp_path / "build"))
    assert printed("deploy", *put, "--dry-run")["hosts"]["n1"]["files"] == 1
    assert printed("deploy", *put)["hosts"]["n1"]["error"] is None
    assert printed("deploy", *at, "--list")["hosts"]["n1"]["current"].startswith("b1-")
    assert printed("deploy", *at, "--rollback", code=UsageError.exit_code)["hosts"]["n1"].keys() == {"error"}


def test_panic(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    from chaos.deadman.panic import Record, Report

    about = {"fault": {"id": "f0", "kind": "link_down"}, "controller": "me@here, pid 1"}
    reports = [
        Report(
            "n1",
            holder=Holder("me", "here", 1, "now", "r2cc"),
            records=[Record(Found("f0-1", "armed", 9.5, "t", about))],
        ),
        Report("n2", error=InfraError("it is not reached")),
    ]
    monkeypatch.setattr(panic_cmd, "_open", lambda *_: _here(None))
    monkeypatch.setattr("chaos.deadman.panic.panic", lambda *_, **__: reports)
    found = printed("panic", "--inventory", "local", "--dry-run", code=1)
    assert [host["error"] for host in found["hosts"]] == [None, "it is not reached"]
    assert found["hosts"][0]["records"][0]["fault"]["kind"] == "link_down"


def test_a_folder_of_experiments(printed: Printed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text((ROOT / "docs" / "examples" / "experiment.yaml").read_text())
    summary = SimpleNamespace(verdict="void", exit_code=3, reasons=["the machine was busy"])
    monkeypatch.setattr(run_cmd, "run_one", lambda *_, **__: (summary, "runs/x"))
    (one,) = printed("chaos run", str(tmp_path), code=3)["experiments"]
    assert (one["verdict"], one["directory"]) == ("void", "runs/x")


def test_the_store(printed: Printed, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG)
    at = ("--store", str(tmp_path / "runs"))
    (run,) = printed("runs import", str(tmp_path / "a.log"), "--name", "gpt", *at)["runs"]
    assert printed("runs tag", run, "kept", *at)["run"]["tags"] == ["kept"]
    assert printed("ci baseline record", run, *at)["runs"] == [run]
    assert printed("runs tag", run, "kept", "baseline/main", "--remove", *at)["run"]["tags"] == []
    assert printed("runs prune", "--keep", "0", "--yes", *at)["runs"] == [run]


def test_serve(printed: Printed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Ended:
        def wait(self) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr("reports.commands.serve.threading", type("Threading", (), {"Event": Ended}))
    assert printed("serve", "--store", str(tmp_path), "--port", "0", code=130)["address"].startswith("http://127.")
