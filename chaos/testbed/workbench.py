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
from harness.deploy.places import BENCH, NET, RANK, SAMPLER
from harness.sites.cluster import ClusterSite
from harness.sites.site import Site


@contextmanager
def bench_for(
    experiment: Experiment, site: Site, python: str | None, *, share: bool, quiet: bool
) -> Iterator[tuple[launch.Benches, dict[str, Any]]]:
    """What runs the experiment's workload, and what environment.json says of it; valid while the block lasts."""
    if isinstance(site, ClusterSite):
        benches, record = _deployed(experiment, site, python or launch.PYTHON)
        if experiment.workload.uses_gpus:
            from chaos.testbed.gpubench import probe_all

            record |= probe_all(site, gpus_of(site, experiment), python or launch.PYTHON)
        yield benches, record
        return
    host, record = built(quiet=quiet)
    host = replace(host, python=python or launch.PYTHON)
    if not experiment.workload.uses_gpus:
        yield host, record
        return
    from chaos.testbed.gpubench import on_gpus

    hosts = len(planned_bed(site, experiment).hosts)
    nccl = experiment.workload.preloads_nccl
    with on_gpus(host, hosts, gpus_of(site, experiment), python or launch.PYTHON, share=share, nccl=nccl) as (
        bench,
        more,
    ):
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


def planned_for(experiment: Experiment, site: Site, python: str | None) -> launch.Benches:
    """The same for `--dry-run`: builds nothing, and looks at nothing but at hosts over SSH."""
    if isinstance(site, ClusterSite):
        return _deployed(experiment, site, python or launch.PYTHON)[0]
    if not experiment.workload.uses_gpus:
        return replace(unbuilt(), python=python or launch.PYTHON)
    from chaos.testbed.gpubench import planned

    hosts = len(planned_bed(site, experiment).hosts)
    nccl = experiment.workload.preloads_nccl
    return planned(unbuilt(), hosts, gpus_of(site, experiment), python or launch.PYTHON, nccl=nccl)
