"""The network over which a launcher's daemons reach the machine that started them."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.hosts.ssh.target import Target


def own_network(targets: Sequence[Target]) -> str:
    """Over which daemons find their way back to us; empty: they try all there are."""
    return towards(targets[0].address) if targets else ""


def towards(address: str) -> str:
    """The network (a.b.c.d/n) of ours in which that address is; empty when it is behind a router, or is none."""
    import psutil

    try:
        wanted = ipaddress.ip_address(socket.gethostbyname(address))
    except (OSError, ValueError):
        return ""
    for addresses in psutil.net_if_addrs().values():
        for each in addresses:
            if each.family != socket.AF_INET or not each.netmask:
                continue
            network = ipaddress.ip_network(f"{each.address}/{each.netmask}", strict=False)
            if wanted in network and not network.is_loopback:
                return str(network)
    return ""
