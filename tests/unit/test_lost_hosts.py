"""One of several hosts is lost while things are ended: nothing of the others runs on, and the loss is told."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from chaos.faults.steps import Start
from chaos.run.actors import Actors
from harness.errors import SshError
from harness.hosts import LocalHost
from harness.hosts.base import Redirect
from harness.hosts.local import LocalProcess
from harness.launch.processes import Processes
from harness.launch.processes import Start as RankStart
from harness.launch.streams import Whole

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]


class LostProcess:
    """A real process on a host to which the connection has broken: no signal reaches it."""

    def __init__(self, real: LocalProcess) -> None:
        self.real = real
        self.pid, self.stdout = real.pid, real.stdout

    def poll(self) -> int | None:
        return self.real.poll()

    def wait(self, timeout_s: float | None = None) -> int:
        return self.real.wait(0.05 if timeout_s is None else min(timeout_s, 0.05))

    def send_signal(self, signum: int) -> None:
        raise SshError("lost", "beta: the connection was lost", "r2cc hosts check")

    def terminate(self) -> None:
        self.send_signal(15)

    def kill(self) -> None:
        self.send_signal(9)

    def stderr_tail(self, lines: int = 8) -> str:
        return self.real.stderr_tail(lines)

    def close(self) -> None:
        self.send_signal(9)


class LostHost(LocalHost):
    def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdout: Redirect = None,
        stderr: Redirect = None,
        stdin: Redirect = None,
    ) -> LocalProcess:
        real = super().spawn(argv, env=env, stdout=stdout, stderr=stderr, stdin=stdin)
        return LostProcess(real)  # type: ignore[return-value]


def ended(process: object) -> None:
    """In truth."""
    assert isinstance(process, LostProcess)
    process.real.close()


HOSTS = (LostHost("beta"), LocalHost("alpha"), LocalHost("gamma"))


def test_the_loss_of_a_host_is_raised_when_all_others_have_ended(tmp_path: Path) -> None:
    processes = Processes()
    processes.start([RankStart(host.name, host, SLEEP, {}, Whole(), stderr=tmp_path / host.name) for host in HOSTS])
    try:
        for _ in HOSTS:
            processes.lines.get(30)
        with pytest.raises(SshError, match="beta: the connection was lost"):
            processes.stop()
        assert [each.process.poll() is None for each in processes.running] == [True, False, False]
    finally:
        ended(processes.running[0].process)
        processes.running[0].input.close()
        for each in processes.running[1:]:
            each.close()


def test_a_launchers_ranks() -> None:
    starts = [RankStart(host.name, host, SLEEP, {}, Whole(0)) for host in HOSTS]
    with pytest.raises(SshError, match="beta"), Processes() as processes:
        processes.start(starts)
        lost = next(each for each in processes.running if each.start.host.name == "beta").process
    alive = [each.start.host.name for each in processes.running if each.process.poll() is None]
    ended(lost)
    assert alive == ["beta"]


def test_helpers_of_faults() -> None:
    actors = Actors(None, {host.name: host for host in HOSTS}, lambda _rank: pytest.fail("no rank"))
    actors.take([Start(host.name, "flood", tuple(SLEEP)) for host in HOSTS])
    held = {key[0]: process for key, process in actors._helpers.items()}
    with pytest.raises(SshError, match="beta"):
        actors.close()
    assert [name for name, process in held.items() if process.poll() is None] == ["beta"]
    ended(held["beta"])
