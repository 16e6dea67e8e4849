"""A rank that a launcher started ends at any moment, also while a fault on it is undone: nothing is left to undo."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from waits import until

from chaos.experiment.planned import PlannedFault
from chaos.faults.registry import fault_of, spec_of
from chaos.record.journal import Journal, read
from chaos.run.actors import Actors, PidOn
from chaos.run.injector import Injector
from harness.errors import FaultError
from harness.hosts import LocalHost, Result


class Ending(LocalHost):
    """A host whose process ends before a command of which all these words are part."""

    def __init__(self) -> None:
        super().__init__("h1")
        self.process = subprocess.Popen(["sleep", "60"])
        self.ends_before: tuple[str, ...] = ("never",)

    def run(self, argv: Any, **how: Any) -> Result:
        if set(self.ends_before) <= set(argv):
            self.end()
        return super().run(argv, **how)

    def end(self) -> None:
        """Buried, too: its number is nobody's."""
        self.process.kill()
        self.process.wait()

    def state(self) -> str:
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture
def host() -> Iterator[Ending]:
    made = Ending()
    yield made
    made.end()


def struck(host: Ending, stack: ExitStack, journal: Path) -> Injector:
    spec = spec_of({"id": "f0", "kind": "stop", "rank": 0, "at": {"iteration": 1}, "duration_s": 1.0})
    actors = Actors(None, {"h1": host}, lambda _: PidOn(host, host.process.pid))
    injector = Injector(actors, stack.enter_context(Journal(journal)), stack, lambda message: None)
    injector.arm(PlannedFault(spec, fault_of(spec, [], "h1"), (), "h1"))
    injector.strike("f0", 0)
    assert host.state() == "T"
    return injector


def phases(journal: Path) -> list[str]:
    return [line["phase"] for line in read(journal) if line["event"] == "fault"]


@pytest.mark.parametrize("before", [("kill", "CONT"), ("kill", "0"), ("cat",)], ids=["told", "looked for", "asked"])
def test_a_rank_that_ends_while_it_is_told_to_go_on_is_no_error(
    host: Ending, tmp_path: Path, before: tuple[str, ...]
) -> None:
    with ExitStack() as stack:
        injector = struck(host, stack, tmp_path / "journal")
        host.ends_before = before
        injector.heal("f0")
    assert phases(tmp_path / "journal") == ["armed", "injected", "active", "reverted", "verified"]


def test_a_rank_that_does_not_go_on_is_an_error(host: Ending, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.run.injector.CONFIRM_S", 0.05)
    with ExitStack() as stack, pytest.raises(FaultError, match="not gone"):
        injector = struck(host, stack, tmp_path / "journal")
        monkeypatch.setattr(PidOn, "send_signal", lambda *_: None)
        injector.heal("f0")
    assert phases(tmp_path / "journal")[-1] == "reverted"


def test_a_rank_that_ends_before_it_is_stopped_was_not_stopped(host: Ending, tmp_path: Path) -> None:
    host.ends_before = ("kill", "STOP")
    with ExitStack() as stack, pytest.raises(FaultError, match="f0: "):
        struck(host, stack, tmp_path / "journal")
    assert "active" not in phases(tmp_path / "journal")


def test_it_goes_on(host: Ending, tmp_path: Path) -> None:
    with ExitStack() as stack:
        struck(host, stack, tmp_path / "journal").heal("f0")
        until(lambda: host.state() == "S")
    host.process.send_signal(signal.SIGTERM)
