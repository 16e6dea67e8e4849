"""One function a kind of fault. The order of PROCESSES numbers their streams: add at its end only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chaos.simulate.cluster.topology import Topology
from chaos.simulate.faults.draws import Drawn, Draws, split

Process = Callable[[Draws, Topology], Drawn]


def nic_tor(draws: Draws, of: Topology) -> Drawn:
    """A cable or transceiver between NIC and ToR fails: one port."""
    t_s, element = draws.times("nic_tor_per_month", of.hosts * of.nics * of.ports)
    lasting = draws.lasting("nic_tor_repair_s", "nic_tor_repair_sigma", len(t_s))
    return Drawn("cut", "port", t_s, lasting, split(element, of.hosts, of.nics, of.ports))


def tor(draws: Draws, of: Topology) -> Drawn:
    """A whole ToR: every port at it."""
    t_s, element = draws.times("tor_per_month", of.tors)
    return Drawn(
        "cut", "tor", t_s, draws.lasting("tor_repair_s", "tor_repair_sigma", len(t_s)), split(element, of.tors)
    )


def card(draws: Draws, of: Topology) -> Drawn:
    """A NIC with all its ports."""
    t_s, element = draws.times("card_per_month", of.hosts * of.nics)
    lasting = draws.lasting("card_repair_s", "card_repair_sigma", len(t_s))
    return Drawn("cut", "nic", t_s, lasting, split(element, of.hosts, of.nics))


def flap(draws: Draws, of: Topology) -> Drawn:
    """Clusters of short outages of one port, each a fault of its own; the next begins after the last one's end."""
    first_s, element = draws.times("flap_clusters_per_month", of.hosts * of.nics * of.ports)
    sizes = draws.random.geometric(1.0 / max(1.0, draws.value("flaps_per_cluster")), len(first_s))
    count = int(sizes.sum())
    lasting = draws.lasting("flap_s", "flap_sigma", count)
    steps = draws.random.exponential(draws.value("flap_gap_s"), count) + lasting
    heads = np.cumsum(sizes) - sizes
    since = np.cumsum(steps) - steps
    t_s = np.repeat(first_s - since[heads] if count else first_s, sizes) + since
    kept = t_s < draws.horizon_s
    where = split(np.repeat(element, sizes), of.hosts, of.nics, of.ports)
    return Drawn("flap", "port", t_s[kept], lasting[kept], where[kept])


def slow(draws: Draws, of: Topology) -> Drawn:
    """A NIC that for a while carries less: fail-slow."""
    t_s, element = draws.times("slow_per_month", of.hosts * of.nics)
    lasting = draws.lasting("slow_s", "slow_sigma", len(t_s))
    left = draws.between("slow_least", "slow_most", len(t_s))
    return Drawn("degraded", "nic", t_s, lasting, split(element, of.hosts, of.nics), left)


def below_rate(draws: Draws, of: Topology) -> Drawn:
    """Hosts of which one NIC is below its rate all the time."""
    hosts = draws.chosen("below_rate_host_share", of.hosts)
    nics = draws.random.integers(of.nics, size=len(hosts))
    left = draws.between("below_rate_least", "below_rate_most", len(hosts))
    lasting = np.full(len(hosts), draws.horizon_s)
    return Drawn("degraded", "nic", np.zeros(len(hosts)), lasting, np.stack((hosts, nics), axis=1), left)


def lemon(draws: Draws, of: Topology) -> Drawn:
    """A few hosts of which one NIC fails again and again."""
    hosts = draws.chosen("lemon_host_share", of.hosts)
    nics = draws.random.integers(of.nics, size=len(hosts))
    t_s, which = draws.times("lemon_per_month", len(hosts)) if len(hosts) else (np.zeros(0), np.zeros(0, np.int64))
    lasting = draws.lasting("lemon_s", "lemon_sigma", len(t_s))
    return Drawn("cut", "nic", t_s, lasting, np.stack((hosts[which], nics[which]), axis=1))


def black_hole(draws: Draws, of: Topology) -> Drawn:
    """A port that loses everything while its link stays up: nobody is told."""
    t_s, element = draws.times("black_hole_per_month", of.hosts * of.nics * of.ports)
    lasting = draws.lasting("black_hole_repair_s", "black_hole_repair_sigma", len(t_s))
    return Drawn("cut", "port", t_s, lasting, split(element, of.hosts, of.nics, of.ports), silent=True)


def spine(draws: Draws, of: Topology) -> Drawn:
    """A spine switch."""
    spines = of.fabric.spines if of.fabric.spine else 0
    t_s, element = draws.times("spine_per_month", spines) if spines else (np.zeros(0), np.zeros(0, np.int64))
    lasting = draws.lasting("spine_repair_s", "spine_repair_sigma", len(t_s))
    return Drawn("cut", "spine", t_s, lasting, element.reshape(-1, 1))


def uplink(draws: Draws, of: Topology) -> Drawn:
    """A ToR's way to one spine switch."""
    spines = of.fabric.spines if of.fabric.spine else 0
    found = draws.times("uplink_per_month", spines * of.tors) if spines else (np.zeros(0), np.zeros(0, np.int64))
    lasting = draws.lasting("spine_repair_s", "spine_repair_sigma", len(found[0]))
    return Drawn("cut", "spine", found[0], lasting, split(found[1], spines or 1, of.tors))


def host(draws: Draws, of: Topology) -> Drawn:
    """A host with everything in it, for reasons that no network has."""
    t_s, element = draws.times("host_per_month", of.hosts)
    return Drawn(
        "cut", "host", t_s, draws.lasting("host_repair_s", "host_repair_sigma", len(t_s)), element.reshape(-1, 1)
    )


PROCESSES: dict[str, tuple[Process, str]] = {
    "nic_tor": (nic_tor, "nic_tor_per_month"),
    "tor": (tor, "tor_per_month"),
    "card": (card, "card_per_month"),
    "flap": (flap, "flap_clusters_per_month"),
    "slow": (slow, "slow_per_month"),
    "below_rate": (below_rate, "below_rate_host_share"),
    "lemon": (lemon, "lemon_host_share"),
    "black_hole": (black_hole, "black_hole_per_month"),
    "spine": (spine, "spine_per_month"),
    "uplink": (uplink, "uplink_per_month"),
    "host": (host, "host_per_month"),
}
"""Each with the parameter that is 0 where it is off."""
RATES = {name: rate for name, (_, rate) in PROCESSES.items()}
