"""Workloads on GPUs: the command lines of harness/workloads, the patched NCCL under them, and the GPUs they need."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from chaos.testbed.hostbench import RANK, HostBench
from chaos.testbed.launch import OneRank
from harness.deploy import places
from harness.errors import InfraError, UsageError
from harness.facts import local_gpus as gpu
from harness.hosts import Host
from harness.hosts.parallel import all_of
from harness.repo import Layout, programs
from harness.sites.cluster import ClusterSite
from harness.sites.surveyed import Surveyed
from harness.workloads.bench import EVENT_FILE, bench_env, gpu_sampler_command, stray_settings
from harness.workloads.kinds.workload import Place, Programs, Workload

GPU_SAMPLER = "gpu_sampler.py"
ENVIRONMENT = {"NCCL_NVLS_ENABLE": "0"}
"""Hosts of the lab share a box: what NVLink's multicast would do there says nothing about their network."""


@dataclass(frozen=True)
class GpuBench:
    """As HostBench, for ranks on GPUs: on the first `cards` GPUs of the machine in turn."""

    host: HostBench
    python: str
    library: Path | None
    """The patched NCCL; None: the program brings its own."""
    cards: int
    more_env: Mapping[str, str] = field(default_factory=dict)
    """What all ranks need besides: where the daemon is that lets them share a GPU."""
    program: Path = RANK
    shared: bool = True
    """Hosts of the lab have the GPUs of one machine."""
    sampler_python: str = sys.executable
    """Hosts of the lab are this machine: our own Python has what the sampler needs."""

    def rank(self, workload: Workload, one: OneRank) -> list[str]:
        """One rank."""
        return workload.command(self.place(one))

    def place(self, one: OneRank) -> Place:
        return Place(
            Programs(
                self.host.bench, self.host.library, self.library or Path(), self.program, self.python,
                self.host.progress,
            ),
            one.ranks, one.root, one.rank, gpu=one.rank % self.cards, per_host=one.per_host, seed=one.seed,
            unset=tuple(stray_settings(self.host.inherited, one.env)), cards=self.cards if self.shared else 0,
        )  # fmt: skip

    def env(self, mode: int, places_file: Path | None = None) -> dict[str, str]:
        """What NCCL and our part of it read; every arm runs the same library."""
        more = {**self.host.preloaded(self._libraries()), "R2CC_EVENT_FILE": EVENT_FILE, **self.more_env}
        return bench_env(mode, topology_file=places_file, extra=more)

    def under(self, names: Sequence[str]) -> dict[str, str]:
        """More libraries, with the ranks' own."""
        return self.host.preloaded([*self._libraries(), *(self.host.bench.with_name(name) for name in names)])

    def _libraries(self) -> list[Path]:
        return [] if self.library is None else [self.library]

    def sampler(self, nics: Sequence[str], *, cpu: bool, interval_ms: int = 10) -> list[str]:
        return self.host.sampler(nics, cpu=cpu, interval_ms=interval_ms)

    def gpu_sampler(self, ranks: Sequence[int]) -> list[str]:
        """Of the GPUs that these ranks use."""
        gpus = sorted({rank % self.cards for rank in ranks})
        return gpu_sampler_command(self.sampler_python, self.program.with_name(GPU_SAMPLER), gpus)


@contextmanager
def on_gpus(
    host: HostBench,
    hosts: int,
    per_host: int,
    python: str,
    *,
    share: bool,
    nccl: bool = True,
    layout: Layout | None = None,
) -> Iterator[tuple[GpuBench, dict[str, Any]]]:
    """The bench, and what environment.json says of it: `per_host` GPUs of each host, with `share` the same for several.
    `nccl`: the patched one is put under the ranks.

    Raises UsageError without the library or torch, InfraError without enough GPUs.
    """
    library, record = built_library(layout) if nccl else (None, {})
    found = gpu.probe(python)
    cards = gpu.enough(found, hosts * per_host, share=share)
    with gpu.shared(enabled=cards < hosts * per_host) as more_env:
        yield (
            GpuBench(host, python, library, cards, {**ENVIRONMENT, **more_env}),
            {**record, **asdict(found)},
        )


def built_library(layout: Layout | None = None) -> tuple[Path, dict[str, Any]]:
    """The patched libnccl.so.2 and its build.json. Raises UsageError when it was not built."""
    folder = (layout or programs()).nccl
    library = folder / "lib" / "libnccl.so.2"
    try:
        return library, json.loads((folder / "build.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"workloads on GPUs run on the patched NCCL, and there is none in {folder}", "r2cc build nccl"
        ) from error


def planned(
    host: HostBench, hosts: int, per_host: int, python: str, *, nccl: bool = True, layout: Layout | None = None
) -> GpuBench:
    """The same without looking at anything, for `--dry-run`."""
    library = (layout or programs()).nccl / "lib" / "libnccl.so.2" if nccl else None
    return GpuBench(host, python, library, hosts * per_host, ENVIRONMENT)


def deployed(
    cluster: Surveyed, gpus: int, hosts: Mapping[str, HostBench], python: str, *, nccl: bool = True
) -> dict[str, GpuBench]:
    """The same on hosts over SSH, with the NCCL and the workloads that are deployed there."""

    def library(name: str) -> Path | None:
        return cluster.program(name, places.NCCL) if nccl else None

    return {
        name: GpuBench(
            host,
            python,
            library(name),
            gpus,
            program=cluster.program(name, places.RANK),
            shared=False,
            sampler_python=python,
        )
        for name, host in hosts.items()
    }


def probe_all(site: ClusterSite, gpus: int, python: str) -> dict[str, Any]:
    """What environment.json says of the hosts' GPUs. Raises an error naming every host that lacks something."""
    return {"hosts": all_of({name: partial(_probed, host, gpus, python) for name, host in site.hosts().items()})}


def _probed(host: Host, gpus: int, python: str) -> dict[str, Any]:
    found = gpu.probe(python, host)
    try:
        gpu.enough(found, gpus, share=False)
    except InfraError as error:
        raise InfraError(f"{host.name}: {error.message}", "r2cc doctor says what its GPUs lack") from error
    return asdict(found)
