"""Makes a plan real with pyroute2. Runs inside the lab, in a process of its own that ends when the lab stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_interface
from pathlib import Path
from typing import Any

from harness.lab.network.batch import batch
from harness.lab.network.fairqueue import fair_queues
from harness.lab.network.netns import HostNamespaces, inside_network
from harness.lab.plan import SWITCH, Cable, Plan, Shaping, initial_window, largest_packet, largest_window

LOCK_CWND = 1 << 7
"""The bit of RTAX_CWND: only a locked one is heeded."""
# Values are tried in order: an unprivileged lab may only choose a congestion control that the machine allows.
# Those that pace their packets (bbr) cost a fifth more CPU; a bridge that calls iptables costs as much again.
SETTINGS = {
    "net/ipv6/conf/all/disable_ipv6": ("1",),
    "net/ipv6/conf/default/disable_ipv6": ("1",),
    "net/ipv4/tcp_congestion_control": ("cubic", "reno"),
    "net/bridge/bridge-nf-call-iptables": ("0",),
    "net/bridge/bridge-nf-call-ip6tables": ("0",),
    "net/bridge/bridge-nf-call-arptables": ("0",),
}

# Each NIC on its own, as on real fabrics: else a host answers ARP for one rail's address on another rail.
APART = {"arp_ignore": "1", "arp_announce": "2", "rp_filter": "1"}
# What a kernel has by itself. Said nevertheless: this machine's own settings would be inherited.
KERNELS_OWN = {"arp_ignore": "0", "arp_announce": "0", "rp_filter": "0"}

ASK_AGAIN_MS = 100
"""A host that sends while its cable is out asks for the peer's address into the void, and by default again only after
a whole second, wherever in it the cable comes back (docs/results/lab.md)."""
RT_SCOPE_LINK, RTPROT_KERNEL = 253, 2


def make_real(plan: Plan, namespaces: Mapping[str, HostNamespaces]) -> list[str]:
    """Creates everything in `plan`; returns warnings. Any failure leaves it to the lab's death to clean up."""
    warnings: list[str] = []
    with inside_network(namespaces[SWITCH].net):
        warnings += _settings(SWITCH, SETTINGS)
        _make_switch(plan, namespaces)
    for host in plan.hosts:
        with inside_network(namespaces[host].net):
            cables = [cable for cable in plan.cables if cable.host == host]
            warnings += _settings(host, {**SETTINGS, **_neighbourly(plan, cables)})
            warnings += _make_host(host, cables, one_subnet=plan.one_subnet)
    return warnings


def _neighbourly(plan: Plan, cables: Sequence[Cable]) -> dict[str, tuple[str, ...]]:
    """How a host answers for its NICs' addresses: of `all` and of a NIC the kernel takes the greater value."""
    if not plan.one_subnet:
        return {f"net/ipv4/conf/all/{name}": (value,) for name, value in APART.items()}
    where = ("all", *(cable.nic for cable in cables))
    return {f"net/ipv4/conf/{nic}/{name}": (value,) for nic in where for name, value in KERNELS_OWN.items()}


def _settings(host: str, wanted: Mapping[str, Sequence[str]], root: Path = Path("/proc/sys")) -> list[str]:
    """Writes settings for the current network; one warning for what this machine does not let us change."""
    refused = []
    for name, values in wanted.items():
        path = root / name
        if path.exists() and not any(_set(path, value) for value in values):
            refused.append(name)
    return [f"{host}: could not set {', '.join(refused)}"] if refused else []


def _set(path: Path, value: str) -> bool:
    """False when the kernel does not let us."""
    try:
        if path.read_text().strip() != value:
            path.write_text(value)
    except OSError:
        return False
    return True


def _make_switch(plan: Plan, namespaces: Mapping[str, HostNamespaces]) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as ip:
        ip.link("set", index=1, state="up")
        for bridge in plan.bridges:
            # Ports forward at once and addresses are never forgotten while a port is up: no STP, no snooping.
            ip.link("add", ifname=bridge.name, kind="bridge", br_stp_state=0, br_mcast_snooping=0)
        bridges = _indexes(ip)
        for cable in plan.cables:
            far_end = {"ifname": cable.nic, "net_ns_fd": namespaces[cable.host].net, "mtu": cable.mtu}
            ip.link("add", ifname=cable.port, kind="veth", mtu=cable.mtu, peer=far_end)
        ports = _indexes(ip)
        for cable in plan.cables:
            ip.link("set", index=ports[cable.port], master=bridges[cable.bridge], state="up")
            _shape(ip, ports[cable.port], cable.shaping)
        for bridge in plan.bridges:
            ip.link("set", index=bridges[bridge.name], mtu=bridge.mtu, state="up")


def _make_host(host: str, cables: Sequence[Cable], *, one_subnet: bool) -> list[str]:
    from pyroute2 import IPRoute

    with IPRoute() as ip:
        ip.link("set", index=1, state="up")
        indexes = _indexes(ip)
        for cable in cables:
            index = indexes[cable.nic]
            _shape(ip, index, cable.shaping)
            ip.addr("add", index=index, address=cable.address, prefixlen=cable.prefix)
            ip.link("set", index=index, state="up")
            if cable.shaping is not None:
                ip.link("set", index=index, gso_max_size=largest_packet(cable.shaping, cable.mtu))
                _tune_route(ip, index, cable, one_subnet=one_subnet)
    nics = {c.nic: largest_packet(c.shaping, c.mtu) for c in cables if c.shaping is not None}
    queues = fair_queues(nics)
    warnings = [f"{host}: its flows share one queue a NIC: {queues}"] if queues else []
    asking = batch("ip", (f"ntable change name arp_cache dev {nic} retrans {ASK_AGAIN_MS}" for nic in nics))
    return [*warnings, f"{host}: an address that is not answered is asked for late: {asking}"] if asking else warnings


def _tune_route(ip: Any, index: int, cable: Cable, *, one_subnet: bool) -> None:
    """What hosts of a fast fabric are tuned to: a connection that was idle may send one chunk at once, not in two.

    The kernel's own route to the rail is replaced by one that differs in nothing else. In one subnet `replace` would
    take the first NIC's: there the route is removed, and its successor is the last of the list as it was itself.
    """
    network = str(ip_interface(f"{cable.address}/{cable.prefix}").network)
    window = initial_window(cable)
    own = {"dst": network, "oif": index, "prefsrc": cable.address, "scope": RT_SCOPE_LINK, "proto": RTPROT_KERNEL}
    if one_subnet:
        ip.route("del", **own)
    metrics = {"initcwnd": window, "initrwnd": window}
    if (most := largest_window(cable)) is not None:
        metrics |= {"cwnd": most, "lock": LOCK_CWND}
    ip.route("append" if one_subnet else "replace", **own, metrics=metrics)


def _shape(ip: Any, index: int, shaping: Shaping | None) -> None:
    if shaping is None:
        return
    ip.tc(
        "add",
        "tbf",
        index=index,
        handle="1:0",
        rate=round(shaping.rate_gbit * 1e9 / 8),
        burst=shaping.burst_bytes,
        limit=shaping.limit_bytes,
    )


def _indexes(ip: Any) -> dict[str, int]:
    return {link.get_attr("IFLA_IFNAME"): int(link["index"]) for link in ip.get_links()}
