"""Parsers on what other versions and other machines print."""

from __future__ import annotations

import pytest

from harness.facts import FactError, ibv, iproute, nvidia


def test_a_tunnel_without_a_lower_link_hides_no_other() -> None:
    said = '[{"ifname":"sit0","link":null,"flags":["NOARP"],"mtu":1480},{"ifname":"v","link":"e","flags":[],"mtu":9}]'
    assert [(each.name, each.lower) for each in iproute.links(said)] == [("sit0", ""), ("v", "e")]


def test_routes_with_several_hops() -> None:
    said = '[{"dst":"default","nexthops":[{"dev":"eth0","gateway":"10.0.0.1"},{"dev":"eth1"}]}]'
    assert iproute.routes(said) == (iproute.Route("default", "", 2, ("eth0", "eth1")),)


def test_older_names_of_rdma_links() -> None:
    said = '[{"ifindex":0,"ifname":"mlx5_4/2","state":"DOWN"},{"ifname":"x"}]'
    assert iproute.rdma_links(said) == (iproute.RdmaLink("mlx5_4", 2, ""),)


def test_a_port_that_tells_no_mtu_hides_no_other() -> None:
    port = "\tport: {}\n\t\tstate: PORT_DOWN (1)\n\t\tmax_mtu: 4096 (5)\n\t\tactive_mtu: {}\n"
    said = "hca_id: m\n\ttransport: InfiniBand (0)\n" + port.format(1, "invalid MTU (0)") + port.format(2, "1024 (3)")
    assert [each.active_mtu for each in ibv.devices(said)[0].ports] == [0, 1024]


def test_what_is_no_address_is_no_fact() -> None:
    said = '[{"ifname":"e","addr_info":[{"family":"inet","local":"10.0.0","prefixlen":8}]}]'
    with pytest.raises(FactError, match=r"10\.0\.0"):
        iproute.addresses(said)


@pytest.mark.parametrize("cell", ["SOC", "N/A", "C2C", "NV18", "NODE"])
def test_words_of_other_drivers_in_the_matrix(cell: str) -> None:
    said = f"\tGPU0\tmlx5_0\tCPU Affinity\nGPU0\tX\t{cell}\t0-31\nmlx5_0\t{cell}\tX\n"
    assert nvidia.topology(said).between("GPU0", "mlx5_0") == cell


@pytest.mark.parametrize(
    ("told", "kernels"),
    [("00000000:3B:00.0", "0000:3b:00.0"), ("00000008:01:00.0", "0008:01:00.0"), ("00010000:01:00.0", "10000:01:00.0")],
)
def test_gpus_are_at_the_kernels_addresses(told: str, kernels: str) -> None:
    head = ", ".join(nvidia.QUERY)
    said = f"{head}\n0, B200, GPU-a, {told}, 570.1, 5, 5, 16, 16, 0\n"
    assert nvidia.gpus(said)[0].bus == kernels
