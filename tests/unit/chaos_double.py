"""Doubles for tests of the runner: a scripted workload on this machine, and a switch that remembers what is cut."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from host_double import FakeHost

from chaos.experiment.file import loads
from chaos.experiment.model import Experiment
from chaos.testbed.beds import Bed
from chaos.testbed.launch import OneRank
from harness.errors import CommandError
from harness.hosts import LocalHost, Result
from harness.sites.site import PlannedNic
from harness.workloads.kinds.workload import Place, Programs, Workload

SCRIPT = Path(__file__).parent.parent / "data" / "chaos" / "scripted_bench.py"

EXPERIMENT = """
name: scripted
topology: {hosts: 2, nics: 2, rate_gbit: 1.0}
workload: {op: stream, iterations: %(iterations)d, warmup: 1}
faults:
  - {id: f0, kind: %(kind)s, host: h1, nic: eth1, at: {iteration: 4, fraction: 0.5}, %(times)s}
hypothesis: {stall_ms_max: 30.0}
arms: %(arms)s
repeats: %(repeats)d
"""


def experiment(
    *,
    iterations: int = 12,
    kind: str = "link_down",
    times: str = "duration_s: 0.15",
    arms: str = "{migrate: {expect: holds}}",
    repeats: int = 1,
) -> Experiment:
    values = {"iterations": iterations, "kind": kind, "times": times, "arms": arms, "repeats": repeats}
    return loads(EXPERIMENT % values, Path("scripted.yaml"))


@dataclass(frozen=True)
class ScriptedBench:
    """Starts the scripted workload; `extra` are more options for single ranks, by mode and rank."""

    iteration_ms: int = 40
    extra: Mapping[tuple[int, int], Sequence[str]] = field(default_factory=dict)
    cpu: float = 0.4
    python: str = sys.executable

    def rank(self, workload: Workload, one: OneRank) -> list[str]:
        base = [sys.executable, str(SCRIPT), "rank", "--rank", str(one.rank), "--ranks", str(one.ranks)]
        per_rank = [word for (_, who), words in self.extra.items() if who == one.rank for word in words]
        return [*base, "--iterations", str(workload.iterations), "--iteration-ms", str(self.iteration_ms), *per_rank]

    def place(self, one: OneRank) -> Place:
        return Place(Programs(Path(), Path(), Path(), Path()), one.ranks, one.root, one.rank)

    def env(self, mode: int, places_file: Path | None = None) -> dict[str, str]:
        return {"R2CC_MODE": str(mode)} | ({} if places_file is None else {"R2CC_TOPO_FILE": str(places_file)})

    def under(self, names: Sequence[str]) -> dict[str, str]:
        return {"LD_PRELOAD": ":".join(names)}

    def sampler(self, nics: Sequence[str], *, cpu: bool, interval_ms: int = 10) -> list[str]:
        more = ["--cpu", str(self.cpu)] if cpu else []
        return [sys.executable, str(SCRIPT), "sampler", "--nics", ",".join(nics), *more]

    def gpu_sampler(self, ranks: Sequence[int]) -> list[str]:
        return []


@dataclass
class Switch(FakeHost):
    """Answers `ip` and `nft` as a kernel would for one port; `broken` makes every injection fail or have no effect."""

    name: str = "switch"
    down: bool = False
    broken: str = ""

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        input: str | None = None,
        timeout_s: float | None = None,
        check: bool = True,
    ) -> Result:
        self.commands.append(tuple(argv))
        if self.broken == "gone":
            raise CommandError("switch: the lab went away")
        if argv[:2] == ["ip", "-j"]:
            flags = ["BROADCAST"] if self.down else ["BROADCAST", "UP", "LOWER_UP"]
            return Result(tuple(argv), 0, json.dumps([{"ifname": argv[-1], "flags": flags}]))
        if self.broken == "fails":
            return Result(tuple(argv), 2, "", "Operation not permitted")
        if self.broken != "ignores":
            self.down = argv[-1] == "down"
        return Result(tuple(argv), 0)


@contextmanager
def bed(switch: Switch) -> Iterator[Bed]:
    nics = [
        PlannedNic(f"h{host}", f"eth{nic}", f"10.{nic + 1}.0.{host + 1}", f"h{host}-eth{nic}")
        for host in range(2)
        for nic in range(2)
    ]
    yield Bed("double", {name: LocalHost(name) for name in ("h0", "h1")}, switch, nics, "127.0.0.1")
