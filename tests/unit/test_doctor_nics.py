"""Which NICs the doctor looks at, and which RDMA port is theirs, on hosts that are not as most are."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from doctor_double import address, answering, gid_table, link, patient, port, seen, shown

from harness.doctor.examination import Ward, examined
from harness.doctor.guess import guessed
from harness.doctor.model import ERROR, NOTE, WARNING, Patient
from harness.facts import Known, catalogue
from harness.facts.iproute import Address, RdmaLink, Route
from harness.facts.kernel import Identity
from harness.facts.sysfs import Gid, RdmaPort

WHERE = "/sys/devices/pci0000:40/0000:41:00.0"
MAPPED = "0000:0000:0000:0000:0000:ffff:0a02:0001"


def numbered(number: int, nic: str, text: str, *, first: int = 0, state: str = "ACTIVE") -> RdmaPort:
    """A port whose GIDs begin at `first`; a NIC without a name has none."""
    gids = tuple(replace(gid, index=gid.index + first) for gid in gid_table(nic, text)) if nic else ()
    return RdmaPort("mlx5_0", number, state, "LinkUp", "Ethernet", gids, WHERE)


def of_ports(patient_of: Patient) -> dict[str, tuple[str, int]]:
    return {nic: (found.device, found.port) for nic, found in patient_of.ports().items()}


class TestPorts:
    def test_a_port_without_a_nic_is_nobodys(self) -> None:
        """Twelve ports, two of them used, all on one PCI function."""
        ports = tuple(
            numbered(number, {3: "eth0", 6: "eth1"}.get(number, ""), f"10.{number // 3}.0.1", state=state)
            for number in range(1, 13)
            for state in ["ACTIVE" if number in (3, 6) else "DOWN"]
        )
        net = {nic: shown(nic, device=WHERE) for nic in ("eth0", "eth1")}
        host = patient(facts={catalogue.RDMA: ports, catalogue.NET: net})
        assert of_ports(host) == {"eth0": ("mlx5_0", 3), "eth1": ("mlx5_0", 6)}
        assert seen("rdma-port", host) == []
        assert [each[:3] for each in seen("gid-index", host)] == []

    @pytest.mark.parametrize("first", [0, 4, 9])
    def test_gids_at_any_index(self, first: int) -> None:
        facts = {catalogue.RDMA: (numbered(1, "eth0", "10.1.0.1", first=first),)}
        assert seen("gid-index", patient(facts=facts)) == []

    def test_gids_of_what_lies_on_the_nic_are_its_own(self) -> None:
        """A container's interface and a VLAN share the port with the NIC below."""
        low = gid_table("eth0", "10.9.0.1")
        high = (Gid(7, MAPPED, 1, "eth1", "10.2.0.1"), Gid(8, MAPPED, 2, "eth1", "10.2.0.1"))
        host = patient(facts={catalogue.RDMA: (port("mlx5_0", "eth0", (*low, *high)),)})
        assert of_ports(host) == {"eth0": ("mlx5_0", 1), "eth1": ("mlx5_0", 1)}
        assert [each[2] for each in seen("gid-index", host)] == ["eth1"], "its index differs, and that is all"
        alone = patient(facts={catalogue.RDMA: (port("mlx5_0", "eth0", (*low, high[0])),)})
        assert [each[:3] for each in seen("gid-index", alone)] == [(ERROR, "h0", "eth1")]

    def test_management_devices_carry_nothing(self) -> None:
        one = replace(port("mlx5_0", ""), gids=(), hardware=WHERE, link_layer="InfiniBand")
        other = replace(one, device="switch_manager", state="DOWN")
        facts: dict[Any, object] = {
            catalogue.RDMA: (one, other),
            catalogue.RDMA_DEVICES: {"switch_manager": "smi"},
            catalogue.NET: {"eth0": shown("eth0", device=WHERE)},
        }
        assert of_ports(patient(facts=facts)) == {"eth0": ("mlx5_0", 1)}
        assert seen("rdma-port", patient(facts=facts)) == []

    def test_by_number_where_nics_have_one(self) -> None:
        ports = tuple(replace(numbered(number, "", "", state="DOWN"), device="mlx4_0") for number in (1, 2))
        net = {f"eth{at}": replace(shown(f"eth{at}", device=WHERE), port=at) for at in range(2)}
        host = patient(facts={catalogue.RDMA: ports, catalogue.NET: net})
        assert of_ports(host) == {"eth0": ("mlx4_0", 1), "eth1": ("mlx4_0", 2)}
        linked = {catalogue.RDMA: ports, catalogue.RDMA_LINKS: (RdmaLink("mlx4_0", 2, "eth0"),)}
        assert of_ports(patient(facts=linked)) == {"eth0": ("mlx4_0", 2)}


def v6(nic: str, text: str) -> Address:
    return Address(nic, "inet6", text, 64)


def known(**facts: object) -> Known:
    """A host with eth0 to eth3: eth0 is the way to the world, eth1 has no address."""
    nics = ("lo", "eth0", "eth1", "eth2", "eth3")
    sound = {
        catalogue.LINKS.name: tuple(link(nic) for nic in nics),
        catalogue.ADDRESSES.name: tuple(address(f"eth{at}", f"10.{at}.0.1") for at in (0, 2, 3)),
        catalogue.ROUTES.name: (Route("default", "eth0", 1),),
        catalogue.RDMA.name: tuple(port(f"mlx5_{at}", f"eth{at}") for at in range(4)),
    }
    return Known({**sound, **{getattr(catalogue, name).name: value for name, value in facts.items()}})


class TestGuess:
    def test_front_end_nics_are_left_out_also_where_they_have_rdma(self) -> None:
        assert guessed(known()) == ("eth2", "eth3")
        assert guessed(known(RDMA=())) == ("eth2", "eth3")

    def test_ours_is_left_out(self) -> None:
        assert guessed(known(ROUTES=(), IDENTITY=Identity(0, True, "10.3.0.1"))) == ("eth0", "eth2")
        assert guessed(known(ROUTES=(), IDENTITY=Identity(0, True, "::ffff:10.3.0.1"))) == ("eth0", "eth2")
        assert guessed(known(ROUTES=(), IDENTITY=Identity(0, True, "UNKNOWN"))) == ("eth0", "eth2", "eth3")

    def test_by_ipv6_too(self) -> None:
        only = tuple(v6(f"eth{at}", f"fd00:{at}::1") for at in range(4))
        assert guessed(known(ROUTES=(), ADDRESSES=only, ROUTES_IPV6=(Route("default", "eth1", 1),))) == (
            *("eth0", "eth2", "eth3"),
        )
        ours = known(ROUTES=(), ADDRESSES=only, IDENTITY=Identity(0, True, "fd00:2::1"), RDMA=())
        assert guessed(ours) == ("eth0", "eth1", "eth3")

    def test_with_all_hops_of_a_route_and_all_that_it_is_made_of(self) -> None:
        hops = known(ROUTES=(Route("default", "", 2, ("eth2", "eth3")),))
        assert guessed(hops) == ("eth0",)
        bond = (
            link("lo"),
            replace(link("bond0"), kind="bond"),
            *(replace(link(f"eth{at}"), master="bond0") for at in (0, 1)),
        )
        made = known(LINKS=(*bond, link("eth2"), link("eth3")), ROUTES=(Route("default", "bond0", 1),))
        assert guessed(made) == ("eth2", "eth3")
        vlan = (replace(link("eth3.7"), kind="vlan", lower="eth3"), *(link(f"eth{at}") for at in range(4)))
        assert guessed(known(LINKS=vlan, ROUTES=(Route("default", "eth3.7", 1),))) == ("eth0", "eth2")

    def test_without_any_address_infiniband_is_still_data(self) -> None:
        assert guessed(known(ADDRESSES=(address("eth0", "10.0.0.1"),))) == ("eth1", "eth2", "eth3")

    @given(st.sets(st.integers(0, 3)), st.sets(st.integers(0, 3)), st.none() | st.integers(0, 3), st.integers(0, 3))
    def test_never_those_over_which_we_come(
        self, addressed: set[int], rdma: set[int], ours: int | None, default: int
    ) -> None:
        found = guessed(
            known(
                ADDRESSES=tuple(address(f"eth{at}", f"10.{at}.0.1") for at in addressed),
                RDMA=tuple(port(f"m{at}", f"eth{at}") for at in rdma),
                IDENTITY=Identity(0, True, "" if ours is None else f"10.{ours}.0.1"),
                ROUTES=(Route("default", f"eth{default}", 1),),
            )
        )
        assert f"eth{default}" not in found
        assert ours is None or ours not in addressed or f"eth{ours}" not in found
        assert set(found) <= {f"eth{at}" for at in addressed | rdma}

    def test_where_none_is_left_that_is_said_and_breaks_nothing(self) -> None:
        host = answering(
            "h0",
            {
                catalogue.LINKS: '[{"ifname":"eth0","mtu":1500,"flags":["UP","LOWER_UP"],"operstate":"UP"}]',
                catalogue.ADDRESSES: '[{"ifname":"eth0","addr_info":'
                '[{"family":"inet","local":"10.0.0.1","prefixlen":24}]}]',
                catalogue.ROUTES: '[{"dst":"default","gateway":"10.0.0.254","dev":"eth0"}]',
            },
        )
        found = examined(Ward("cluster", {"h0": host}), pid=None, tries_paths=False).fleet.patients[0]
        assert found.data == ()
        severity, _, _, text = seen("nic-present", found)[0]
        assert severity is WARNING and "no NIC can be guessed" in text and "eth0" in text
        assert seen("nic-present", patient(nics=0))[0][0] is ERROR, "where the inventory says so"


class TestIpv6:
    FACTS: ClassVar[dict[Any, object]] = {
        catalogue.ADDRESSES: tuple(v6(f"eth{at}", text) for at in range(2) for text in ("fe80::1", f"fd00:{at}::1")),
        catalogue.RDMA: (port("bnxt_re0", "eth0", (Gid(3, "fd00:" + "0000:" * 6 + "0001", 2, "eth0", ""),)),),
    }

    def test_it_is_not_supported_and_nothing_else_is_said_to_be_wrong(self) -> None:
        host = patient(facts=self.FACTS)
        found = seen("nic-state", host)
        assert [each[0] for each in found] == [ERROR, ERROR]
        assert all("IPv6 alone is not supported" in each[3] for each in found)
        assert seen("backup", host) == []
        assert seen("gid-index", host)[0][0] is WARNING

    def test_who_has_told_nccl_is_not_warned(self) -> None:
        told = {**self.FACTS, catalogue.SETTINGS: {"NCCL_IB_ADDR_FAMILY": "AF_INET6"}}
        assert seen("gid-index", patient(facts=told))[0][0] is NOTE

    def test_a_nic_without_any_address_is_no_backup(self) -> None:
        bare = {catalogue.ADDRESSES: (v6("eth0", "fd00::1"), v6("eth1", "fe80::1"))}
        assert [each[2:] for each in seen("backup", patient(facts=bare))] == [
            ("eth0", "no backup: eth1 has no address")
        ]


@pytest.mark.parametrize(
    ("addresses", "shared"),
    [
        ((("eth0", "10.1.0.1", 16), ("eth1", "10.1.1.1", 16)), "eth0 and eth1 are in one subnet (10.1.0.0/16)"),
        ((("eth0", "10.1.0.1", 16), ("eth1", "10.1.1.1", 24)), "eth0 and eth1 are in one subnet (10.1.0.0/16)"),
        ((("eth0", "10.1.0.1", 24), ("eth1", "10.1.1.1", 24)), None),
        ((("eth0", "10.1.0.1", 32), ("eth1", "10.1.0.2", 32)), None),
    ],
)
def test_nics_in_one_subnet_whatever_their_masks(
    addresses: tuple[tuple[str, str, int], ...], shared: str | None
) -> None:
    host = patient(facts={catalogue.ADDRESSES: tuple(address(*each) for each in addresses)})
    found = seen("nic-subnet", host)
    assert [each[3].partition(" with ")[0] for each in found] == ([shared] if shared else [])
    assert not found or found[0][0] is WARNING
