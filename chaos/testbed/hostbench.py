"""The real workload: the host bench and the sampler, built when they are not up to date."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.testbed.launch import OneRank
from harness.launch import preload
from harness.repo import Layout, programs
from harness.workloads.bench import PROGRESS, bench_env, sampler_command, stray_settings
from harness.workloads.kinds.workload import Place, Programs, Workload

RANK = Path(__file__).parents[2] / "harness" / "workloads" / "rank.py"


@dataclass(frozen=True)
class HostBench:
    """Command lines of the host bench and its sampler, from harness.workloads.bench.

    Pure but for the inherited variables' names.

    NCCL_* and R2CC_* variables of the caller are kept from the ranks: what an arm sets must be all that is set.
    """

    bench: Path
    sampler_program: Path
    library: Path
    inherited: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    program: Path = RANK
    """The ranks of workloads on torch; what runs beside programs that are not ours lies near it."""
    python: str = "python3"

    @property
    def progress(self) -> Path:
        """The library that watches any NCCL lies beside the net library."""
        return self.library.with_name(PROGRESS)

    def rank(self, workload: Workload, one: OneRank) -> list[str]:
        """One rank."""
        return workload.command(self.place(one))

    def place(self, one: OneRank) -> Place:
        return Place(
            Programs(self.bench, self.library, Path(), self.program, self.python, self.progress),
            one.ranks, one.root, one.rank, seed=one.seed, per_host=one.per_host,
            late=tuple(one.late), merge_nics=one.merge_nics, unset=tuple(stray_settings(self.inherited, one.env)),
        )  # fmt: skip

    def env(self, mode: int, places_file: Path | None = None) -> dict[str, str]:
        """What the net library reads; data goes over the lab's NICs only, never over `mgmt0`."""
        return bench_env(mode, topology_file=places_file)

    def under(self, names: Sequence[str]) -> dict[str, str]:
        """Libraries of ours lie beside the bench."""
        return self.preloaded([self.bench.with_name(name) for name in names])

    def preloaded(self, libraries: Sequence[Path]) -> dict[str, str]:
        """What puts libraries under a rank; of what it has, the folders of libraries are kept."""
        kept = {name: value for name, value in self.inherited.items() if name == "LD_LIBRARY_PATH"}
        return preload.variables(libraries, kept)

    def sampler(self, nics: Sequence[str], *, cpu: bool, interval_ms: int = 10) -> list[str]:
        """The sampler of one host."""
        return sampler_command(self.sampler_program, nics=nics, cpu=cpu, interval_ms=interval_ms)

    def gpu_sampler(self, ranks: Sequence[int]) -> list[str]:
        """The host bench uses no GPUs."""
        return []


def built(*, quiet: bool, layout: Layout | None = None) -> tuple[HostBench, dict[str, Any]]:
    """Builds what is out of date; returns the bench and what environment.json says about the build."""
    from harness.build import build_net
    from harness.progress import show, silent

    made = build_net(progress=silent if quiet else show, layout=layout)
    record = json.loads((made.bench.parent / "build.json").read_text(encoding="utf-8"))
    return HostBench(made.bench, made.sampler, made.library), record


def unbuilt(layout: Layout | None = None) -> HostBench:
    """The same without building anything, for `--dry-run`: where the programs will be."""
    folder = (layout or programs()).net
    return HostBench(folder / "r2cc_bench", folder / "r2cc_sampler", folder / "libr2cc_net.so")
