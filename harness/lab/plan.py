"""From a topology to the list of things to make. Pure: nothing here touches the machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the process inside the lab uses plans only and must start fast
    from harness.lab.topology import Topology

SWITCH = "switch"
MGMT_BRIDGE = "mgmt"
MGMT_NIC = "mgmt0"

MIN_BURST_BYTES = 65536
BURST_MS = 1.0
QUEUE_MS = 2.0
MIN_QUEUE_BYTES = 250_000
RAIL_PREFIX, ONE_SUBNET_PREFIX = 24, 11
"""10.0.0.0/11 holds the addresses of all rails, and not the management network's."""
INITIAL_WINDOW = 24
"""Segments of 9000 bytes: NCCL's chunk of 128 KiB and half of the next (docs/results/lab.md says what was tried)."""
WINDOW_MS = 3.5
LEAST_WINDOW = 6
PACKET_MS = 1.0
MOST_PACKET_BYTES = 65536
BYTES_A_MS = 125_000  # at 1 Gbit/s


@dataclass(frozen=True)
class Shaping:
    """A token bucket: at most `burst_bytes` at once, then `rate_gbit`; what waits fits in `limit_bytes`, then drops."""

    rate_gbit: float
    burst_bytes: int
    limit_bytes: int


@dataclass(frozen=True)
class Bridge:
    """One rail's switch (or the management network's)."""

    name: str
    mtu: int


@dataclass(frozen=True)
class Cable:
    """A veth pair from a host's NIC to a switch port; `shaping` applies on egress at both of its ends."""

    host: str
    nic: str
    address: str
    prefix: int
    port: str
    bridge: str
    mtu: int
    rail: int | None
    shaping: Shaping | None


@dataclass(frozen=True)
class Plan:
    """Everything to make, in order: namespaces, bridges inside `switch`, cables."""

    hosts: tuple[str, ...]
    bridges: tuple[Bridge, ...]
    cables: tuple[Cable, ...]
    one_subnet: bool = False


def shaping(rate_gbit: float, mtu: int) -> Shaping:
    """Numbers chosen by measurement (docs/results/lab.md): burst holds the rate, the short queue keeps probes fast."""
    bytes_per_ms = rate_gbit * BYTES_A_MS
    burst = max(MIN_BURST_BYTES, int(bytes_per_ms * BURST_MS), 2 * mtu)
    return Shaping(rate_gbit, burst, max(int(bytes_per_ms * QUEUE_MS), MIN_QUEUE_BYTES))


def largest_packet(shaping: Shaping, mtu: int) -> int:
    """Bytes that TCP may hand to a NIC at once (GSO): 1 ms of the rate, as TCP itself aims at, but a bucket hides it.

    A bucket takes a packet whole, and all others of its NIC wait meanwhile.
    """
    return min(MOST_PACKET_BYTES, max(2 * mtu, int(shaping.rate_gbit * BYTES_A_MS * PACKET_MS)))


def initial_window(cable: Cable) -> int:
    """Segments that a TCP connection may send at once: on slow wires what they carry in WINDOW_MS."""
    if cable.shaping is None:
        return INITIAL_WINDOW
    return max(2, min(INITIAL_WINDOW, int(cable.shaping.rate_gbit * BYTES_A_MS * WINDOW_MS) // cable.mtu))


def largest_window(cable: Cable) -> int | None:
    """Segments that a TCP connection may have on its way, of a NIC below 1 Gbit/s: what it carries in WINDOW_MS.

    There the least queue (MIN_QUEUE_BYTES) is many ms long, and one flow alone would fill it. None: no limit.
    """
    if cable.shaping is None or cable.shaping.rate_gbit >= 1.0:
        return None
    return max(LEAST_WINDOW, int(cable.shaping.rate_gbit * BYTES_A_MS * WINDOW_MS) // cable.mtu)


def too_many_neighbours(plan: Plan, kept: int) -> list[str]:
    """A warning where all-to-all traffic needs more neighbour entries than the machine keeps for all its networks.

    Addresses beyond that are never resolved, and who connects to them waits for ever without an error.
    """
    on_rail = Counter(cable.bridge for cable in plan.cables if cable.rail is not None)
    needed = sum(hosts * (hosts - 1) for hosts in on_rail.values())
    if needed <= kept:
        return []
    advice = f"sysctl -w net.ipv4.neigh.default.gc_thresh3={2 * needed}"
    return [
        f"all-to-all needs {needed} neighbour entries and this machine keeps {kept}: connections beyond that wait for"
        f" ever; as root: {advice}"
    ]


def describe(topology: Topology) -> Plan:
    """Topology to plan; names and addresses as docs/reference/contracts.md fixes them."""
    hosts = tuple(f"h{i}" for i in range(topology.hosts))
    rails = range(topology.nics)
    switches = range(1 if topology.one_subnet else topology.nics)
    bridges = (*(Bridge(f"rail{rail}", topology.mtu) for rail in switches), Bridge(MGMT_BRIDGE, topology.mtu))
    cables = [_data_cable(topology, i, rail) for i in range(topology.hosts) for rail in rails]
    cables += [_mgmt_cable(topology, i) for i in range(topology.hosts)]
    return Plan(hosts, bridges, tuple(cables), topology.one_subnet)


def _data_cable(topology: Topology, index: int, rail: int) -> Cable:
    host, nic = f"h{index}", f"eth{rail}"
    return Cable(
        host=host,
        nic=nic,
        address=f"10.{rail + 1}.0.{index + 1}",
        prefix=ONE_SUBNET_PREFIX if topology.one_subnet else RAIL_PREFIX,
        port=f"{host}-{nic}",
        bridge=f"rail{0 if topology.one_subnet else rail}",
        mtu=topology.mtu,
        rail=rail,
        shaping=shaping(topology.rate_of(host, nic), topology.mtu),
    )


def _mgmt_cable(topology: Topology, index: int) -> Cable:
    host = f"h{index}"
    return Cable(
        host=host,
        nic=MGMT_NIC,
        address=f"10.250.0.{index + 1}",
        prefix=RAIL_PREFIX,
        port=f"{host}-{MGMT_NIC}",
        bridge=MGMT_BRIDGE,
        mtu=topology.mtu,
        rail=None,
        shaping=None,
    )


def plan_from_json(value: Mapping[str, Any]) -> Plan:
    """The inverse of `asdict`."""
    cables = [Cable(**{**c, "shaping": Shaping(**c["shaping"]) if c["shaping"] else None}) for c in value["cables"]]
    return Plan(
        tuple(value["hosts"]),
        tuple(Bridge(**b) for b in value["bridges"]),
        tuple(cables),
        bool(value.get("one_subnet")),
    )
