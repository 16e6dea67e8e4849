"""The processes of a run: how its ranks and samplers are started, and which process is whose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from chaos.record.journal import Journal
from chaos.run.actors import PidOn, Signalled
from chaos.run.foreign import end_all
from chaos.run.plan import Plan
from chaos.testbed.beds import Bed
from chaos.testbed.launch import Launch
from harness.errors import FaultError, InfraError
from harness.hosts import Host
from harness.launch.plan import met, starts
from harness.launch.plan import plan as plan_of
from harness.launch.processes import Backlog, Processes, Start, Started
from harness.launch.streams import Whole

LEFT_BEHIND_S = 5.0
"""How long a program may keep its output open after it has ended."""


class Ranks:
    """Of one run. What they print goes into one backlog."""

    def __init__(self, plan: Plan, bed: Bed, journal: Journal, raw: Path) -> None:
        self._plan, self._bed, self._journal, self._raw = plan, bed, journal, raw
        lines = Backlog()
        self.ranks, self.samplers = Processes(lines), Processes(lines)
        self._pids: dict[int, PidOn] = {}
        """Of ranks that a launcher, or a program of ours, started."""
        self.left_behind: Started | None = None
        """A program that ended while something that it had started ran on."""
        self._ended_s: dict[int, float] = {}

    @property
    def running(self) -> list[Started]:
        """Ranks, or the launchers that started them."""
        return self.ranks.running

    def stop(self) -> None:
        """Ends the ranks, and whatever programs that are not ours have started, on every host."""
        try:
            self.ranks.stop()
        finally:
            if self._plan.foreign is not None and self.running:
                end_all(self._plan.foreign, self._bed.hosts, {each.host for each in self._plan.ranks})

    def looked_after(self, now_s: float) -> None:
        """Ends what holds the output of a program that has itself ended, and remembers whose it was."""
        if self._plan.foreign is None or self.left_behind is not None:
            return
        for each in self.running:
            if each.eof or each.stopped or each.reap() is None:
                continue
            if now_s - self._ended_s.setdefault(id(each), now_s) > LEFT_BEHIND_S:
                self.left_behind = each
                self.stop()
                return

    @property
    def every(self) -> list[Started]:
        return [*self.ranks.running, *self.samplers.running]

    def start_samplers(self) -> None:
        self._start([self._start_of(each) for each in self._plan.samplers], self.samplers)

    def start(self, folder: Path) -> None:
        """`folder`: for files that a launcher reads."""
        self._start(self._starts(folder), self.ranks)

    def began(self, rank: int, pid: int, host: str = "") -> None:
        """A rank that a launcher started said so, and the name of its host. InfraError for one on another lab host."""
        launch = self._plan.ranks[rank]
        if self._bed.inside is not None and host != launch.host:
            raise InfraError(
                f"{self._plan.launcher} started rank {rank} on {host}, and it belongs on {launch.host}",
                "unset what a batch system or a site's defaults tell Open MPI: env | grep -e SLURM -e OMPI -e PRTE",
            )
        self._pids[rank] = PidOn(self._bed.hosts[launch.host], pid)
        self._note(launch.host, launch.name, pid, launch.argv, launch.env)

    def process(self, rank: int) -> Signalled:
        """For faults on ranks. FaultError for one that does not run."""
        found: PidOn | Started | None = self._pids.get(rank)
        if found is None and self._plan.job is None:
            found = dict(enumerate(self.running)).get(rank)
        if found is None:
            raise FaultError(f"rank {rank} does not run (yet)", "let the fault strike later")
        return found.process if isinstance(found, Started) else found

    def machine(self, rank: int) -> Host | None:
        """Where a rank's process is looked at, if its host is a machine of its own."""
        return self._bed.hosts[self._plan.ranks[rank].host] if self._bed.machines else None

    def of(self, rank: int | None) -> Sequence[Started]:
        """What runs a rank, or all of them; a launcher ends as a whole."""
        return self.running if rank is None or self._plan.job is not None else self.running[rank : rank + 1]

    def exit_codes(self) -> dict[str, int | None]:
        return {each.start.shown: each.code for each in self.running}

    def _start(self, starts: Sequence[Start], into: Processes) -> None:
        """The journal has those that run, also when one of them could not be started."""
        self._raw.mkdir(parents=True, exist_ok=True)
        try:
            into.start(starts)
        finally:
            for each in into.running:
                one = each.start
                self._note(one.host.name, one.shown, each.process.pid, one.argv, one.env)

    def _note(self, host: str, name: str, pid: int, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self._journal.write("command", host=host, argv=list(argv), exit_code=None, name=name, pid=pid, env=dict(env))

    def _starts(self, folder: Path) -> list[Start]:
        job, launcher = self._plan.job, self._plan.launcher
        if job is None:
            return [self._start_of(each, rank) for rank, each in enumerate(self._plan.ranks)]
        planned = plan_of(met(job, launcher, self._bed.hosts), launcher, self._bed, str(folder))
        return [replace(each, stderr=self._stderr(each.shown)) for each in starts(planned, self._bed.hosts, folder)]

    def _start_of(self, launch: Launch, rank: int | None = None) -> Start:
        host, stderr = self._bed.hosts[launch.host], self._stderr(launch.name)
        return Start(launch.name, host, launch.argv, launch.env, Whole(rank), rank, stderr)

    def _stderr(self, name: str) -> Path:
        return self._raw / f"{self._plan.arm}-{self._plan.run}-{name.replace(' ', '-')}.stderr"
