"""The real workload: the host bench and the sampler, built when they are not up to date."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.experiment.model import Experiment, GpuWorkload, Workload
from chaos.faults.kinds.ranks import CLOCK_LIBRARY
from chaos.testbed import launch
from chaos.testbed.beds import gpus_of, planned_bed
from chaos.testbed.launch import Lateness
from harness.deploy.places import BENCH, NET, SAMPLER
from harness.launch import preload
from harness.sites.cluster import ClusterSite
from harness.sites.site import Site
from harness.workloads.bench import bench_env, sampler_command, stray_settings
from harness.workloads.kinds.workload import Place, Programs

PYTHON = "python3"
"""Of workloads on GPUs, unless another one is named."""


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

    def rank(
        self,
        workload: Workload,
        *,
        rank: int,
        ranks: int,
        root: str,
        seed: int,
        env: Mapping[str, str],
        late: Sequence[Lateness] = (),
        merge_nics: int = 1,
    ) -> list[str]:
        """One rank of a workload of one rank a host."""
        place = Place(
            Programs(self.bench, self.library, Path(), Path()), ranks, root, rank, seed=seed, late=tuple(late),
            merge_nics=merge_nics, unset=tuple(stray_settings(self.inherited, env)),
        )  # fmt: skip
        return workload.command(place)

    def env(self, mode: int, places_file: Path | None = None) -> dict[str, str]:
        """What the net library reads; data goes over the lab's NICs only, never over `mgmt0`."""
        return bench_env(mode, topology_file=places_file)

    def clock_env(self, file: str) -> dict[str, str]:
        """The library that lets the wall clock jump lies beside the bench."""
        return {**self.preloaded([self.bench.with_name(CLOCK_LIBRARY)]), "R2CC_TEST_CLOCK_FILE": file}

    def preloaded(self, libraries: Sequence[Path]) -> dict[str, str]:
        """What puts libraries under a rank; of what it has, the folders of libraries are kept."""
        kept = {name: value for name, value in self.inherited.items() if name == "LD_LIBRARY_PATH"}
        return preload.variables(libraries, kept)

    def sampler(self, nics: Sequence[str], *, cpu: bool, interval_ms: int = 10) -> list[str]:
        """The sampler of one host."""
        return sampler_command(self.sampler_program, nics=nics, cpu=cpu, interval_ms=interval_ms)


def built(*, quiet: bool) -> tuple[HostBench, dict[str, Any]]:
    """Builds what is out of date; returns the bench and what environment.json says about the build."""
    from harness.build import build_net
    from harness.progress import show, silent

    made = build_net(progress=silent if quiet else show)
    record = json.loads((made.bench.parent / "build.json").read_text(encoding="utf-8"))
    return HostBench(made.bench, made.sampler, made.library), record


def unbuilt() -> HostBench:
    """The same without building anything, for `--dry-run`: where the programs will be."""
    from harness.repo import checkout

    folder = checkout().net
    return HostBench(folder / "r2cc_bench", folder / "r2cc_sampler", folder / "libr2cc_net.so")


@contextmanager
def bench_for(
    experiment: Experiment, site: Site, python: str | None, *, share: bool, quiet: bool
) -> Iterator[tuple[launch.Benches, dict[str, Any]]]:
    """What runs the experiment's workload, and what environment.json says of it; valid while the block lasts."""
    if isinstance(site, ClusterSite):
        benches, record = _deployed(experiment, site, python or PYTHON)
        if isinstance(experiment.workload, GpuWorkload):
            from chaos.testbed.gpubench import probe_all

            record |= probe_all(site, gpus_of(site, experiment), python or PYTHON)
        yield benches, record
        return
    host, record = built(quiet=quiet)
    if not isinstance(experiment.workload, GpuWorkload):
        yield host, record
        return
    from chaos.testbed.gpubench import on_gpus

    hosts = len(planned_bed(site, experiment).hosts)
    with on_gpus(host, hosts, gpus_of(site, experiment), python or PYTHON, share=share) as made:
        yield made


def _deployed(
    experiment: Experiment, site: ClusterSite, python: str
) -> tuple[Mapping[str, launch.Bench], dict[str, Any]]:
    """What lies on each host of an inventory file; nothing is built or copied."""
    cluster = site.surveyed()
    hosts = {
        name: HostBench(
            cluster.program(name, BENCH),
            cluster.program(name, SAMPLER),
            cluster.program(name, NET),
            inherited=dict.fromkeys(cluster.surveys[name].settings, ""),
        )
        for name in cluster.names
    }
    if not isinstance(experiment.workload, GpuWorkload):
        return hosts, cluster.build()
    from chaos.testbed import gpubench

    return gpubench.deployed(cluster, gpus_of(site, experiment), hosts, python), cluster.build()


def planned_for(experiment: Experiment, site: Site, python: str | None) -> launch.Benches:
    """The same for `--dry-run`: builds nothing, and looks at nothing but at hosts over SSH."""
    if isinstance(site, ClusterSite):
        return _deployed(experiment, site, python or PYTHON)[0]
    if not isinstance(experiment.workload, GpuWorkload):
        return unbuilt()
    from chaos.testbed.gpubench import planned

    hosts = len(planned_bed(site, experiment).hosts)
    return planned(unbuilt(), hosts, gpus_of(site, experiment), python or PYTHON)
