"""Which RDMA device and port an interface has: the survey's script on files as the kernel shows them."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InputErrors
from harness.hosts import survey
from harness.hosts.survey_rdma import SCRIPT, Port, read
from harness.sites.surveyed import Surveyed


@dataclass
class Tree:
    """/sys/class/infiniband below a folder."""

    root: Path
    interfaces: dict[str, int] = field(default_factory=dict)

    def gid(self, device: str, port: int, index: int, nic: str | None) -> None:
        """None: the kernel refuses to tell, as for GIDs that are another container's."""
        folder = self.root / device / "ports" / str(port) / "gid_attrs" / "ndevs"
        folder.mkdir(parents=True, exist_ok=True)
        if nic is None:
            (folder / str(index)).mkdir()  # it can be opened, and not read
        else:
            (folder / str(index)).write_text(f"{nic}\n")

    def beside(self, device: str, nic: str, dev_port: str, name: str = "") -> None:
        folder = self.root / device / "device" / "net" / nic
        folder.mkdir(parents=True)
        (folder / "dev_port").write_text(f"{dev_port}\n")
        if name:
            (folder / "phys_port_name").write_text(f"{name}\n")

    def port(self, device: str, port: int) -> None:
        (self.root / device / "ports" / str(port)).mkdir(parents=True, exist_ok=True)

    def told(self) -> dict[str, Port]:
        script = SCRIPT.replace("/sys/class/infiniband", str(self.root))
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, check=True)
        assert done.stderr == ""
        return read(done.stdout.splitlines())


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    root = tmp_path / "infiniband"
    root.mkdir()
    return Tree(root)


def test_no_device_is_no_port(tree: Tree) -> None:
    assert tree.told() == {}


def test_gids_may_begin_anywhere(tree: Tree) -> None:
    for index in range(6):
        tree.gid("mlx5_2", 1, index, None)
    tree.gid("mlx5_2", 1, 6, "net1")
    tree.gid("mlx5_2", 1, 7, "net1")
    tree.gid("mlx5_3", 1, 11, "net2")
    assert tree.told() == {"net1": Port("mlx5_2", 1, False), "net2": Port("mlx5_3", 1, False)}


def test_second_ports_are_ports(tree: Tree) -> None:
    tree.gid("mlx4_0", 1, 0, "ens4")
    tree.gid("mlx4_0", 2, 0, "ens4d1")
    assert tree.told() == {"ens4": Port("mlx4_0", 1, True), "ens4d1": Port("mlx4_0", 2, True)}


def test_of_many_ports_those_that_are_used_are_found(tree: Tree) -> None:
    for number in range(1, 13):
        tree.port("mlx5_0", number)
    for rail, number in enumerate((3, 6, 9, 12)):
        tree.gid("mlx5_0", number, 0, f"eth_{rail}")
        tree.beside("mlx5_0", f"eth_{rail}", "0")
    assert tree.told() == {f"eth_{rail}": Port("mlx5_0", number, True) for rail, number in enumerate((3, 6, 9, 12))}


def test_infiniband_is_found_beside_its_device_and_management_is_not(tree: Tree) -> None:
    for device in ("mlx5_0", "smi1"):
        tree.port(device, 1)
        tree.beside(device, "ibs5", "0")
    tree.port("mlx4_1", 1)
    tree.port("mlx4_1", 2)
    tree.beside("mlx4_1", "ib2", "0")
    tree.beside("mlx4_1", "ib3", "1")
    tree.beside("mlx4_1", "vf0", "0", "pf0vf0")
    assert tree.told() == {
        "ibs5": Port("mlx5_0", 1, False),
        "ib2": Port("mlx4_1", 1, True),
        "ib3": Port("mlx4_1", 2, True),
    }


SURVEY = survey.Survey("/p", "", (), {"a": "10.0.0.1", "b": "10.1.0.1"}, {}, "c", 8, 1 << 30, "6", None)


def environment(
    devices: dict[str, str], ports: dict[str, int] | None = None, data: tuple[str, ...] = ("a", "b")
) -> str:
    host = SimpleNamespace(name="node7", nics={"data": data})
    found = replace(SURVEY, devices=devices, ports=ports or {})
    return Surveyed("c", (host,), {host.name: found}).env("ib")[host.name]["NCCL_IB_HCA"]  # type: ignore[arg-type]


def test_nccl_is_told_devices_and_ports() -> None:
    assert environment({"a": "mlx5_0", "b": "mlx5_1", "eno1": "mlx5_9"}) == "=mlx5_0,mlx5_1"
    assert environment({"a": "mlx4_0", "b": "mlx4_0"}, {"a": 1, "b": 2}) == "=mlx4_0:1,mlx4_0:2"
    assert environment({"a": "mlx5_0", "b": "mlx5_0"}) == "=mlx5_0", "two VLANs of one port"


names = st.sampled_from(["a", "b", "c", "d"])


@given(st.dictionaries(names, st.sampled_from(["m0", "m1"])), st.lists(names, max_size=4, unique=True))
def test_nccl_is_never_told_to_use_all_devices(devices: dict[str, str], data: list[str]) -> None:
    """`=` alone means every one of them to NCCL."""
    try:
        said = environment(devices, data=tuple(data))
    except InputErrors as error:
        assert set(data) - set(devices) or not data
        assert all(each.startswith("node7: ") for each in error.errors)
        return
    assert set(said.removeprefix("=").split(",")) == {devices[nic] for nic in data}


def test_every_nic_without_a_device_is_named_before_anything_starts() -> None:
    hosts = [SimpleNamespace(name=f"n{number}", nics={"data": ("a", "b")}) for number in range(2)]
    told = {"n0": replace(SURVEY, devices={"a": "m0"}), "n1": SURVEY}
    with pytest.raises(InputErrors) as caught:
        Surveyed("c", tuple(hosts), told).devices()  # type: ignore[arg-type]
    assert [each.partition(" (")[0] for each in caught.value.errors] == [
        "n0: data NIC 'b' has no RDMA device",
        "n1: data NIC 'a' has no RDMA device",
        "n1: data NIC 'b' has no RDMA device",
    ]


def test_ipv6_alone_is_told_as_it_is() -> None:
    links = [
        {"ifname": "a", "flags": ["UP"], "addr_info": [{"family": "inet6", "local": "fd00:5::1"}]},
        {"ifname": "b", "flags": ["UP"], "addr_info": [{"family": "inet6", "local": "fe80::1"}]},
        {
            "ifname": "c",
            "flags": ["UP"],
            "addr_info": [{"family": "inet6", "local": "fd00::2"}, {"family": "inet", "local": "10.0.0.2"}],
        },
    ]
    found = survey._nics(links)
    assert found == {"a": "fd00:5::1", "c": "10.0.0.2"}
    host = SimpleNamespace(name="n0", nics={"data": ("a", "b", "c"), "management": ("a", "c")})
    surveyed = Surveyed("c", (host,), {"n0": replace(SURVEY, nics=found)})  # type: ignore[arg-type]
    with pytest.raises(InputErrors) as caught:
        surveyed.nics()
    assert "IPv6 alone is not supported" in caught.value.errors[0] and "fd00:5::1" in caught.value.errors[0]
    assert caught.value.errors[1] == "n0: no NIC 'b' with an IPv4 address (with one: c)"
    assert surveyed.management_of(host) == "c"  # type: ignore[arg-type]


def test_the_whole_survey_tells_devices_and_ports() -> None:
    text = (
        "=== prefix\n/p\n=== connection\n\n=== settings\n\n=== addresses\n[]\n=== rdma\nm0 - 1 port\nm0 - 2 port\n"
        "m0 eth1 2 gid\n=== cpu\nx\n=== cores\n1\n=== memory\nMemTotal: 1 kB\n=== kernel\n6\n"
        "=== machine\nm\n=== built\n\n=== build\n\n=== end\n"
    )
    found = survey.parse(text)
    assert (found.devices, found.ports) == ({"eth1": "m0"}, {"eth1": 2})
    assert survey.parse(text.replace("m0 eth1 2 gid", "m0 eth1")).devices == {"eth1": "m0"}
    assert survey.parse(text.replace("connection\n\n", "connection\nUNKNOWN 65535 UNKNOWN 65535\n")).address == ""
    with pytest.raises(ValueError, match="literal"):
        survey.parse(text.replace("eth1 2 gid", "eth1 two gid"))
