"""CanonicalizeHostname: a short name looked up in the domains of the configuration, as OpenSSH does."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from ipaddress import ip_address

from harness.hosts.ssh_config.lines import SshConfigError

MOST_DOTS = 1


def literal(host: str) -> str:
    """A name in lower case; an address as it is usually written."""
    try:
        return str(ip_address(host))
    except ValueError:
        return host.lower()


def canonical(host: str, one: Mapping[str, str], many: Mapping[str, tuple[str, ...]], *, proxied: bool) -> str | None:
    """The whole name, or `host` where none of the domains has it; None: the configuration does not ask for it.

    Raises SshConfigError where no domain has it, and the configuration wants no other name.
    """
    wanted = one.get("canonicalizehostname", "no")
    if wanted == "no":
        return None
    if (proxied and wanted != "always") or _is_address(host):
        return host
    if host.endswith("."):
        return host.rstrip(".") if _is_there(host) else host
    if host.count(".") > int(one.get("canonicalizemaxdots", MOST_DOTS)):
        return host
    for domain in many.get("canonicaldomains", ()):
        if domain.lower() != "none" and _is_there(f"{host}.{domain}."):
            return f"{host}.{domain}"
    if one.get("canonicalizefallbacklocal", "yes") == "no":
        raise SshConfigError(f"CanonicalDomains of {host}", "none of the domains has that host")
    return host


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_there(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError):
        return False
