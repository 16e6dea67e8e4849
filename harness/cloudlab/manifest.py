"""What CloudLab gave out: a GENI v3 manifest as nodes and rails. All its mistakes are reported at once, with lines."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.cloudlab import rails, safe_xml
from harness.cloudlab.safe_xml import Element
from harness.config.words import in_order
from harness.errors import InputErrors, UsageError
from harness.sites.inventory_file import ADDRESS, NAME

GENI = "http://www.geni.net/resources/rspec/3"
HINT = "in CloudLab's portal, choose the experiment, then its Manifest, and save that"
MAC = re.compile(r"[0-9a-f]{12}")
BLOCKSTORE = "emulab-blockstore"
"""No machine: a data set that is mounted over the network."""
NO_MACHINE = (BLOCKSTORE, "delay", "bridge", "dummy", "switch", "emulab-switch")
"""Nodes that nobody logs in to."""
CONTROL = "control"


@dataclass(frozen=True)
class Nic:
    """One interface of a node. The manifest does not say what Linux calls it."""

    client_id: str
    mac: str
    """As Linux writes it."""
    address: str
    lan: str
    rate_gbit: float | None = None


@dataclass(frozen=True)
class Node:
    """One machine, its NICs in the order of rails."""

    name: str
    hardware: str
    component: str
    """What it is called at its site."""
    site: str
    logins: tuple[tuple[str, str, int], ...]
    """User, host name and port of each that may log in."""
    nics: tuple[Nic, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    """Links that are no rails, and why."""


@dataclass
class _Lan:
    name: str
    members: dict[str, float | None] = field(default_factory=dict)
    """Rate of each interface, where the manifest tells it."""


def load(path: Path) -> list[Node]:
    """The nodes of a manifest file. Raises InputErrors with all mistakes; UsageError: it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read manifest {path}: {error}", HINT) from error
    return parse(data, str(path))


def parse(data: bytes, file: str) -> list[Node]:
    """The same of a manifest's bytes; `file` is only what messages call it."""
    try:
        root = safe_xml.parse(data)
    except ValueError as error:
        raise InputErrors([f"{file}:{error}"]) from error
    reader = _Reader(file)
    nodes = reader.read(root)
    if reader.errors:
        raise InputErrors(in_order(reader.errors, file))
    return nodes


class _Reader:
    """Reads on after a mistake, to find the others."""

    def __init__(self, file: str) -> None:
        self.errors: list[str] = []
        self._file = file
        self._seen: dict[str, int] = {}
        self._left_out: dict[str, str] = {}

    def read(self, root: Element) -> list[Node]:
        if (root.space, root.name) != (GENI, "rspec"):
            self._say(root, f"no GENI v3 manifest: its root is <{root.name}> of '{root.space}'; {HINT}")
            return []
        if not _was_given_out(root):
            self._say(root, f"a request, not the manifest: no node in it has a sliver_id or a login; {HINT}")
            return []
        nodes = [node for node in root.all("node") if not _is_no_machine(node)]
        if not nodes:
            self._say(root, "it has no nodes; is the experiment ready?")
        self._left_out = rails.left_out(list(root.all("link")), _storage(root), _control(root))
        lans = list(self._lans(root, {id_ for node in root.all("node") for id_ in _interfaces_of(node)}))
        order = {lan.name: position for position, lan in enumerate(sorted(lans, key=lambda lan: rails.place(lan.name)))}
        return [self._node(node, lans, order) for node in nodes]

    def _say(self, element: Element, text: str) -> None:
        self.errors.append(f"{self._file}:{element.line}: {text}")

    def _named(self, element: Element) -> str:
        """The client_id, which nothing else may have."""
        name = element.text("client_id")
        if not name:
            self._say(element, f"a {element.name} without a client_id")
        elif name in self._seen:
            self._say(element, f"'{name}' is there twice, the first time in line {self._seen[name]}")
        self._seen.setdefault(name, element.line)
        return name

    def _lans(self, root: Element, interfaces: set[str]) -> Iterator[_Lan]:
        for link in root.all("link"):
            lan = _Lan(self._named(link))
            rates = self._rates(link)
            for member in link.all("interface_ref"):
                name = member.text("client_id")
                if name not in interfaces and lan.name not in self._left_out:
                    self._say(member, f"LAN '{lan.name}' has a member '{name}' that no node has")
                lan.members[name] = rates.get(name)
            yield lan

    def _rates(self, link: Element) -> dict[str, float]:
        found: dict[str, float] = {}
        for each in link.all("property"):
            capacity = each.text("capacity")
            if capacity and not re.fullmatch(r"\d{1,12}", capacity):
                self._say(each, f"capacity '{capacity}' is no number of kbit/s")
            elif capacity:
                found[each.text("source_id")] = int(capacity) / 1e6
        return found

    def _node(self, node: Element, lans: Sequence[_Lan], order: dict[str, int]) -> Node:
        name = self._named(node)
        if name and not NAME.fullmatch(name):
            self._say(node, f"'{name}' cannot be a host's name")
        nics = [nic for interface in node.all("interface") if (nic := self._nic(interface, lans)) is not None]
        hardware = node.first("hardware_type")
        site, _, component = _urn(node.text("component_id"))
        nics.sort(key=lambda nic: order[nic.lan])
        kind = hardware.text("name") if hardware is not None else ""
        left_out = tuple(sorted(self._left_out.items()))
        return Node(name, kind, component, site, tuple(self._logins(node, name)), tuple(nics), left_out)

    def _nic(self, interface: Element, lans: Sequence[_Lan]) -> Nic | None:
        """None too for one that carries no data: whatever it lacks is no mistake."""
        before = len(self.errors)
        name = self._named(interface)
        of = [lan for lan in lans if name in lan.members]
        if of and all(lan.name in self._left_out for lan in of):
            return None
        mac = interface.text("mac_address").lower().replace(":", "")
        if not MAC.fullmatch(mac):
            self._say(
                interface, f"interface '{name}' has no MAC address (mac_address='{interface.text('mac_address')}')"
            )
        found = [ip.text("address") for ip in interface.all("ip") if ip.text("type") in ("", "ipv4")]
        if len(found) != 1 or not _is_ipv4(found[0]):
            self._say(interface, f"interface '{name}' needs one IPv4 address, and has {', '.join(found) or 'none'}")
        if len(of) != 1:
            self._say(interface, f"interface '{name}' is in {len(of)} LANs")
        if len(self.errors) > before:
            return None
        colons = ":".join(mac[at : at + 2] for at in range(0, 12, 2))
        return Nic(name, colons, found[0], of[0].name, of[0].members[name])

    def _logins(self, node: Element, name: str) -> Iterator[tuple[str, str, int]]:
        found = [login for services in node.all("services") for login in services.all("login")]
        if not found:
            self._say(node, f"node '{name}' has no login yet: wait until it is ready, then save the manifest again")
        for login in found:
            user, host, port = (login.text(key) for key in ("username", "hostname", "port"))
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", user) or not ADDRESS.fullmatch(host):
                self._say(login, f"login '{user}' at '{host}' cannot be one")
            elif not re.fullmatch(r"\d{1,5}", port or "22") or not 0 < int(port or "22") < 65536:
                self._say(login, f"'{port}' is no port")
            else:
                yield user, host, int(port or "22")


def _was_given_out(root: Element) -> bool:
    """Whatever the root's `type` says: CloudLab's portal shows manifests as "request"."""
    return root.text("type") == "manifest" or any(_has_sliver(node) for node in root.all("node"))


def _has_sliver(node: Element) -> bool:
    return bool(node.text("sliver_id")) or any(True for services in node.all("services") for _ in services.all("login"))


def _sliver(node: Element) -> str:
    found = node.first("sliver_type")
    return found.text("name") if found is not None else ""


def _is_no_machine(node: Element) -> bool:
    return _sliver(node) in NO_MACHINE or _is_data_set(node)


def _is_data_set(node: Element) -> bool:
    """A machine may hold a local one."""
    stores = [child for child in node.children if child.name == "blockstore"]
    remote = any(store.text("class") == "remote" for store in stores)
    return _sliver(node) == BLOCKSTORE or (remote and node.first("services") is None)


def _storage(root: Element) -> frozenset[str]:
    """The interfaces of data sets."""
    return frozenset(name for node in root.all("node") if _is_data_set(node) for name in _interfaces_of(node))


def _control(root: Element) -> frozenset[str]:
    """The interfaces that are the nodes' way to the world."""
    return frozenset(
        interface.text("client_id")
        for node in root.all("node")
        for interface in node.all("interface")
        if _is_control(interface, {host.text("ipv4") for host in node.all("host")} - {""})
    )


def _is_control(interface: Element, addresses: set[str]) -> bool:
    own = {ip.text("address") for ip in interface.all("ip")}
    return bool(own & addresses) or any(child.text("role") == CONTROL for child in interface.children)


def _interfaces_of(node: Element) -> Iterator[str]:
    return (interface.text("client_id") for interface in node.all("interface"))


def _urn(text: str) -> tuple[str, str, str]:
    """Site, kind and name of `urn:publicid:IDN+SITE+KIND+NAME`; empty for what is none."""
    parts = text.split("+")
    return (parts[1], parts[2], parts[3]) if len(parts) == 4 else ("", "", "")


def _is_ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True
