"""The bed an experiment runs on: its own topology as a lab, or whatever `--inventory` names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import click

from chaos.experiment.model import Experiment, GpuWorkload
from chaos.faults.fault import NicLike
from chaos.testbed import launch
from chaos.testbed.cluster import opened, refuse_unsafe, surveyed
from harness.config.documents import Document
from harness.deploy.places import SAMPLER
from harness.errors import UsageError
from harness.hosts import Host
from harness.hosts.lease import Leases, hold
from harness.lab.lab import Lab
from harness.lab.plan import describe
from harness.lab.topology import Topology, checked
from harness.sites.inventory import Inventory, is_cluster, open_inventory, require_tools, vm_shape
from harness.sites.inventory import topology_of as topology_of_inventory
from harness.vmlab.shape import MGMT_NIC

LAB, VM, CLUSTER = "lab", "vm", "cluster"


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
    topology: Topology | None = None
    """What a lab was made as, its rates as they are now; None where hosts are what they are."""

    def rates_gbit(self) -> dict[tuple[str, str], float]:
        """The rate of each (host, NIC), in Gbit/s, as far as it is known."""
        if self.topology is None:
            return {}
        return {(nic.host, nic.name): self.topology.rate_of(nic.host, nic.name) for nic in self.nics}


def gpus_on(inventory: str, experiment: Experiment) -> int:
    """How many GPUs each host of the bed has."""
    if inventory.startswith("lab:"):
        return Topology.load(inventory.removeprefix("lab:")).gpus
    if is_cluster(inventory):
        return surveyed(inventory).gpus() if isinstance(experiment.workload, GpuWorkload) else 1
    return topology_of(experiment).gpus


def bed_env(inventory: str, experiment: Experiment) -> dict[str, dict[str, str]]:
    """What ranks are told on each host of an inventory file; empty for other beds."""
    return surveyed(inventory).env(experiment.workload.net) if is_cluster(inventory) else {}


def bed_hardware(inventory: str) -> dict[str, Any] | None:
    """Of the machines of an inventory file; None: the bed is on this machine."""
    return surveyed(inventory).hardware() if is_cluster(inventory) else None


def bed_name(inventory: str) -> str:
    """What the bed of an inventory is called, opened or not."""
    if is_cluster(inventory):
        return CLUSTER
    return VM if vm_shape(inventory) is not None else LAB


def topology_of(experiment: Experiment) -> Topology:
    """The experiment's own topology; it was checked when the experiment was loaded."""
    if isinstance(experiment.topology, str):
        path = Path(experiment.topology)
        return Topology.load(path if path.is_absolute() else experiment.topology)
    return checked(Document("<topology>", experiment.topology))


def check_inventory(inventory: str, experiment: Experiment) -> None:
    """Raises UsageError or InputErrors for a bed that cannot carry the experiment, before anything is started."""
    per_host = launch.per_host(experiment, gpus_on(inventory, experiment))
    nics = planned_bed(inventory, experiment)[1]
    faults = launch.faults(experiment, nics, per_host)
    if is_cluster(inventory):
        refuse_unsafe(inventory, faults, launch.by_host(nics), experiment.limits)


def hold_rates(bed: Bed, topology: Topology) -> None:
    """Guests have NICs of the experiment's rates: one that emulation can keep up with leaves it time to react."""
    assert bed.switch is not None
    for nic in bed.nics:
        rate_bps = round(topology.rate_of(nic.host, nic.name) * 1e9)
        bed.switch.run(["wire", "set", nic.switch_port, "both", "rate", str(rate_bps)])


@contextmanager
def open_bed(inventory: str, experiment: Experiment) -> Iterator[Bed]:
    """Opens the bed; everything made for it is gone afterwards. `lab` means the experiment's own topology."""
    if is_cluster(inventory):
        with _open_cluster(inventory, experiment) as bed:
            yield bed
        return
    if inventory != LAB:
        with open_inventory(inventory) as opened:
            bed = _bed(opened)
            if vm_shape(inventory) is not None:
                hold_rates(bed, topology_of(experiment))
            yield replace(bed, gpus=gpus_on(inventory, experiment), topology=_shape(inventory, experiment))
        return
    require_tools()
    with Lab.up(topology_of(experiment)) as lab:
        for warning in lab.warnings:
            click.echo(f"r2cc: warning: {warning}", err=True)
        bed = _bed(Inventory(LAB, lab.hosts, lab.switch, lab.nics, lab.places_file))
        yield replace(bed, gpus=gpus_on(inventory, experiment), topology=topology_of(experiment))


def _shape(inventory: str, experiment: Experiment) -> Topology:
    """Of a lab that is no experiment's own: the file's, or for guests the experiment's rates."""
    return topology_of(experiment) if vm_shape(inventory) is not None else topology_of_inventory(inventory)


@contextmanager
def _open_cluster(inventory: str, experiment: Experiment) -> Iterator[Bed]:
    with opened(inventory) as (hosts, cluster), hold(hosts) as leases:
        cluster.build()
        for line in cluster.without_backup(hosts):
            click.echo(f"r2cc: warning: NIC without a backup: {line}", err=True)
        yield Bed(
            CLUSTER,
            hosts,
            None,
            list(cluster.nics()),
            cluster.root(),
            devices=cluster.devices() if experiment.workload.net == "ib" else {},
            machines=True,
            gpus=gpus_on(inventory, experiment),
            env=cluster.env(experiment.workload.net),
            samplers={name: str(cluster.program(name, SAMPLER)) for name in cluster.names},
            leases=leases,
        )


class KeptBed:
    """A bed that is slow to open, kept from one experiment to the next; one in which something went wrong is not."""

    def __init__(self, inventory: str) -> None:
        self._inventory = inventory
        self._stack = ExitStack()
        self._bed: Bed | None = None

    @contextmanager
    def open(self, experiment: Experiment) -> Iterator[Bed]:
        """The bed, opened if there is none; closed when the block raises."""
        if self._bed is None:
            self._bed = self._stack.enter_context(open_bed(self._inventory, experiment))
        else:
            hold_rates(self._bed, topology_of(experiment))
        if self._bed.topology != topology_of(experiment):
            self._bed = replace(self._bed, topology=topology_of(experiment))
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


def planned_bed(inventory: str, experiment: Experiment) -> tuple[list[str], list[NicLike], str]:
    """Hosts, NICs and meeting address that the bed will have, starting nothing; for `--dry-run`, too.

    Hosts over SSH are asked once.

    UsageError for a workload that the bed cannot carry.
    """
    if experiment.workload.net == "ib" and vm_shape(inventory) is None and not is_cluster(inventory):
        raise UsageError(
            f"net: ib needs RDMA devices, and the bed {inventory} has none", "--inventory vm:2x2 (docs/howto/vm-lab.md)"
        )
    if isinstance(experiment.workload, GpuWorkload) and vm_shape(inventory) is not None:
        raise UsageError(f"the guests of {inventory} have no GPUs", "use --inventory lab on a machine that has some")
    if vm_shape(inventory) is not None and topology_of(experiment).one_subnet:
        raise UsageError(f"the guests of {inventory} have a subnet a rail", "use --inventory lab for one_subnet")
    if inventory == LAB:
        topology = topology_of(experiment)
    elif (shape := vm_shape(inventory)) is not None:
        data = [port for port in shape.ports() if port.nic != MGMT_NIC]
        return shape.host_names(), [PlannedNic(p.host, p.nic, p.address, p.name) for p in data], root_address()
    elif inventory.startswith("lab:"):
        topology = Topology.load(inventory.removeprefix("lab:"))
    elif is_cluster(inventory):
        cluster = surveyed(inventory)
        return cluster.names, list(cluster.nics()), cluster.root()
    else:
        topology_of_inventory(inventory)  # says which inventories there are
        raise AssertionError(inventory)
    plan = describe(topology)
    nics: list[NicLike] = [PlannedNic(c.host, c.nic, c.address, c.port) for c in plan.cables if c.rail is not None]
    return list(plan.hosts), nics, root_address()


@dataclass(frozen=True)
class PlannedNic:
    """A NIC that a lab will have."""

    host: str
    name: str
    address: str
    switch_port: str


def root_address() -> str:
    """The first lab host's `mgmt0` (docs/reference/contracts.md, Names in the lab)."""
    return "10.250.0.1"


def _bed(opened: Inventory) -> Bed:
    if opened.switch is None:
        raise UsageError(
            f"the bed {opened.bed} lets nobody into its switch, where these faults act", "use --inventory lab"
        )
    return Bed(
        opened.bed,
        opened.hosts,
        opened.switch,
        list(opened.nics),
        root_address(),
        opened.places_file,
        opened.devices,
        machines=opened.bed != LAB,
    )
