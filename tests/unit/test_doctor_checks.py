"""Each check on literal facts: what it says of a host that is wrong in one way, and nothing of a sound one."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from doctor_double import absent, address, ethtool, gid_table, link, patient, port, seen, shown

from harness.doctor.engine import examine
from harness.doctor.examination import sendings, voices
from harness.doctor.model import ERROR, NOTE, WARNING, Datagram, Fleet, Patient
from harness.doctor.model import Path as Way
from harness.doctor.registry import CHECKS
from harness.facts import FactError, catalogue
from harness.facts.datagrams import Voice
from harness.facts.ethtool import Module
from harness.facts.ibv import Device as VerbsDevice
from harness.facts.ibv import Port as VerbsPort
from harness.facts.iproute import Address, Chain, Counters, Qdisc, RdmaLink, Route
from harness.facts.kernel import Identity, Kernel, Storage
from harness.facts.nvidia import Gpu
from harness.facts.sysfs import Gid

GIB = 1 << 30
NO_FLAGS = frozenset[str]()
GPU = Gpu(0, "0000:18:00.0", "580.1", 16, 16, 0)
STORAGE = Storage("/home/a/.r2cc", "/home/a", True, 100 * GIB, 16 * GIB)
KERNEL = Kernel("6.8.0", 0, (), True, "Open Kernel Module 580.1")


def test_sound_hosts_have_nothing() -> None:
    fleet = Fleet(tuple(patient(f"h{number}") for number in range(3)))
    assert examine(fleet, CHECKS).findings == []


class TestNics:
    def test_present(self) -> None:
        assert seen("nic-present", patient(data=("eth0", "eth7"))) == [
            (ERROR, "h0", "eth7", "there is no such NIC (there are: eth0, eth1)")
        ]
        assert seen("nic-present", patient(data=())) == [(ERROR, "h0", "", "no NIC carries data here")]

    @pytest.mark.parametrize(
        ("flags", "text"),
        [(NO_FLAGS, "it is down"), (frozenset({"UP"}), "no signal: its link is down")],
    )
    def test_state(self, flags: frozenset[str], text: str) -> None:
        links = (link("eth0"), link("eth1", flags=flags))
        assert seen("nic-state", patient(facts={catalogue.LINKS: links})) == [(ERROR, "h0", "eth1", text)]

    def test_no_address(self) -> None:
        found = patient(facts={catalogue.ADDRESSES: (address("eth0", "10.1.0.1"),)})
        none = "it has no IPv4 address, nor a global one of IPv6: R2CC passes it through unwrapped"
        ((severity, *where, text),) = seen("nic-state", found)
        assert (severity, where) == (ERROR, ["h0", "eth1"])
        assert text.startswith(none)

    @pytest.mark.parametrize(("text", "unwrapped"), [("fe80::1", True), ("fd00::1", False), ("2001:db8::1", False)])
    def test_ipv6_alone(self, text: str, unwrapped: bool) -> None:
        six = (address("eth0", "10.1.0.1"), Address("eth1", "inet6", text, 64))
        ((severity, _, nic, said),) = seen("nic-state", patient(facts={catalogue.ADDRESSES: six}))
        assert (severity, nic) == (ERROR, "eth1")
        assert ("unwrapped" in said) == unwrapped

    def test_speed(self) -> None:
        slow = {catalogue.ETHTOOL: {"eth0": ethtool(), "eth1": ethtool(50.0, 100.0)}}
        assert seen("nic-speed", patient(facts=slow)) == [(WARNING, "h0", "eth1", "50 Gbit/s, though it can do 100")]
        other = {catalogue.NET: {"eth0": shown("eth0", 25.0), "eth1": shown("eth1", None)}}
        assert seen("nic-speed", patient("h0"), patient("h1", other)) == [
            (WARNING, "h1", "eth0", "25 Gbit/s, others have 100")
        ]

    def test_mtu_by_rail(self) -> None:
        odd = {catalogue.LINKS: (link("eth0"), link("eth1", 1500))}
        assert seen("nic-mtu", patient("h0"), patient("h1", odd), patient("h2")) == [
            (ERROR, "h1", "eth1", "MTU 1500, its rail's other NICs have 9000")
        ]
        plain = {catalogue.LINKS: (link("eth0", 1500), link("eth1", 1500))}
        assert seen("nic-mtu", patient("h0", plain), patient("h1", plain)) == [
            (NOTE, "h0 h1", "eth[0-1]", "MTU 1500 on a fast NIC")
        ]

    def test_shaping(self) -> None:
        tbf = Qdisc("eth0", "tbf", 1.0, 0, 0)
        lossy = Qdisc("eth1", "netem", None, 0.01, 10.0)
        assert seen("nic-shaping", patient("h0", {catalogue.QDISCS: (tbf, lossy)}), patient("h1")) == [
            (WARNING, "h0", "eth0", "tbf limits it to 1 Gbit/s"),
            (WARNING, "h0", "eth1", "netem there: loses 1.00%, delays 10 ms"),
        ]
        every = {catalogue.QDISCS: (tbf, Qdisc("eth1", "tbf", 1.0, 0, 0))}
        assert [each[0] for each in seen("nic-shaping", patient("h0", every), patient("h1", every))] == [NOTE]

    def test_errors(self) -> None:
        rising = {
            **{catalogue.FIRST: {"eth0": Counters(1000, 0, 0)}, catalogue.LAST: {"eth0": Counters(1100, 1, 0)}},
            catalogue.FIRST_RDMA: {"mlx5_0/1": {"symbol_error": 1, "link_downed": 2}},
            catalogue.LAST_RDMA: {"mlx5_0/1": {"symbol_error": 9, "link_downed": 2}},
        }
        assert seen("nic-errors", patient(facts=rising)) == [
            (WARNING, "h0", "eth0", "counts transmission errors while we look"),
            (WARNING, "h0", "mlx5_0/1", "counters rise while we look: symbol_error"),
            (NOTE, "h0", "mlx5_0/1", "its link went down 2 times since it was started"),
        ]
        old = {catalogue.FIRST: {"eth0": Counters(10**9, 5000, 0)}, catalogue.LAST: {"eth0": Counters(10**9, 5000, 0)}}
        assert [each[0] for each in seen("nic-errors", patient(facts=old))] == [NOTE]

    def test_module_and_offloads(self) -> None:
        dark = Module("FS", "SR4", ("Laser rx power low alarm",))
        off = (("tcp-segmentation-offload", False), ("rx-checksumming", True))
        found = patient(facts={catalogue.ETHTOOL: {"eth0": ethtool(module=dark, features=off)}})
        assert seen("nic-module", found) == [
            (WARNING, "h0", "eth0", "optical module (FS SR4): Laser rx power low alarm")
        ]
        assert seen("nic-offload", found) == [(NOTE, "h0", "eth0", "off: tcp-segmentation-offload")]


def way(nic: str, peer: str, *, route: str | None = None, small: bool | None = True, whole: bool | None = True) -> Way:
    return Way(nic, peer, nic, "10.0.0.1", nic if route is None else route, small, whole, 9000)


class TestPaths:
    def test_reach_names_the_nic_that_nobody_reaches(self) -> None:
        one = patient("h0", paths=(way("eth0", "h1"), way("eth0", "h2", small=False)))
        two = patient("h1", paths=(way("eth0", "h0"), way("eth0", "h2", small=False)))
        three = patient("h2", paths=(way("eth0", "h0", small=False), way("eth0", "h1", small=False)))
        assert seen("path-reach", one, two, three) == [
            (ERROR, "h2", "eth0", "it reaches no NIC of its rail (h[0-1]), though up")
        ]

    def test_reach_between_two(self) -> None:
        one, two = patient("h0", paths=(way("eth0", "h1", small=False),)), patient("h1")
        assert [(each[1], each[3]) for each in seen("path-reach", one, two)] == [
            ("h0", "no answer from h1 on its rail, though both NICs are up"),
            ("h1", "no answer from h0 on its rail, though both NICs are up"),
        ]

    def test_where_ping_is_forbidden_nothing_is_claimed(self) -> None:
        found = seen("path-reach", patient("h0", paths=(way("eth0", "h1", small=None, whole=None),)))
        assert [each[:2] for each in found] == [(NOTE, "h0")]

    def test_path_mtu(self) -> None:
        found = patient(paths=(way("eth0", "h1", whole=False), way("eth0", "h2", whole=False), way("eth1", "h1")))
        assert seen("path-mtu", found) == [
            (ERROR, "h0", "eth0", "packets of 9000 bytes do not get to h[1-2] and back, small ones do")
        ]

    def test_route(self) -> None:
        found = patient(paths=(way("eth0", "h1"), way("eth1", "h1", route="eth0")))
        assert seen("path-route", found) == [(ERROR, "h0", "eth1", "its traffic leaves by eth0")]
        once = patient(paths=(way("eth1", "h1", route="eth0"), way("eth1", "h2")))
        assert seen("path-route", once) == []

    def test_several_next_hops(self) -> None:
        found = patient(facts={catalogue.ROUTES: (Route("10.9.0.0/16", "", 2),)})
        assert seen("path-route", found) == [
            (NOTE, "h0", "10.9.0.0/16", "the route has 2 next hops: which NIC is used varies")
        ]

    def test_udp_that_does_not_pass(self) -> None:
        def sent(nic: str, peer: str, came: bool | None) -> Datagram:
            return Datagram(nic, peer, nic, "10.1.0.1", "10.1.0.2", came)

        some = (
            sent("eth0", "h1", False),
            sent("eth0", "h2", False),
            sent("eth1", "h1", True),
            sent("eno1", "h1", False),
        )
        assert seen("udp", patient(datagrams=some)) == [
            (WARNING, "h0", "eth0", "no UDP datagram gets to h[1-2] on its rail: R2CC goes over TCP there"),
            (WARNING, "h0", "eno1", "no UDP datagram gets to h1 on the management network: R2CC goes over TCP there"),
        ]
        assert seen("udp", patient(datagrams=(sent("eth1", "h1", True),))) == []
        (found,) = seen("udp", patient(datagrams=(sent("eth0", "h1", None),)))
        assert (found[0], found[3]) == (NOTE, "no UDP datagram was sent or heard")

    def test_who_sends_datagrams_to_whom(self) -> None:
        """Along the rails and over what both have in one subnet and use for no data; who only listens does so, too."""

        def host(number: int) -> Patient:
            nics = {"eth0": f"10.1.0.{number}", "eth1": f"10.2.0.{number}", "eno1": f"10.250.0.{number}"}
            known = {
                catalogue.LINKS: tuple(link(nic) for nic in nics),
                catalogue.ADDRESSES: tuple(address(nic, text) for nic, text in nics.items()),
            }
            return patient(f"h{number - 1}", known)

        plans = sendings(Fleet((host(1), host(2))))
        assert [(each.nic, each.peer, each.source, each.target) for each in plans["h0"]] == [
            ("eth0", "h1", "10.1.0.1", "10.1.0.2"),
            ("eth1", "h1", "10.2.0.1", "10.2.0.2"),
            ("eno1", "h1", "10.250.0.1", "10.250.0.2"),
        ]
        only = {"h0": plans["h0"], "h1": ()}
        assert voices("h0", only)[0] == Voice("eth0", "10.1.0.1", ("10.1.0.2",))
        assert voices("h1", only)[2] == Voice("eno1", "10.250.0.2", ())

    def test_what_nothing_reaches_is_not_told_of_udp_again(self) -> None:
        lost = (Datagram("eth0", "h1", "eth0", "10.1.0.1", "10.1.0.2", False),)
        assert seen("udp", patient(datagrams=lost, paths=(way("eth0", "h1", small=False),))) == []
        assert seen("udp", patient(datagrams=lost, paths=(way("eth0", "h1", small=None),))) != []

    @pytest.mark.parametrize(
        ("release", "uid", "told"),
        [("5.4.0-91", 1000, True), ("5.4.0-91", 0, False), ("5.7.0", 1000, False), ("6.1.0", 1000, False)],
    )
    def test_lanes_that_cannot_be_bound_in_one_subnet(self, release: str, uid: int, told: bool) -> None:
        both = (address("eth0", "10.1.0.1", 16), address("eth1", "10.1.9.1", 16))
        right = {"arp_ignore": "1", "arp_announce": "2", "rp_filter": "2"}
        found = patient(
            facts={
                catalogue.ADDRESSES: both,
                catalogue.SYSCTL: {f"net/ipv4/conf/all/{name}": value for name, value in right.items()},
                catalogue.KERNEL: Kernel(release, 0, (), False, ""),
                catalogue.IDENTITY: Identity(uid, False, ""),
            }
        )
        (one,) = seen("nic-subnet", found)
        assert ("cannot bind its lanes" in one[3], one[0]) == (told, WARNING if told else NOTE)

    def test_two_nics_in_one_subnet(self) -> None:
        both = (address("eth0", "10.1.0.1", 16), address("eth1", "10.1.9.1", 16))
        strict = {"net/ipv4/conf/all/rp_filter": "1", "net/ipv4/conf/eth0/arp_ignore": "1"}
        found = patient(facts={catalogue.ADDRESSES: both, catalogue.SYSCTL: strict})
        told = "arp_announce 0, rp_filter 1, arp_ignore 0"
        assert seen("nic-subnet", found) == [
            (WARNING, "h0", "eth0,eth1", f"eth0 and eth1 are in one subnet (10.1.0.0/16) with {told}")
        ]
        right = {
            f"net/ipv4/conf/all/{name}": value
            for name, value in (("arp_ignore", "1"), ("arp_announce", "2"), ("rp_filter", "2"))
        }
        found = patient(facts={catalogue.ADDRESSES: both, catalogue.SYSCTL: right})
        assert [each[0] for each in seen("nic-subnet", found)] == [NOTE]

    def test_one_address_twice(self) -> None:
        again = {catalogue.ADDRESSES: (address("eth0", "10.1.0.1"), address("eth1", "10.2.0.2"))}
        assert seen("nic-address", patient("h0"), patient("h1", again)) == [
            (ERROR, "h0", "eth0", "its address 10.1.0.1 is also that of h1"),
            (ERROR, "h1", "eth0", "its address 10.1.0.1 is also that of h0"),
        ]

    def test_rails(self) -> None:
        assert seen("rails", patient("h0"), patient("h1", nics=1), patient("h2")) == [
            (WARNING, "h1", "", "1 data NICs, most hosts have 2")
        ]
        crossed = {catalogue.ADDRESSES: (address("eth0", "10.2.0.9"), address("eth1", "10.1.0.9"))}
        assert [each[2] for each in seen("rails", patient("h0"), patient("h1", crossed), patient("h2"))] == [
            "eth0",
            "eth1",
        ]
        routed = {catalogue.ADDRESSES: (address("eth0", "10.7.0.9"), address("eth1", "10.8.0.9"))}
        assert seen("rails", patient("h0"), patient("h1", routed), patient("h2")) == []

    def test_firewall(self) -> None:
        chains = (Chain("inet filter", "input", "drop"), Chain("ip r2cc", "own", "accept"))
        assert seen("firewall", patient(facts={catalogue.CHAINS: chains})) == [
            (WARNING, "h0", "", "nft table inet filter, chain input: drops what is not allowed")
        ]


class TestBackups:
    def test_one_nic_alone(self) -> None:
        assert seen("backup", patient(nics=1)) == [(WARNING, "h0", "eth0", "no backup: it is the only data NIC")]

    def test_the_other_is_down(self) -> None:
        links = (link("eth0"), link("eth1", flags=NO_FLAGS))
        found = seen("backup", patient(facts={catalogue.LINKS: links}))
        assert found == [(WARNING, "h0", "eth0", "no backup: eth1 is down or not there")]

    def test_both_ports_of_a_card(self) -> None:
        where = "/sys/devices/pci0000:15/0000:15:01.0/0000:17:00."
        net = {"eth0": shown("eth0", device=f"{where}0"), "eth1": shown("eth1", device=f"{where}1")}
        found = seen("backup", patient(facts={catalogue.NET: net}))
        assert [each[3] for each in found] == [
            "no backup: eth1 is on the same card (0000:17:00)",
            "no backup: eth0 is on the same card (0000:17:00)",
        ]
        third = {**net, "eth2": shown("eth2", device="/sys/devices/pci0000:30/0000:30:00.0")}
        assert seen("backup", patient(facts={catalogue.NET: third}, nics=3)) == []

    def test_the_other_reaches_nobody_or_goes_the_same_way(self) -> None:
        lost = patient(paths=(way("eth0", "h1"), way("eth1", "h1", small=False)))
        assert seen("backup", lost) == [(WARNING, "h0", "eth0", "no backup: eth1 reaches no peer")]
        shared = patient(paths=(way("eth0", "h1"), way("eth1", "h1", route="eth0")))
        assert seen("backup", shared) == [(WARNING, "h0", "eth0", "no backup: eth1 sends by eth0")]


class TestRdma:
    def test_driver_without_its_rdma_part(self) -> None:
        facts = {catalogue.NET: {"eth0": shown("eth0", driver="bnxt_en")}, catalogue.MODULES: frozenset({"bnxt_en"})}
        assert seen("rdma-driver", patient(facts=facts)) == [
            (WARNING, "h0", "eth0", "bnxt_en without an RDMA device: bnxt_re is not loaded")
        ]

    def test_port(self) -> None:
        facts = {catalogue.RDMA: (port("mlx5_0", "eth0"), port("mlx5_1", "eth1", state="DOWN"))}
        assert seen("rdma-port", patient(facts=facts)) == [(ERROR, "h0", "eth1", "mlx5_1 port 1 is DOWN (LinkUp)")]

    def test_port_that_is_down_and_has_no_gid(self) -> None:
        facts = {
            catalogue.RDMA: (replace(port("mlx5_0", "eth0", state="DOWN"), gids=()),),
            catalogue.RDMA_LINKS: (RdmaLink("mlx5_0", 1, "eth1"),),
        }
        assert [each[:3] for each in seen("rdma-port", patient(facts=facts))] == [(ERROR, "h0", "eth1")]

    def test_infiniband_has_its_nic_by_the_same_device(self) -> None:
        where = "/sys/devices/pci0000:15/0000:17:00.0"
        facts = {
            catalogue.RDMA: (replace(port("mlx5_0", "", state="INIT"), gids=(), hardware=where),),
            catalogue.NET: {"eth0": shown("eth0", device=where), "eth1": shown("eth1")},
        }
        assert [each[:3] for each in seen("rdma-port", patient(facts=facts))] == [(ERROR, "h0", "eth0")]

    def test_gid_index_differs(self) -> None:
        usual = {catalogue.RDMA: (port("mlx5_0", "eth0", gid_table("eth0")),)}
        other = {catalogue.RDMA: (port("mlx5_0", "eth0", gid_table("eth0", index=5)),)}
        assert seen("gid-index", patient("h0", usual), patient("h1", other), patient("h2", usual)) == [
            (WARNING, "h1", "eth0", "RoCE v2 for IPv4 is GID 5, most have it at 3")
        ]

    @pytest.mark.parametrize(
        ("chosen_index", "text"),
        [
            ("9", "NCCL_IB_GID_INDEX=9, but mlx5_0 has no such GID"),
            ("2", "NCCL_IB_GID_INDEX=2 is RoCE v1 on mlx5_0: no router lets it through"),
            ("1", "NCCL_IB_GID_INDEX=1 is a link-local address on mlx5_0"),
            ("3", None),
        ],
    )
    def test_chosen_gid_index(self, chosen_index: str, text: str | None) -> None:
        facts = {
            catalogue.RDMA: (port("mlx5_0", "eth0", gid_table("eth0")),),
            catalogue.SETTINGS: {"NCCL_IB_GID_INDEX": chosen_index},
        }
        assert seen("gid-index", patient(facts=facts)) == ([(ERROR, "h0", "eth0", text)] if text else [])

    def test_no_ipv4_gid(self) -> None:
        link_local = gid_table("eth0")[:2]
        facts = {catalogue.RDMA: (port("mlx5_0", "eth0", link_local),)}
        assert seen("gid-index", patient(facts=facts))[0][0] is ERROR
        routed = (*link_local, Gid(3, "fd93:0000:0000:0000:0000:0000:0000:0001", 2, "eth0", ""))
        facts = {catalogue.RDMA: (port("bnxt_re0", "eth0", routed),)}
        assert seen("gid-index", patient(facts=facts))[0][0] is WARNING

    def test_rdma_mtu_and_namespaces(self) -> None:
        def verbs(mtu: int) -> dict[Any, object]:
            device = VerbsDevice("mlx5_0", (VerbsPort(1, mtu),))
            return {catalogue.RDMA: (port("mlx5_0", "eth0"),), catalogue.IBV: (device,)}

        assert seen("rdma-mtu", patient("h0", verbs(4096)), patient("h1", verbs(1024)), patient("h2", verbs(4096))) == [
            (WARNING, "h1", "eth0", "RDMA MTU 1024, most have 4096")
        ]
        own = patient(facts={catalogue.RDMA: (port("mlx5_0", "eth0"),), catalogue.RDMA_NETNS: "exclusive"})
        assert [each[0] for each in seen("rdma-netns", own)] == [NOTE]


def test_what_cannot_be_read_is_told_and_a_missing_ip_breaks_a_run() -> None:
    broken = patient("h0", {catalogue.QDISCS: FactError("cannot read what tc printed")})
    assert seen("facts", broken) == [(WARNING, "h0", "qdiscs", "cannot read what tc printed")]
    bare = patient("h1", {catalogue.LINKS: absent(catalogue.LINKS)})
    assert seen("tools", bare) == [(ERROR, "h1", "", "ip is not installed (package iproute2)")]
