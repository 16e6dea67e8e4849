"""Facts' parsers on recorded and published outputs; tests/data/facts/README.md says where each comes from."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.facts import FactError, catalogue, ethtool, ibv, iproute, kernel, nvidia, sysfs, ways
from harness.facts.base import Fact, NotAvailable, Raw

DATA = Path(__file__).parents[1] / "data" / "facts"
ACS_OF_SWITCH = 0x1D


def text(name: str) -> str:
    return (DATA / name).read_text()


def test_links_of_a_lab_and_of_mlx5() -> None:
    links = {link.name: link for link in iproute.links(text("ip/link_lab.json"))}
    eth0 = links["eth0"]
    assert (eth0.mtu, eth0.up, eth0.carrier, eth0.kind) == (9000, True, True, "veth")
    assert links["lo"].loopback
    virtio = {link.name: link for link in iproute.links(text("ip/link_virtio.json"))}["eth0"]
    assert (virtio.mtu, virtio.kind) == (1400, "")


def test_addresses_and_routes() -> None:
    found = [(each.nic, each.address, each.prefix) for each in iproute.addresses(text("ip/addr_lab.json"))]
    assert ("eth0", "10.1.0.1", 24) in found
    routes = {route.dst: route for route in iproute.routes(text("ip/route_virtio.json"))}
    assert (routes["default"].nic, routes["default"].hops) == ("eth0", 1)


def test_counters_have_64_bits_and_both_directions() -> None:
    found = iproute.counters(text("ip/stats_virtio.json"))["eth0"]
    assert found.packets > 0
    assert found.errors == 0


def test_qdiscs() -> None:
    found = {each.nic: each for each in iproute.qdiscs(text("tc/qdisc_lab.json")) if each.kind == "tbf"}
    assert found["eth0"].rate_gbit == pytest.approx(1.0)
    netem = next(each for each in iproute.qdiscs(text("tc/qdisc_netem.json")) if each.kind == "netem")
    assert (netem.loss, netem.delay_ms) == (pytest.approx(0.01), pytest.approx(10.0))


def test_rdma() -> None:
    rxe = iproute.rdma_links(text("rdma/link_rxe.json"))
    assert [(each.device, each.port, each.nic) for each in rxe] == [("rxe0", 1, "eth0"), ("rxe1", 1, "eth1")]
    mlx5 = iproute.rdma_links(text("rdma/link_mlx5.json"))
    assert [(each.device, each.nic) for each in mlx5] == [("mlx5_0", "ens3np0"), ("mlx5_1", "")]
    bnxt = iproute.rdma_links(text("rdma/link_bnxt.json"))
    assert len(bnxt) == len(iproute.rdma_kinds(text("rdma/dev_bnxt.json"))) == 2
    assert "rxe0" in iproute.rdma_kinds(text("rdma/dev_rxe.json"))


@pytest.mark.parametrize(
    ("said", "mode"),
    [
        ('[{"netns":"exclusive","copy-on-fork":"on"}]', "exclusive"),
        ("netns shared copy-on-fork on\n", "shared"),  # iproute2 6.1 prints no JSON here, though asked to
        ("", ""),
        ("[{}]", ""),
    ],
)
def test_rdma_namespaces(said: str, mode: str) -> None:
    assert iproute.rdma_netns(said) == mode


def test_firewall() -> None:
    chains = iproute.input_chains(text("nft/drop.json"))
    assert [(each.table, each.name, each.policy) for each in chains] == [("inet filter", "input", "drop")]


def test_ethtool_of_mlx5() -> None:
    found = ethtool.nics(text("ethtool/mlx5_two_nics.txt"))
    first, second = found["p3p1"], found["p3p2"]
    assert first.driver == ethtool.Driver("mlx5_core", "3.0-1 (January 2015)", "14.23.1020 (MT_2420110034)")
    assert first.settings is not None
    # What it advertises, 200 Gbit/s, is not what it supports.
    assert (first.settings.speed_gbit, first.settings.most_gbit) == (50.0, 100.0)
    assert first.has("tcp-segmentation-offload") is True
    assert first.has("tx-checksum-ipv4") is False
    assert first.has("no such") is None
    assert first.module is not None
    assert first.module.alarms == ("Laser rx power low alarm   (Channel 1)",)
    assert second.settings is not None
    assert (second.settings.speed_gbit, second.module) == (None, None)


def test_ethtool_of_bnxt_and_virtual_nics() -> None:
    found = ethtool.nics(text("ethtool/bnxt.txt"))["ens1f0np0"]
    assert found.driver is not None
    assert (found.driver.name, found.driver.firmware) == ("bnxt_en", "220.0.59.0/pkg 220.0.83.0")
    assert found.settings is not None
    assert found.settings.speed_gbit == 100.0
    virtio = ethtool.nics(text("ethtool/virtio.txt"))["eth0"]
    assert virtio.settings is not None
    assert (virtio.settings.speed_gbit, virtio.settings.most_gbit) == (None, None)


def test_ibv_devinfo() -> None:
    first, second = ibv.devices(text("ibv_devinfo/mlx5_roce.txt"))
    assert (first.name, first.ports, second.ports[0].active_mtu) == ("mlx5_0", (ibv.Port(1, 4096),), 1024)
    for name in ("mlx5_infiniband", "efa", "rxe_2016"):
        assert ibv.devices(text(f"ibv_devinfo/{name}.txt"))[0].ports[0].number == 1
    assert ibv.devices(text("ibv_devinfo/none.txt")) == ()


def test_gpus() -> None:
    first, second = nvidia.gpus(text("nvidia-smi/query_h100x2_580.csv"))
    assert (first.bus, first.driver, first.width, first.uncorrected) == ("0000:00:06.0", "580.159.04", 16, 0)
    assert second.index == 1
    old = nvidia.gpus(text("nvidia-smi/query_v100_no_ecc_470.csv"))[0]
    assert (old.bus, old.width, old.most_width, old.uncorrected) == ("0000:3b:00.0", 8, 16, None)
    assert nvidia.gpus("No devices were found\n") == ()


def test_gpu_topology() -> None:
    recorded = nvidia.topology(text("nvidia-smi/topo_h100x2_580.txt"))  # with the escapes that it underlines headers by
    assert (recorded.gpus, recorded.nics, recorded.between("GPU0", "GPU1")) == (("GPU0", "GPU1"), (), "NV18")
    legend = nvidia.topology(text("nvidia-smi/topo_nic_legend_535.txt"))
    assert (legend.nics, legend.between("GPU0", "mlx5_0")) == (("mlx5_0", "mlx5_1"), "PXB")
    old = nvidia.topology(text("nvidia-smi/topo_old_384.txt"))
    assert (old.nics, old.between("GPU2", "mlx4_0"), old.between("mlx4_0", "GPU0")) == (("mlx4_0",), "SYS", "PHB")


class NvmlError(Exception):
    pass


def nvml(**functions: Any) -> ModuleType:
    """Stands for `pynvml`: one GPU that does not tell its link's width."""

    def refuse(_handle: object) -> int:
        raise NvmlError("Not Supported")

    found: Any = ModuleType("pynvml")
    found.NVMLError = NvmlError
    found.nvmlInit = found.nvmlShutdown = lambda: None
    found.nvmlDeviceGetCount = lambda: 1
    found.nvmlDeviceGetHandleByIndex = lambda index: index
    found.nvmlDeviceGetPciInfo = lambda _: SimpleNamespace(busId=b"00000000:3B:00.0")
    found.nvmlSystemGetDriverVersion = lambda: "470.199.02"
    found.nvmlDeviceGetCurrPcieLinkWidth = found.nvmlDeviceGetMaxPcieLinkWidth = refuse
    for name, function in functions.items():
        setattr(found, name, function)
    return found


def test_nvml_tells_the_same_as_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    assert nvidia.local_gpus() == (nvidia.Gpu(0, "0000:3b:00.0", "470.199.02", None, None, None),)


def test_nvml_tells_of_a_lost_gpu_and_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(index: int) -> int:
        if index == 1:
            raise NvmlError("GPU is lost")
        return index

    monkeypatch.setitem(sys.modules, "pynvml", nvml(nvmlDeviceGetHandleByIndex=handle, nvmlDeviceGetCount=lambda: 3))
    found = nvidia.local_gpus()
    assert isinstance(found, tuple)
    assert [(gpu.index, gpu.lost) for gpu in found] == [(0, ""), (1, "GPU is lost"), (2, "")]


def test_without_nvml_or_its_driver_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise NvmlError("Driver Not Loaded")

    monkeypatch.setitem(sys.modules, "pynvml", nvml(nvmlInit=fail))
    assert str(nvidia.local_gpus()) == "NVML: Driver Not Loaded"
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert str(nvidia.local_gpus()) == "NVML is not installed (package nvidia-ml-py)"


def test_nics_of_sysfs() -> None:
    eth0 = sysfs.nics(text("sysfs/net_virtio.txt"))["eth0"]
    assert (eth0.speed_gbit, eth0.driver, eth0.pci) == (None, "virtio_net", "0000:00:03.0")
    veth = sysfs.nics(text("sysfs/net_lab.txt"))["eth0"]
    assert (veth.speed_gbit, veth.pci) == (10.0, "")


def test_gids() -> None:
    port = sysfs.rdma_ports(text("sysfs/rdma_mlx5.txt"))[0]
    assert (port.device, port.state, port.physical) == ("mlx5_0", "ACTIVE", "LinkUp")
    assert (port.nic, port.pci) == ("ens3np0", "0000:17:00.0")
    assert [(gid.index, gid.version, gid.ipv4) for gid in port.gids] == [
        (0, 1, ""),
        (1, 2, ""),
        (2, 1, "11.0.0.72"),
        (3, 2, "11.0.0.72"),
    ]
    rxe = {port.nic: port for port in sysfs.rdma_ports(text("sysfs/rdma_rxe.txt"))}
    assert (rxe["eth0"].state, rxe["eth0"].pci) == ("ACTIVE", "")
    assert "10.1.0.1" in [gid.ipv4 for gid in rxe["eth0"].gids]


def test_rdma_counters() -> None:
    found = sysfs.rdma_counters("/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed\t3\n")
    assert found == {"mlx5_0/1": {"link_downed": 3}}


def test_pci() -> None:
    found = sysfs.pci_devices(text("sysfs/pci_gpu_host.txt"))
    nic = found["0000:17:00.0"]
    assert (nic.speed_gts, nic.most_gts, nic.width, nic.most_width) == (16.0, 32.0, 16, 16)
    assert nic.path == ("0000:15:01.0", "0000:16:00.0", "0000:17:00.0")
    assert found["0000:16:00.0"].acs == ACS_OF_SWITCH
    virtio = found["0000:00:03.0"]
    assert (virtio.speed_gts, virtio.width) == (None, None)  # 63 lanes: it does not say


@pytest.mark.parametrize("config", [b"", bytes(64), bytes(256), bytes(4096), b"\xff" * 4096])
def test_no_acs_where_there_is_no_such_capability(config: bytes) -> None:
    assert sysfs.acs_control(config) is None


def test_kernel_facts() -> None:
    assert "nvidia_peermem" in kernel.modules(text("kernel/modules_debian.txt"))
    assert kernel.modules(text("kernel/modules_h100.txt")) == {"nvidia_uvm", "nvidia"}
    infos = kernel.module_versions(text("kernel/modinfo.txt"))
    assert (infos["nv_peer_mem"], infos["mlx5_core"]) == ("1.0-8", "")
    host = kernel.kernel(text("kernel/kernel_gpu_host.txt"))
    assert (host.iommu_groups, host.iommu_types, host.dmabuf_symbol) == (214, ("DMA-FQ", "identity"), True)
    assert "Open Kernel Module" in host.nvidia
    limits = kernel.limits(text("kernel/limits.txt"))
    assert (limits["Max locked memory"].soft, limits["Max open files"].soft) == (8388608, 20000)
    assert limits["Max cpu time"].hard == kernel.UNLIMITED


@pytest.mark.parametrize(
    ("uid", "capabilities", "uid_map", "free"),
    [
        ("0 0 0 0", "000001ffffffffff", "0 0 4294967295", True),
        ("0 0 0 0", "000001ffffffffff", "0 1000 1", False),  # root of a user namespace
        ("1000 1000 1000 1000", "0000000000000000", "0 0 4294967295", False),
        ("0 0 0 0", "000001ffffffffff", "", True),  # a kernel without user namespaces
    ],
)
def test_who_may_lock_memory(uid: str, capabilities: str, uid_map: str, free: bool) -> None:
    said = f"Uid\t{uid}\nCapEff\t{capabilities}\nuid_map\t{uid_map}\nconnection\t10.0.0.9 50000 10.0.0.1 22\n"
    found = kernel.identity(said)
    assert (found.locks_freely, found.connection) == (free, "10.0.0.1")


def test_clock_daemons() -> None:
    assert kernel.follows(text("clock/chronyc_followed.txt"))
    assert not kernel.follows(text("clock/chronyc_alone.txt"))
    assert kernel.synchronised(text("clock/timedatectl_systemd_252.txt")) is False


def test_mapped_libraries() -> None:
    assert [
        (each.path.rpartition("/")[2], each.deleted) for each in kernel.mapped(text("maps/torch_with_two.txt"))
    ] == [
        ("libnccl.so.2", False),
        ("libnccl.so.2.29.7", True),
        ("libfoo.so", False),
    ]


def test_storage() -> None:
    found = kernel.storage(text("df/busybox.txt"))
    assert (found.prefix, found.writable, found.free_bytes, found.shm_bytes) == (
        "/home/a/.r2cc",
        True,
        102_400_000,
        None,
    )


def test_tried_ways() -> None:
    said = '== eth0 10.1.0.2\nroute\t[{"dst":"10.1.0.2","dev":"eth1"}]\nsmall\t0\nwhole\t1\n== eth1 10.2.0.2\nroute\t\n'
    assert ways.tried(said) == (
        ways.Tried("eth0", "10.1.0.2", "eth1", True, False),
        ways.Tried("eth1", "10.2.0.2", None, None, None),
    )


def test_a_missing_tool_is_no_error() -> None:
    found = catalogue.ETHTOOL.read(Raw("", "", None))
    assert isinstance(found, NotAvailable)
    assert str(found) == "ethtool is not installed (package ethtool)"
    refused = catalogue.RDMA_LINKS.read(Raw("", "Failed to open NETLINK_RDMA socket\n", 1))
    assert isinstance(refused, NotAvailable)
    assert str(refused) == "rdma: exit code 1: Failed to open NETLINK_RDMA socket"
    assert "no answer within 20 s" in str(catalogue.GPUS.read(Raw("", "", 124)))


def test_what_cannot_be_read_names_tool_and_version() -> None:
    found = catalogue.LINKS.read(Raw('[{"ifname": "eth0", "mtu": "big"}]'), "iproute2-5.0")
    assert isinstance(found, FactError)
    assert found.message.startswith("cannot read what ip printed")
    assert found.message.endswith("(version: iproute2-5.0)")


PARSED = [*catalogue.EVERY, catalogue.STORAGE, catalogue.MAPPED, catalogue.paths([])]
RECORDED = [path.read_text() for path in sorted(DATA.rglob("*.*")) if path.suffix in (".json", ".txt", ".csv")]


@pytest.mark.parametrize("fact", PARSED, ids=lambda fact: fact.name)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_no_parser_raises_anything_but_its_own_error(fact: Fact[object], data: st.DataObject) -> None:
    """On any text, and on every recorded output with something cut out or put in."""
    whole = data.draw(st.sampled_from(RECORDED))
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    inserted = data.draw(
        st.text(max_size=20) | st.sampled_from(["{", "[]", "[1]", '[{"a":1}]', "\t", "== x\n", "null"])
    )
    for said in (inserted, whole[:start] + inserted + whole[end:]):
        assert surprise(fact.parse, said) is None


JSON_FILES = sorted(DATA.rglob("*.json"))
OTHER = (None, True, -1, 1e300, "x", [], {}, [{}], {"a": 1})


@settings(max_examples=150, deadline=None)
@given(path=st.sampled_from(JSON_FILES), other=st.sampled_from(OTHER), data=st.data())
def test_nor_on_json_of_another_shape(path: Path, other: object, data: st.DataObject) -> None:
    """One value, anywhere in a recorded output, is of another kind."""
    value = json.loads(path.read_text())
    holder: Any = value
    while True:
        keys = [*holder] if isinstance(holder, dict) else [*range(len(holder))]
        key = data.draw(st.sampled_from(keys))
        below = holder[key]
        if not isinstance(below, dict | list) or not below or data.draw(st.booleans()):
            break
        holder = below
    holder[key] = other
    for fact in PARSED:
        assert surprise(fact.parse, json.dumps(value)) is None


def surprise(parse: Callable[[str], object], said: str) -> Exception | None:
    """What it raises that is not its own error."""
    try:
        parse(said)
    except FactError:
        return None
    except Exception as error:  # noqa: BLE001 (any of them is what is looked for)
        return error
    return None
