"""Where a job runs: the hosts of a bed, an inventory file or a Slurm allocation, and what is different on each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.deploy.places import BENCH, NCCL, NET, PROGRESS, RANK
from harness.errors import UsageError
from harness.facts.local_gpus import visible
from harness.hosts import Host
from harness.hosts.ssh.target import Target
from harness.launch.launchers.registry import launchers
from harness.sites.site import LAB_ROOT, Site
from harness.sites.surveyed import DATA, Surveyed
from harness.workloads import bench
from harness.workloads.kinds.workload import Programs

if TYPE_CHECKING:
    from harness.hosts.survey import Survey
    from harness.sites.cluster import ClusterSite
    from harness.sites.slurm import Allocation

BASE_ENV = {"NCCL_DEBUG": "WARN", "R2CC_EVENT_FILE": bench.EVENT_FILE}


@dataclass(frozen=True)
class JobHosts:
    """`hosts` is empty where only Slurm reaches them; `targets` where nothing but ourselves does."""

    names: Sequence[str]
    root: str
    programs: Programs
    hosts: Mapping[str, Host] = field(default_factory=dict)
    targets: Sequence[Target] = ()
    of_host: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    gpus: int | None = None
    allocation: Allocation | None = None
    lab: bool = False
    """Hosts share this machine and its GPUs."""


def meant(site: Site, launcher: str) -> Site:
    """A launcher of Slurm's takes the hosts of the allocation where none were named."""
    from harness.sites.slurm import SlurmSite

    return SlurmSite() if launcher in launchers() and launchers()[launcher].allocated and site.adopts_topology else site


@contextmanager
def opened(site: Site, *, launcher: str, dry_run: bool, prefix: str | None = None) -> Iterator[JobHosts]:
    """The hosts of a site as a launcher needs them. UsageError where it can start nothing, InfraError for hosts that
    cannot be reached. A dry run starts no lab; hosts over SSH are asked all the same."""
    from harness.sites.cluster import ClusterSite
    from harness.sites.inventory_file import DEFAULT_PREFIX
    from harness.sites.slurm import SlurmSite, allocation

    by = launchers()[launcher]
    found = allocation(os.environ) if by.allocated else None
    if found is not None and isinstance(meant(site, launcher), SlurmSite):
        yield _of_slurm(found, prefix or DEFAULT_PREFIX)
    elif isinstance(site, ClusterSite):
        if by.daemons:
            refuse_pods(site, launcher)
        yield _of_cluster(site.surveyed(), site, found)
    elif found is not None:
        raise UsageError(f"{launcher} starts nothing on '{site}', only in its allocation", "leave --inventory out")
    elif by.daemons:
        raise UsageError(
            f"{launcher} starts its daemons by ssh, and the hosts of '{site}' have no sshd that it could use",
            "--launcher ssh, or an inventory file (docs/howto/cluster.md)",
        )
    elif dry_run:
        yield _of_bed(site.planned().hosts, site.gpus() or 1, {}, None)
    else:
        from harness.build import build_net
        from harness.progress import show

        gpus = site.gpus() or 1
        build_net(progress=show)
        with site.open() as bed:
            yield _of_bed([*bed.hosts], gpus, bed.hosts, bed.places_file)


def refuse_pods(site: ClusterSite, launcher: str) -> None:
    """UsageError for a launcher that starts its daemons by ssh, where hosts are pods."""
    if len(site.targets) < len(site.members):
        raise UsageError(
            f"{launcher} starts its daemons by ssh, and the hosts of '{site}' are pods, which have no sshd",
            "--launcher ssh, which starts ranks by kubectl exec; or an MPIJob, which starts mpirun itself",
        )


def _of_slurm(found: Allocation, prefix: str) -> JobHosts:
    """Only Slurm has to reach the hosts; what is deployed is where it is here, as home folders are shared."""
    programs = _deployed(Path(prefix).expanduser())
    return JobHosts(found.hosts, found.hosts[0], programs, gpus=found.gpus, allocation=found)


def _deployed(prefix: Path) -> Programs:
    current = prefix / "current"
    return Programs(current / BENCH, current / NET, current / NCCL, current / RANK, progress=current / PROGRESS)


def _of_cluster(told: Surveyed, site: ClusterSite, found: Allocation | None) -> JobHosts:
    """With an allocation: in its order, in which Slurm counts ranks."""
    if found is not None:
        outside = sorted({*told.names} - {*found.hosts})
        if outside:
            raise UsageError(f"not in this Slurm allocation: {', '.join(outside)}", "leave --inventory out")
        told = replace(told, hosts=tuple(sorted(told.hosts, key=lambda host: found.hosts.index(host.name))))
    told.build()
    return JobHosts(
        told.names,
        told.root(),
        _deployed(_one_prefix(told.surveys)),
        site.hosts(),
        [host.target for host in told.hosts if isinstance(host.target, Target)],
        _environment(told),
        tuple(sorted({name for each in told.surveys.values() for name in each.settings})),
        site.gpus(),
        found,
    )


def _one_prefix(told: Mapping[str, Survey]) -> Path:
    found = {each.prefix: name for name, each in told.items()}
    if len(found) > 1:
        raise UsageError(
            "a launcher starts one program on all hosts, and it lies at different places: "
            + ", ".join(f"{prefix} on {name}" for prefix, name in found.items()),
            "give `prefix:` in the inventory, the same for all hosts",
        )
    return Path(next(iter(found)))


def _environment(told: Surveyed) -> dict[str, dict[str, str]]:
    """Of NICs, where the inventory says which carry data, else NCCL's own choice. InputErrors: some are missing."""
    found: dict[str, dict[str, str]] = {}
    if any(host.nics.get(DATA) for host in told.hosts):
        told.nics()
        found = told.env("socket")
    return {name: {"NCCL_HOSTID": name, **found.get(name, {})} for name in told.names}


def _here() -> Programs:
    """What lies here, whether or not it was built."""
    from harness.repo import programs

    at = programs()
    rank = Path(__file__).parents[1] / "workloads" / "rank.py"
    nccl = at.nccl / "lib" / "libnccl.so.2"
    return Programs(at.net / "r2cc_bench", at.net / "libr2cc_net.so", nccl, rank, progress=at.net / bench.PROGRESS)


def _lab_env(names: Sequence[str], gpus: int, places: Path | None) -> dict[str, dict[str, str]]:
    """Hosts of a lab share a box: to NCCL they are apart, and each has GPUs of its own."""
    return {
        name: {
            "NCCL_HOSTID": f"lab-{name}",
            "NCCL_SOCKET_IFNAME": "eth",
            "R2CC_SIDE_IFNAME": bench.SIDE_INTERFACE,
            "GLOO_SOCKET_IFNAME": bench.SIDE_INTERFACE,
            "CUDA_VISIBLE_DEVICES": visible(range(index * gpus, (index + 1) * gpus)),
            **({"R2CC_TOPO_FILE": str(places)} if places else {}),
        }
        for index, name in enumerate(names)
    }


def _of_bed(names: Sequence[str], gpus: int, hosts: Mapping[str, Host], places: Path | None) -> JobHosts:
    own = _lab_env(names, gpus, places)
    return JobHosts(names, LAB_ROOT, _here(), hosts, of_host=own, gpus=gpus, lab=True)
