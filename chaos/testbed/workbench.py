"""What runs an experiment's workload on a site: the host bench, or a rank for every GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from chaos.experiment.model import Experiment
from chaos.testbed import launch
from chaos.testbed.beds import gpus_of, planned_bed
from chaos.testbed.hostbench import HostBench, built, unbuilt
from harness.build.record import FILE as RECORD
from harness.deploy.places import BENCH, NET, RANK, SAMPLER
from harness.errors import UsageError
from harness.repo import Layout, programs
from harness.sites.cluster import ClusterSite
from harness.sites.site import Site


def layout_for(experiment: Experiment, site: Site, version: str | None) -> Layout | None:
    """Where that lies which was built for this version of NCCL; None: for the usual one, wherever that is."""
    if version is None:
        return None
    if isinstance(site, ClusterSite):
        hint = f"r2cc deploy --build build/net-{version}, and no --nccl"
        raise UsageError(f"--nccl: on the hosts of {site} runs what was deployed there", hint)
    if not _runs_ours(experiment):
        raise UsageError(f"--nccl: the program of {experiment.name} brings its own NCCL", "workload.preload: nccl")
    return layout_of(version, gpus=experiment.workload.uses_gpus)


def layout_of(version: str, *, gpus: bool) -> Layout:
    """UsageError where what runs the bench, or with `gpus` NCCL itself, was not built for that version."""
    found = programs(version)
    folders = {"net": found.net, **({"nccl": found.nccl} if gpus else {})}
    for name, folder in folders.items():
        if not (folder / RECORD).is_file():
            raise UsageError(f"no build for NCCL {version} in {folder}", f"r2cc build {name} --nccl {version}")
    return found


def _runs_ours(experiment: Experiment) -> bool:
    """Whether its NCCL, or the transport of our own bench, is what was built here."""
    return experiment.workload.preloads_nccl or not experiment.workload.foreign


@contextmanager
def bench_for(
    experiment: Experiment, site: Site, python: str | None, *, share: bool, quiet: bool, version: str | None = None
) -> Iterator[tuple[launch.Benches, dict[str, Any]]]:
    """What runs the experiment's workload, and what environment.json says of it; valid while the block lasts.

    `version`: of NCCL, another than the usual one. UsageError where nothing of it is built, or can run there.
    """
    layout = layout_for(experiment, site, version)
    if isinstance(site, ClusterSite):
        benches, record = _deployed(experiment, site, python or launch.PYTHON)
        if experiment.workload.uses_gpus:
            from chaos.testbed.gpubench import probe_all

            record |= probe_all(site, gpus_of(site, experiment), python or launch.PYTHON)
        yield benches, record
        return
    host, record = built(quiet=quiet, layout=layout)
    if _runs_ours(experiment):
        record |= {"nccl": (layout or programs()).version}
    host = replace(host, python=python or launch.PYTHON)
    if not experiment.workload.uses_gpus:
        yield host, record
        return
    from chaos.testbed.gpubench import on_gpus

    hosts, gpus = len(planned_bed(site, experiment).hosts), gpus_of(site, experiment)
    nccl = experiment.workload.preloads_nccl
    shared = on_gpus(host, hosts, gpus, python or launch.PYTHON, share=share, nccl=nccl, layout=layout)
    with shared as (bench, more):
        yield bench, {**record, **more}


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
            program=cluster.program(name, RANK),
            python=python,
        )
        for name in cluster.names
    }
    if not experiment.workload.uses_gpus:
        return hosts, cluster.build()
    from chaos.testbed import gpubench

    nccl = experiment.workload.preloads_nccl
    return gpubench.deployed(cluster, gpus_of(site, experiment), hosts, python, nccl=nccl), cluster.build()


def planned_for(experiment: Experiment, site: Site, python: str | None, version: str | None = None) -> launch.Benches:
    """The same for `--dry-run`: builds nothing, and looks at nothing but at hosts over SSH."""
    layout = layout_for(experiment, site, version)
    if isinstance(site, ClusterSite):
        return _deployed(experiment, site, python or launch.PYTHON)[0]
    if not experiment.workload.uses_gpus:
        return replace(unbuilt(layout), python=python or launch.PYTHON)
    from chaos.testbed.gpubench import planned

    hosts = len(planned_bed(site, experiment).hosts)
    nccl = experiment.workload.preloads_nccl
    return planned(unbuilt(layout), hosts, gpus_of(site, experiment), python or launch.PYTHON, nccl=nccl, layout=layout)
