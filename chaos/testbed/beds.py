"""The bed an experiment runs on: its own topology as a lab, or whatever site `--inventory` names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import click

from chaos.deadman.ways import check as refuse_unsafe
from chaos.experiment.model import Experiment
from chaos.experiment.planned import planned_faults
from chaos.faults.fault import NicLike, by_host
from chaos.testbed import launch
from harness.config.documents import Document
from harness.deploy.places import SAMPLER
from harness.errors import InfraError, UsageError
from harness.facts.environment import Hardware, hardware_of
from harness.hosts import Host
from harness.hosts.commands import merged_env
from harness.hosts.lease import Leases, hold
from harness.hosts.ssh.target import Target
from harness.lab.remote import Inside
from harness.lab.topology import Topology, checked
from harness.launch.hosts import refuse_pods
from harness.launch.launchers.registry import launchers
from harness.launch.workloads import check as startable
from harness.sites.cluster import ClusterSite
from harness.sites.lab import LabSite
from harness.sites.site import Planned, Site
from harness.sites.slurm import GPUS_HINT, SlurmSite, allocation
from harness.sites.surveyed import DATA
from harness.sites.vm import VmSite, hold_rates


@dataclass(frozen=True)
class Bed:
    """Hosts to run on, the host that has the switch's side of the NICs, and where ranks meet."""

    name: str
    hosts: Mapping[str, Host]
    switch: Host | None
    """None: nobody lets us in; faults on NICs act on the hosts."""
    nics: Sequence[NicLike]
    root: str
    """Address of the first host's management interface."""
    places_file: Path | None = None
    """What ranks get as R2CC_TOPO_FILE; None where the hosts' own sysfs tells."""
    devices: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """The RDMA device of each (host, NIC); empty where there are none."""
    machines: bool = False
    """Hosts are machines of their own: the /proc of their processes is theirs."""
    gpus: int = 1
    """Of a host, for workloads that use them."""
    env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What ranks are told on each host, where hosts are machines whose NICs have names of their own."""
    samplers: Mapping[str, str] = field(default_factory=dict)
    """The program of each host whose clock is not ours, which tells its time."""
    leases: Leases | None = None
    """That hosts which others can reach are ours alone for now."""
    targets: Sequence[Target] = ()
    """How hosts are reached over SSH, for a launcher that does so itself."""
    inside: Inside | None = None
    """For a launcher that runs on one of the hosts, where those are a lab's."""
    topology: Topology | None = None
    """What a lab was made as, its rates as they are now; None where hosts are what they are."""

    breakers: Mapping[str, Host] = field(default_factory=dict)
    """Who breaks the NICs of each host: itself, or its node's agent where hosts are pods."""

    @property
    def patience(self) -> float:
        """How many times longer than elsewhere things may take: the hosts may be emulated."""
        return max((getattr(host, "patience", 1.0) for host in self.hosts.values()), default=1.0)

    def rates_gbit(self) -> dict[tuple[str, str], float]:
        """The rate of each (host, NIC), in Gbit/s, as far as it is known."""
        if self.topology is None:
            return {}
        return {(nic.host, nic.name): self.topology.rate_of(nic.host, nic.name) for nic in self.nics}


def gpus_of(site: Site, experiment: Experiment) -> int:
    """How many GPUs of each host the workload uses. UsageError when nobody says how many there are."""
    own = experiment.workload.own_gpus
    if own is not None:
        return own
    found = site.shaped(topology_of(experiment)).gpus()
    if found is None:
        hint = GPUS_HINT if isinstance(site, SlurmSite) else "give `gpus`, the same number for all hosts"
        raise UsageError(f"{site}: it is not known how many GPUs a host has", hint)
    return found


def bed_hardware(site: Site) -> Hardware | None:
    """Of a site's machines, for figures are compared between the same machines only; None: it is on this one."""
    machines = site.hardware()
    return hardware_of(machines) if machines else None


def topology_of(experiment: Experiment) -> Topology:
    """The experiment's own topology; it was checked when the experiment was loaded."""
    if isinstance(experiment.topology, str):
        path = Path(experiment.topology)
        return Topology.load(path if path.is_absolute() else experiment.topology)
    return checked(Document("<topology>", experiment.topology))


def planned_bed(site: Site, experiment: Experiment) -> Planned:
    """What the bed will have; nothing is started, and hosts over SSH are asked once.

    UsageError for a workload that the bed cannot carry.
    """
    vm, topology = isinstance(site, VmSite), topology_of(experiment)
    if experiment.workload.net == "ib" and not site.machines:
        raise UsageError(
            f"net: ib needs RDMA devices, and the testbed {site} has none",
            "--inventory uml:2x2 or vm:2x2 (docs/howto/vm-lab.md)",
        )
    if experiment.workload.uses_gpus and vm:
        raise UsageError(f"the guests of {site} have no GPUs", "use --inventory lab on a machine that has some")
    if vm and topology.one_subnet:
        raise UsageError(f"the guests of {site} have a subnet a rail", "use --inventory lab for one_subnet")
    return site.shaped(topology).planned()


def check(site: Site, experiment: Experiment) -> None:
    """Raises UsageError or InputErrors for a site that cannot carry the experiment, before anything is started."""
    nics = planned_bed(site, experiment).nics
    faults = planned_faults(experiment, nics, launch.per_host(experiment, gpus_of(site, experiment)))
    if isinstance(site, ClusterSite):
        addresses = {name: place.node_address for name, place in site.places.items()}
        refuse_unsafe(site.breakers(), site.members, faults, by_host(nics), experiment.limits, addresses=addresses)


def launcher_of(experiment: Experiment, launcher: str) -> str:
    """What starts the ranks, where `launcher` was asked for: some cannot be started by us one by one."""
    return experiment.workload.usual_launcher if launcher == launch.DIRECT else launcher


def check_launcher(site: Site, experiment: Experiment, launcher: str) -> None:
    """UsageError where that launcher cannot start the ranks there."""
    if launcher == launch.DIRECT:
        return
    by = launchers()[launcher]
    if by.in_labs and isinstance(site, LabSite):
        startable(experiment.workload.kind, launcher)
        if shutil.which(launcher, path=merged_env(None)["PATH"]) is None:
            raise InfraError(f"there is no {launcher} on this machine", by.how_to_have)
        by.check()
        return
    if not isinstance(site, ClusterSite):
        raise UsageError(
            f"--launcher {launcher} is for hosts over SSH: ranks on '{site}' are started directly",
            "--launcher direct, or an inventory file (docs/howto/cluster.md)",
        )
    if by.daemons:
        refuse_pods(site, launcher)
        by.check()
    startable(experiment.workload.kind, launcher)
    if by.allocated:
        given = [*allocation(os.environ).hosts]
        if [name for name in given if name in site.surveyed().names] != site.surveyed().names:
            raise UsageError(
                f"{launcher} counts ranks in the order of its allocation, and {site} has other hosts or another order",
                f"name hosts of the allocation, in this order: {', '.join(given)}",
            )


@contextmanager
def open_bed(site: Site, experiment: Experiment) -> Iterator[Bed]:
    """Opens the bed; what was made for it is removed when the block ends."""
    site, net = site.shaped(topology_of(experiment)), experiment.workload.net
    with ExitStack() as stack:
        opened = stack.enter_context(site.open())
        breakers = opened.breakers or opened.hosts
        leases = None if site.has_switch else stack.enter_context(hold(breakers))
        for warning in [*opened.warnings, *_without_backup(site)]:
            click.echo(f"r2cc: warning: {warning}", err=True)
        yield Bed(
            site.bed,
            opened.hosts,
            opened.switch,
            list(opened.nics),
            site.planned().root,
            opened.places_file,
            site.devices(net),
            machines=site.machines,
            gpus=gpus_of(site, experiment),
            env=site.env(net),
            samplers=_samplers(site),
            leases=leases,
            targets=targets_of(site),
            inside=None if opened.places_file is None else site.inside(opened.places_file.parent),
            topology=site.topology,
            breakers=breakers,
        )


def targets_of(site: Site) -> list[Target]:
    """How hosts are reached over SSH, where they are."""
    return site.targets if isinstance(site, ClusterSite) else []


def _without_backup(site: Site) -> list[str]:
    """NICs whose loss no mode can survive."""
    from harness.doctor.backups import without

    if not isinstance(site, ClusterSite):
        return []
    data = {host.name: host.nics.get(DATA, ()) for host in site.members}
    return [f"NIC without a backup: {line}" for line in without(site.hosts(), data)]


def _samplers(site: Site) -> dict[str, str]:
    """Of hosts whose clock may not be ours."""
    if not isinstance(site, ClusterSite):
        return {}
    found = site.surveyed()
    return {name: str(found.program(name, SAMPLER)) for name in found.names}


class KeptBed:
    """A bed that is slow to open, kept from one experiment to the next; one in which something went wrong is not."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._stack = ExitStack()
        self._bed: Bed | None = None

    @contextmanager
    def open(self, experiment: Experiment) -> Iterator[Bed]:
        """The bed, opened if there is none; closed when the block raises."""
        topology = topology_of(experiment)
        if self._bed is None:
            self._bed = self._stack.enter_context(open_bed(self._site, experiment))
        elif self._bed.switch is not None:
            hold_rates(self._bed.switch, self._bed.nics, topology)
        if self._bed.topology != topology:
            self._bed = replace(self._bed, topology=topology)
        try:
            yield self._bed
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._bed = None
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
