"""Emulated machines with soft-RoCE as hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.hosts.base import Host
from harness.sites.listing import ListedHost, of_bed
from harness.sites.site import LAB_ROOT, Nic, Opened, Planned, PlannedNic, Site

if TYPE_CHECKING:
    from harness.lab.topology import Topology
    from harness.vmlab.shape import Shape


BURST_S = 0.004
"""What a NIC may send at once after a rest: as much as its rate in this time, so that the wire may come late."""
LEAST_BURST_BYTES = 18_000
"""Two frames of 9,000 bytes."""


class VmSite(Site):
    """`vm` or `uml`, or `vm:HOSTSxNICS`. The guests' NICs are held to the rates of a topology, if there is one."""

    machines = True
    may_have_torch = False

    def __init__(self, text: str, shape: Shape, rates: Topology | None = None) -> None:
        super().__init__(text)
        self.bed, self.shape, self._rates = shape.engine, shape, rates

    @property
    def topology(self) -> Topology | None:
        return self._rates

    def shaped(self, topology: Topology) -> VmSite:
        return VmSite(self.text, self.shape, topology)

    def planned(self) -> Planned:
        from harness.vmlab.shape import MGMT_NIC

        data = [port for port in self.shape.ports() if port.nic != MGMT_NIC]
        nics = [PlannedNic(port.host, port.nic, port.address, port.name) for port in data]
        return Planned(self.shape.host_names(), nics, LAB_ROOT)

    @contextmanager
    def open(self) -> Iterator[Opened]:
        from harness.progress import show
        from harness.vmlab.lab import VmLab

        with VmLab.up(self.shape, progress=show) as lab:
            if self._rates is not None:
                hold_rates(lab.switch, lab.nics, self._rates)
            yield Opened(lab.hosts, lab.switch, lab.nics)

    def devices(self, net: str) -> dict[tuple[str, str], str]:
        from harness.vmlab.rdma import device_of

        return {(nic.host, nic.name): device_of(nic.name) for nic in self.planned().nics}

    def listing(self) -> list[ListedHost]:
        return [
            of_bed(name, [(port.nic, port.address) for port in self.shape.ports_of(index)])
            for index, name in enumerate(self.shape.host_names())
        ]


def hold_rates(switch: Host, nics: Sequence[Nic], topology: Topology) -> None:
    """Holds the guests' NICs to a topology's rates: one that emulation can keep up with leaves it time to react."""
    for nic in nics:
        rate_bps = round(topology.rate_of(nic.host, nic.name) * 1e9)
        burst = max(LEAST_BURST_BYTES, round(rate_bps / 8 * BURST_S))
        for word, value in (("burst", burst), ("rate", rate_bps)):
            switch.run(["wire", "set", nic.switch_port, "both", word, str(value)])
