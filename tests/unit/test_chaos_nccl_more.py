"""`--nccl` of `r2cc chaos campaign` and `r2cc chaos soak`: what runs, what is refused, and that cells run again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from campaign_double import prepare
from click.testing import CliRunner, Result
from test_chaos_nccl import OTHER, build, checkout

import r2cc
from chaos.campaign.load import load
from chaos.campaign.state import resume
from chaos.commands import soak as soak_command
from chaos.commands.chaos import chaos
from chaos.soak.judge import Failure
from chaos.testbed import hostbench
from harness import repo
from harness.errors import UsageError

__all__ = ["checkout"]
WORDS = ("campaign", "c.yaml", "--out", "runs/two")


def call(*words: str) -> Result:
    return CliRunner().invoke(chaos, words, standalone_mode=False)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What cells were run with; each fails at once."""
    found: list[Any] = []

    def run_one(*_what: object, **how: Any) -> None:
        found.append(how["nccl"])
        raise UsageError("none is run here")

    monkeypatch.setattr("chaos.commands.one_run.run_one", run_one)
    return found


def test_every_cell_runs_with_it(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: list[Any]
) -> None:
    build(checkout, f"net-{OTHER}")
    prepare(tmp_path, monkeypatch)
    call(*WORDS, "--nccl", OTHER)
    call(*WORDS)
    assert ran == [OTHER, OTHER, None, None]


def test_python_runs_with_it(ran: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path, monkeypatch)
    with pytest.raises(UsageError, match="none is run here"):
        r2cc.run("e.yaml", nccl=OTHER)
    assert ran == [OTHER]


@pytest.mark.parametrize("more", [["--dry-run"], []], ids=["dry", "real"])
def test_a_campaign_of_what_is_not_built_is_refused_before_it_begins(
    more: list[str], checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: list[Any]
) -> None:
    prepare(tmp_path, monkeypatch)
    result = call(*WORDS, "--nccl", OTHER, *more)
    assert isinstance(result.exception, UsageError) and result.exception.hint == f"r2cc build net --nccl {OTHER}"
    assert ran == [] and not (tmp_path / "runs").exists()


def test_a_cell_that_is_done_is_run_again_for_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path, monkeypatch)
    made = {version: load(Path("c.yaml"), nccl=version).cells[0] for version in (None, repo.DEFAULT_NCCL, OTHER)}
    prints = [cell.fingerprint for cell in made.values()]
    assert prints[0] == prints[1] != prints[2]
    state = resume(tmp_path / "out", load(Path("c.yaml")))
    (tmp_path / "out" / "cells").mkdir(parents=True)
    (tmp_path / "out" / "cells" / "summary.json").touch()
    state.change("first", state="done", directory="cells")
    for version, known in ((None, "done"), (OTHER, "pending")):
        assert resume(tmp_path / "out", load(Path("c.yaml"), nccl=version)).cells["first"].state == known


def asked(version: str | None) -> soak_command.Asked:
    return SimpleNamespace(version=version, python=None, share_gpus=False)  # type: ignore[return-value]


def test_a_soak_runs_with_it(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(checkout, f"net-{OTHER}")
    monkeypatch.setattr(hostbench, "built", lambda *, quiet, layout: (layout, {}))
    layout, _ = soak_command._bench(None, asked(OTHER), quiet=True)
    assert isinstance(layout, repo.Layout) and layout.net == checkout / "build" / f"net-{OTHER}"
    assert soak_command._bench(None, asked(None), quiet=True)[0] is None


def test_a_soak_of_what_is_not_built_is_refused_before_it_begins(checkout: Path, tmp_path: Path) -> None:
    result = call("soak", "--nccl", OTHER, "--out", str(tmp_path / "runs"))
    assert isinstance(result.exception, UsageError) and result.exception.hint == f"r2cc build net --nccl {OTHER}"
    assert not (tmp_path / "runs").exists()


def test_a_failure_is_replayed_with_the_same_version() -> None:
    failure = Failure(round=1, why="a byte is wrong", faults=3, replay="runs/x/replay.yaml", replay_faults=1)
    figures = dict.fromkeys(("faults", "rounds", "missed", "iterations", "bytes_checked", "seed"), 1)
    figures |= {"connections_failed_over": 0, "connections_failed_back": 0}
    report: Any = SimpleNamespace(outcome="failed", net="socket", failure=failure, **figures)
    assert soak_command._words(report, "lab", OTHER).endswith(f"r2cc chaos run runs/x/replay.yaml --nccl {OTHER}")
    assert soak_command._words(report, "lab").endswith("r2cc chaos run runs/x/replay.yaml")
