"""Where a job runs: the hosts of a bed, an inventory file or a Slurm allocation, and what is different on each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.deploy.places import BENCH, NCCL, NET, RANK
from harness.errors import InputErrors, UsageError
from harness.hosts import Host
from harness.workloads.bench import EVENT_FILE, SIDE_INTERFACE

if TYPE_CHECKING:
    from harness.hosts.ssh_target import Target
    from harness.hosts.survey import Survey
    from harness.sites.inventory_file import ClusterHost
    from harness.sites.slurm import Allocation

SLURM = "slurm"
LAB_ROOT = "10.250.0.1"
"""The first lab host's, and the first guest's, management address (docs/reference/contracts.md)."""
BASE_ENV = {"NCCL_DEBUG": "WARN", "R2CC_EVENT_FILE": EVENT_FILE}


@dataclass(frozen=True)
class Programs:
    """Where things lie on the hosts."""

    bench: Path
    net: Path
    nccl: Path
    rank: Path


@dataclass(frozen=True)
class Site:
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


@contextmanager
def opened(inventory: str, *, launcher: str, dry_run: bool, prefix: str | None = None) -> Iterator[Site]:
    """The site; connections and labs are closed when the block ends. UsageError for one that there is not, InfraError
    for hosts that cannot be reached. A dry run starts no lab; hosts over SSH are asked all the same."""
    from harness.sites.inventory import is_cluster
    from harness.sites.inventory_file import DEFAULT_PREFIX
    from harness.sites.slurm import allocation

    found = allocation(os.environ) if launcher == "srun" else None
    if found is not None and inventory in ("lab", SLURM):  # `lab` is what the option has when nothing is said
        yield _of_slurm(found, prefix or DEFAULT_PREFIX)
    elif is_cluster(inventory):
        with _of_cluster(inventory, found) as site:
            yield site
    elif found is not None:
        raise UsageError(f"srun starts nothing on '{inventory}', only in its allocation", "leave --inventory out")
    elif launcher == "mpirun":
        raise UsageError(
            f"mpirun starts its daemons by ssh, and the hosts of '{inventory}' have no sshd that it could use",
            "--launcher ssh, or an inventory file (docs/howto/cluster.md)",
        )
    else:
        with ExitStack() as stack:
            yield _planned_bed(inventory) if dry_run else _of_bed(inventory, stack)


def _of_slurm(found: Allocation, prefix: str) -> Site:
    """Only Slurm has to reach the hosts; what is deployed is where it is here, as home folders are shared."""
    programs = _deployed(Path(prefix).expanduser())
    return Site(found.hosts, found.hosts[0], programs, gpus=found.gpus, allocation=found)


def _deployed(prefix: Path) -> Programs:
    current = prefix / "current"
    return Programs(current / BENCH, current / NET, current / NCCL, current / RANK)


@contextmanager
def _of_cluster(inventory: str, found: Allocation | None) -> Iterator[Site]:
    """With an allocation: in its order, in which Slurm counts ranks."""
    from harness.hosts.ssh import ssh_hosts
    from harness.hosts.survey import survey
    from harness.sites.cluster_facts import deployed, root_of
    from harness.sites.inventory import cluster_hosts

    hosts = cluster_hosts(inventory)
    if found is not None:
        outside = sorted({host.name for host in hosts} - set(found.hosts))
        if outside:
            raise UsageError(f"not in this Slurm allocation: {', '.join(outside)}", "leave --inventory out")
        hosts.sort(key=lambda host: found.hosts.index(host.name))
    names = [host.name for host in hosts]
    with ssh_hosts(host.target for host in hosts) as reached:
        told = survey(reached, {host.name: host.prefix for host in hosts})
        deployed(told, inventory)
        yield Site(
            names,
            root_of(hosts[0], told[names[0]]),
            _deployed(_one_prefix(told)),
            reached,
            [host.target for host in hosts],
            _environment(hosts, told),
            tuple(sorted({name for each in told.values() for name in each.settings})),
            _gpus(hosts),
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


def _environment(hosts: Sequence[ClusterHost], told: Mapping[str, Survey]) -> dict[str, dict[str, str]]:
    """Of NICs, where the inventory says which carry data, else NCCL's own choice. InputErrors: some are missing."""
    from harness.sites.cluster_facts import DATA, environment, nics

    if not any(host.nics.get(DATA) for host in hosts):
        return {host.name: {"NCCL_HOSTID": host.name} for host in hosts}
    nics(hosts, told)
    return {host.name: {"NCCL_HOSTID": host.name, **environment(host, told[host.name])} for host in hosts}


def _gpus(hosts: Sequence[ClusterHost]) -> int | None:
    counts = {host.gpus for host in hosts}
    if len(counts) > 1:
        raise InputErrors([f"{host.name}: {host.gpus} GPUs" for host in hosts])
    return next(iter(counts))


def _here() -> Programs:
    """What lies in the checkout, whether or not it was built."""
    from harness.repo import checkout

    at = checkout()
    rank = Path(__file__).parents[1] / "workloads" / "rank.py"
    return Programs(at.net / "r2cc_bench", at.net / "libr2cc_net.so", at.nccl / "lib" / "libnccl.so.2", rank)


def _lab_env(names: Sequence[str], gpus: int, places: Path | None) -> dict[str, dict[str, str]]:
    """Hosts of a lab share a box: to NCCL they are apart, and each has GPUs of its own."""
    return {
        name: {
            "NCCL_HOSTID": f"lab-{name}",
            "NCCL_SOCKET_IFNAME": "eth",
            "R2CC_SIDE_IFNAME": SIDE_INTERFACE,
            "GLOO_SOCKET_IFNAME": SIDE_INTERFACE,
            "CUDA_VISIBLE_DEVICES": ",".join(str(index * gpus + card) for card in range(gpus)),
            **({"R2CC_TOPO_FILE": str(places)} if places else {}),
        }
        for index, name in enumerate(names)
    }


def _planned_bed(inventory: str) -> Site:
    from harness.lab.plan import describe
    from harness.sites.inventory import topology_of, vm_shape

    shape = vm_shape(inventory)
    topology = None if shape is not None else topology_of(inventory)
    names = shape.host_names() if shape is not None else list(describe(topology).hosts) if topology else []
    gpus = topology.gpus if topology else 1
    return Site(names, LAB_ROOT, _here(), of_host=_lab_env(names, gpus, None), gpus=gpus, lab=True)


def _of_bed(inventory: str, stack: ExitStack) -> Site:
    from harness.build import build_net
    from harness.progress import show
    from harness.sites.inventory import open_inventory, topology_of, vm_shape

    gpus = 1 if vm_shape(inventory) is not None else topology_of(inventory).gpus
    build_net(progress=show)
    bed = stack.enter_context(open_inventory(inventory))
    names = list(bed.hosts)
    own = _lab_env(names, gpus, bed.places_file)
    return Site(names, LAB_ROOT, _here(), bed.hosts, of_host=own, gpus=gpus, lab=True)
