"""Clusters, faults and a brute-force reading of a trace, for the tests of simulations."""

from __future__ import annotations

from hypothesis import strategies as st

from chaos.simulate.cluster import topology_files as topologies
from chaos.simulate.cluster.topology import Topology, tor_of
from chaos.simulate.faults.trace import Fault, Trace

SMALL = topologies.load({"name": "small", "hosts": 4, "nics": 2, "fabric": {"pod": 2, "spines": 4}})
DUAL = topologies.load({"name": "dual", "hosts": 4, "nics": 2, "ports": 2, "fabric": {"pod": 2, "spines": 4}})
RACK = topologies.load({"name": "rack", "hosts": 4, "nics": 2, "ports": 2, "fabric": {"kind": "rack", "pod": 2}})
BUILT = topologies.load(
    {"name": "built", "hosts": 4, "nics": 2, "overrides": [{"host": 1, "nic": 0, "capacity": 0.5}]},
)
ALL = (SMALL, DUAL, RACK, BUILT)


def faults(of: Topology, days: float) -> st.SearchStrategy[Fault]:
    """Any fault that `of` can have; few places and times, so that many overlap or touch."""
    hosts, nics, ports = (st.integers(0, count - 1) for count in (of.hosts, of.nics, of.ports))
    tors, spines = st.integers(0, of.tors - 1), st.integers(0, of.fabric.spines - 1)
    places = st.one_of(
        st.tuples(st.just("nic"), st.tuples(hosts, nics)),
        st.tuples(st.just("port"), st.tuples(hosts, nics, ports)),
        st.tuples(st.just("tor"), st.tuples(tors)),
        st.tuples(st.just("spine"), st.tuples(spines)),
        st.tuples(st.just("spine"), st.tuples(spines, tors)),
        st.tuples(st.just("host"), st.tuples(hosts)),
    )
    times = st.one_of(st.integers(0, 12).map(float), st.floats(0, days * 86400 * 1.2))
    lasting = st.one_of(st.integers(1, 6).map(float), st.floats(1e-3, days * 86400))
    return st.builds(
        lambda t_s, lasts, place, factor, kind, silent: Fault(
            t_s, lasts, kind, place[0], place[1], factor, "test", silent
        ),
        times,
        lasting,
        places,
        st.sampled_from((0.0, 0.0, 0.25, 0.5, 0.9)),
        st.sampled_from(("cut", "flap", "degraded")),
        st.booleans(),
    )


def traces(of: Topology, days: float = 10 / 86400) -> st.SearchStrategy[Trace]:
    some = st.lists(faults(of, days), max_size=12).map(lambda found: tuple(sorted(found, key=lambda f: f.t_s)))
    return st.builds(lambda found: Trace(0, days, of.name, found), some)


def left_at(trace: Trace, of: Topology, t_s: float) -> tuple[dict[int, tuple[float, ...]], float]:
    """What the hosts and the fabric have left at a time: every fault looked at for every port."""
    now = [fault for fault in trace.faults if fault.t_s <= t_s < fault.t_s + fault.duration_s]

    def least(what: str, *where: int) -> float:
        return min([1.0, *(fault.factor for fault in now if (fault.what, fault.where) == (what, where))])

    def nic_left(host: int, nic: int) -> float:
        ports = [
            min(least("port", host, nic, port), least("tor", tor_of(of, host, nic, port))) for port in range(of.ports)
        ]
        built = of.as_built.get(host, of.whole)[nic]
        return min(built, least("host", host), least("nic", host, nic), sum(ports) / of.ports)

    hosts = {host: tuple(nic_left(host, nic) for nic in range(of.nics)) for host in range(of.hosts)}
    spines = range(of.fabric.spines)
    fabric = min(
        sum(min(least("spine", spine), least("spine", spine, tor)) for spine in spines) / of.fabric.spines
        for tor in range(of.tors)
    )
    return {host: left for host, left in hosts.items() if min(left) < 1}, fabric
