"""The lab: network namespaces of this machine as hosts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from harness.errors import LabError
from harness.hosts.commands import merged_env
from harness.sites.listing import ListedHost, of_bed
from harness.sites.site import LAB_ROOT, Opened, Planned, PlannedNic, Site

if TYPE_CHECKING:
    from pathlib import Path

    from harness.lab.remote import Inside
    from harness.lab.topology import Topology

LAB_TOOLS = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables"}


class LabSite(Site):
    """`lab`, or `lab:NAME` and `lab:FILE` for a topology that is shipped or in a file."""

    bed = "lab"

    def __init__(self, text: str = "lab", source: str = "", topology: Topology | None = None) -> None:
        super().__init__(text)
        self._source, self._given = source, topology
        self.adopts_topology = not source

    @cached_property
    def topology(self) -> Topology:
        """UsageError without the file, InputErrors with every mistake in it."""
        from harness.lab.topology import Topology

        return self._given or Topology.load(self._source or "default")

    def shaped(self, topology: Topology) -> LabSite:
        return LabSite(self.text, topology=topology) if self.adopts_topology else self

    def planned(self) -> Planned:
        from harness.lab.plan import describe

        plan = describe(self.topology)
        cables = [each for each in plan.cables if each.rail is not None]
        return Planned([*plan.hosts], [PlannedNic(c.host, c.nic, c.address, c.port) for c in cables], LAB_ROOT)

    @contextmanager
    def open(self) -> Iterator[Opened]:
        from harness.lab.lab import Lab

        topology = self.topology
        require_tools()
        with Lab.up(topology) as lab:
            yield Opened(lab.hosts, lab.switch, lab.nics, lab.places_file, lab.warnings)

    def inside(self, folder: Path) -> Inside:
        from harness.lab.plan import MGMT_NIC, describe
        from harness.lab.remote import NETWORK, Inside, shell

        cables = [each for each in describe(self.topology).cables if each.nic == MGMT_NIC]
        addresses = {each.host: each.address for each in cables}
        return Inside(addresses, NETWORK, shell(addresses, folder))

    def listing(self) -> list[ListedHost]:
        from harness.lab.plan import describe

        plan = describe(self.topology)
        nics = {name: [(each.nic, each.address) for each in plan.cables if each.host == name] for name in plan.hosts}
        return [of_bed(name, nics[name], self.topology.gpus) for name in plan.hosts]

    def gpus(self) -> int:
        return self.topology.gpus


def require_tools(path: str | None = None) -> None:
    """Raises LabError naming every program that faults in the lab need and this machine lacks."""
    where = merged_env(None)["PATH"] if path is None else path
    missing = [tool for tool in LAB_TOOLS if shutil.which(tool, path=where) is None]
    if missing:
        packages = " ".join(sorted({LAB_TOOLS[tool] for tool in missing}))
        raise LabError(f"the lab needs {', '.join(missing)}", f"sudo apt-get install {packages}")
