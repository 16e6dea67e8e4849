"""Which machines an experiment runs on: the lab by default. Nothing of it outlives its context manager."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.config.words import listed
from harness.errors import InputErrors, LabError, UsageError
from harness.hosts import Host
from harness.hosts.commands import merged_env
from harness.sites import slurm

if TYPE_CHECKING:
    from harness.lab.lab import Nic
    from harness.lab.topology import Topology
    from harness.sites.inventory_file import ClusterHost
    from harness.vmlab.shape import Shape

LAB_TOOLS = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables"}
SUPPORTED = (
    "supported: lab (the default), lab:FILE with a topology file or the name of a shipped topology, "
    "vm or vm:2x4 for emulated machines with soft-RoCE (hosts x NICs), "
    "FILE or FILE:node[1-4] with hosts over SSH (docs/howto/cluster.md), slurm for those of our allocation"
)
VM = re.compile(r"vm(?::(?P<hosts>[1-8])x(?P<nics>[1-8]))?")


@dataclass(frozen=True)
class Inventory:
    """An open bed. `switch` is where cables are cut; None where nobody lets us into the switch."""

    bed: str
    hosts: Mapping[str, Host]
    switch: Host | None
    nics: Sequence[Nic]
    places_file: Path | None = None
    """For R2CC_TOPO_FILE, where the machines themselves cannot show how near their NICs are to each other."""
    devices: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """The RDMA device of each (host, NIC); empty: this bed has none."""


@contextmanager
def open_inventory(spec: str = "lab") -> Iterator[Inventory]:
    """Opens the bed that `--inventory` names; what was made for it is gone when the block ends, however it ends.

    Raises, before anything is started: UsageError (exit 2) for a bed that does not exist, InputErrors for a bad
    topology, LabError (exit 3) when this machine cannot carry a lab.
    """
    from harness.lab.lab import Lab

    shape = vm_shape(spec)
    if shape is not None:
        with _open_vm(shape) as opened:
            yield opened
        return
    topology = topology_of(spec)
    require_tools()
    with Lab.up(topology) as lab:
        yield Inventory("lab", lab.hosts, lab.switch, lab.nics, lab.places_file)


@contextmanager
def open_hosts(spec: str) -> Iterator[Mapping[str, Host]]:
    """The hosts of a bed, or of an inventory file: those are not connected to yet. Raises as `open_inventory` does."""
    if not is_cluster(spec):
        with open_inventory(spec) as bed:
            yield bed.hosts
        return
    from harness.hosts.ssh import ssh_hosts

    with ssh_hosts(host.target for host in cluster_hosts(spec)) as hosts:
        yield hosts


def is_cluster(spec: str) -> bool:
    """Whether `--inventory` names a file of hosts over SSH, or some of its hosts (`FILE:node[1-4]`), or `slurm`."""
    if spec == "slurm":
        return True
    return spec != "lab" and not spec.startswith("lab:") and vm_shape(spec) is None and _file_of(spec)[0].is_file()


def require_cluster(spec: str, why: str, hint: str) -> None:
    """UsageError when `spec` names no hosts over SSH: the file is missing, or it is a bed that we build, and `why` that
    is not enough."""
    if is_cluster(spec):
        return
    missing = _no_file(spec)
    raise UsageError(f"'{spec}' is no inventory file{missing or f': {why}'}", hint)


def cluster_hosts(spec: str) -> list[ClusterHost]:
    """The hosts that FILE or FILE:RANGE means, in the file's order. UsageError for a range that names none of them,
    and for what `harness.sites.inventory_file.load` finds wrong."""
    from harness.sites.inventory_file import load

    if spec == "slurm":
        return slurm.hosts(os.environ)
    file, words = _file_of(spec)
    hosts = load(file)
    wanted = _wanted(spec, [host.name for host in hosts])
    return [host for host in hosts if host.name in wanted] if words else hosts


def usable_hosts(spec: str) -> tuple[list[ClusterHost], Mapping[str, InputErrors]]:
    """The same, but what is wrong with single hosts keeps none of the others from being asked: (hosts, what is wrong
    with others by name)."""
    from harness.sites.inventory_file import load_usable

    if spec == "slurm":
        return slurm.hosts(os.environ), {}
    hosts, wrong = load_usable(_file_of(spec)[0])
    wanted = _wanted(spec, [*(host.name for host in hosts), *wrong])
    return [host for host in hosts if host.name in wanted], {name: wrong[name] for name in wrong if name in wanted}


def _wanted(spec: str, known: Sequence[str]) -> set[str]:
    """Names that the range in FILE:RANGE means; all that are known without one."""
    from harness.sites.ranges import expand

    file, words = _file_of(spec)
    try:
        wanted = set(expand(words)) if words else set(known)
    except ValueError as error:
        raise UsageError(f"--inventory {spec}: {error}", "write FILE:node[1-4] for some of its hosts") from error
    unknown = sorted(wanted - set(known))
    if unknown:
        raise UsageError(f"{file} has no host {listed(unknown)}", f"r2cc hosts list --inventory {file}")
    return wanted


def _file_of(spec: str) -> tuple[Path, str]:
    """A file whose name has a colon in it is still a file."""
    name, _, words = spec.rpartition(":")
    if Path(spec).is_file() or not name or not Path(name).is_file():
        return Path(spec), ""
    return Path(name), words


def vm_shape(spec: str) -> Shape | None:
    """The guests that `vm` or `vm:HOSTSxNICS` means; None for every other bed."""
    from harness.vmlab.shape import Shape

    found = VM.fullmatch(spec)
    if found is None:
        return None
    asked = {name: int(count) for name, count in found.groupdict().items() if count}
    return Shape.fitting(len(os.sched_getaffinity(0)), **asked)


@contextmanager
def _open_vm(shape: Shape) -> Iterator[Inventory]:
    from harness.progress import show
    from harness.vmlab.lab import VmLab
    from harness.vmlab.rdma import device_of

    with VmLab.up(shape, progress=show) as lab:
        devices = {(nic.host, nic.name): device_of(nic.name) for nic in lab.nics}
        yield Inventory("vm", lab.hosts, lab.switch, lab.nics, devices=devices)


def topology_of(spec: str) -> Topology:
    """What the lab that `spec` names would look like; nothing is started. Raises UsageError or InputErrors."""
    from harness.lab.topology import Topology

    return Topology.load(_topology_source(spec))


def _topology_source(spec: str) -> str | Path:
    """`lab` means the shipped default; `lab:NAME` a shipped topology; `lab:FILE` a file."""
    kind, colon, source = spec.partition(":")
    if kind == "lab" and source:
        return source
    if spec == "lab":
        return "default"
    if kind == "vm":
        raise UsageError(f"'{spec}' is no vm lab: at most 8 hosts and 8 NICs", SUPPORTED)
    if kind == "lab" and colon:
        raise UsageError("'lab:' names no topology file", SUPPORTED)
    if Path(spec).is_file():
        raise UsageError(f"inventory {spec}: hosts over SSH are no lab", SUPPORTED)
    raise UsageError(f"no inventory '{spec}'{_no_file(spec)}", SUPPORTED)


def _no_file(spec: str) -> str:
    """What is wrong with a file that was meant; empty where none was."""
    if Path(spec).exists():
        return ": it is no file"
    return ": there is no such file" if "/" in spec or re.search(r"\.ya?ml(:|$)", spec) else ""


def require_tools(path: str | None = None) -> None:
    """Raises LabError naming every program that faults in the lab need and this machine lacks."""
    where = merged_env(None)["PATH"] if path is None else path
    missing = [tool for tool in LAB_TOOLS if shutil.which(tool, path=where) is None]
    if missing:
        packages = " ".join(sorted({LAB_TOOLS[tool] for tool in missing}))
        raise LabError(f"the lab needs {', '.join(missing)}", f"sudo apt-get install {packages}")
