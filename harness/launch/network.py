"""The network over which a launcher's daemons reach the machine that started them."""

from __future__ import annotations

import ipaddress
import socket


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
