"""Checks of the host itself, its GPUs and the NCCL of a process, on literal facts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from doctor_double import ethtool, patient, pci, port, seen, shown

from harness.doctor.model import ERROR, NOTE, WARNING, Patient, Severity
from harness.facts import catalogue
from harness.facts.collect import ClockOffset
from harness.facts.ethtool import Driver
from harness.facts.kernel import Identity, Kernel, Limit, Mapped, Storage
from harness.facts.nvidia import Gpu, Topology

GIB = 1 << 30
NO_FLAGS = frozenset[str]()
GPU = Gpu(0, "0000:18:00.0", "580.1", 16, 16, 0)
STORAGE = Storage("/home/a/.r2cc", "/home/a", True, 100 * GIB, 16 * GIB)
KERNEL = Kernel("6.8.0", 0, (), True, "Open Kernel Module 580.1")


class TestHosts:
    def test_the_clock_that_is_off_is_named_and_not_the_others(self) -> None:
        offsets = {"h0": 0.001, "h1": 600.0, "h2": -0.002}
        fleet = [patient(name, clock=ClockOffset(off, 0.01)) for name, off in offsets.items()]
        assert seen("clock", *fleet) == [
            (WARNING, "h1", "", "its clock is 10.0 minutes ahead of the other hosts (± 0.010 s)")
        ]

    def test_our_own_clock_being_off_blames_nobody(self) -> None:
        fleet = [patient(f"h{number}", clock=ClockOffset(-600.0, 0.01)) for number in range(3)]
        assert seen("clock", *fleet) == []

    def test_a_clock_within_its_uncertainty_is_right(self) -> None:
        assert seen("clock", patient(clock=ClockOffset(1.5, 1.6))) == []
        assert seen("clock", patient(clock=ClockOffset(0.2, 0.01)))[0][0] is NOTE

    def test_time_sync(self) -> None:
        alone = {catalogue.DAEMONS: frozenset({"chronyd"}), catalogue.CHRONY: False}
        assert seen("time-sync", patient(facts=alone)) == [(WARNING, "h0", "", "chronyd runs but follows no source")]
        fine = {catalogue.DAEMONS: frozenset({"chronyd"}), catalogue.CHRONY: True}
        assert seen("time-sync", patient(facts=fine)) == []
        assert seen("time-sync", patient(facts={catalogue.DAEMONS: frozenset()}))[0][0] is NOTE

    @pytest.mark.parametrize(
        ("kib", "rdma", "free", "severity"),
        [(64, True, False, ERROR), (64, True, True, None), (64, False, False, NOTE), (1 << 20, True, False, WARNING)],
    )
    def test_memlock(self, kib: int, rdma: bool, free: bool, severity: Severity | None) -> None:
        facts = {
            catalogue.LIMITS: {"Max locked memory": Limit(kib * 1024, kib * 1024)},
            catalogue.IDENTITY: Identity(0 if free else 1000, free, ""),
            catalogue.RDMA: (port("mlx5_0", "eth0"),) if rdma else (),
        }
        assert [each[0] for each in seen("memlock", patient(facts=facts))] == ([severity] if severity else [])

    def test_nofile(self) -> None:
        facts = {catalogue.LIMITS: {"Max open files": Limit(1024, 524288)}}
        assert seen("nofile", patient(facts=facts)) == [
            (WARNING, "h0", "", "at most 1024 open files (hard limit 524288)")
        ]

    @pytest.mark.parametrize(
        ("storage", "check", "severity"),
        [
            (Storage("/p", "/", False, 100 * GIB, 16 * GIB), "prefix", ERROR),
            (Storage("/p", "/p", True, 500 << 20, 16 * GIB), "prefix", WARNING),
            (Storage("/p", "/p", True, 1 << 20, 16 * GIB), "prefix", ERROR),
            (Storage("/p", "/p", True, 100 * GIB, 64 << 20), "shared-memory", WARNING),
            (Storage("/p", "/p", True, 100 * GIB, None), "shared-memory", ERROR),
        ],
    )
    def test_storage(self, storage: Storage, check: str, severity: Severity) -> None:
        assert [each[0] for each in seen(check, patient(facts={catalogue.STORAGE: storage}))] == [severity]

    def test_versions(self) -> None:
        facts = [{catalogue.ETHTOOL: {"eth0": ethtool(driver=Driver("mlx5_core", "6.8", fw))}} for fw in "112"]
        fleet = [patient(f"h{number}", each) for number, each in enumerate(facts)]
        assert seen("versions", *fleet) == [(WARNING, "h2", "eth0", "mlx5_core 6.8 2, most have 6.8 1")]

    def test_versions_of_modules(self) -> None:
        def host(name: str, version: str) -> Patient:
            return patient(name, {catalogue.MODINFO: {"mlx5_core": version}})

        assert seen("versions", host("h0", "24.10"), host("h1", "23.07"), host("h2", "24.10")) == [
            (WARNING, "h1", "mlx5_core", "23.07, most have 24.10")
        ]

    def test_settings(self) -> None:
        fleet = [patient(f"h{n}", {catalogue.SETTINGS: {"NCCL_DEBUG": "INFO"} if n else {}}) for n in range(3)]
        assert seen("settings", *fleet) == [
            (WARNING, "h0", "NCCL_DEBUG", "(not set), most have INFO"),
            (NOTE, "h1 h2", "NCCL_DEBUG", "every login sets it to INFO"),
        ]

    def test_numa_balancing(self) -> None:
        facts = {catalogue.SYSCTL: {"kernel/numa_balancing": "1"}, catalogue.GPUS: (GPU,)}
        assert [each[0] for each in seen("numa-balancing", patient(facts=facts))] == [NOTE]
        assert seen("numa-balancing", patient(facts={catalogue.SYSCTL: {"kernel/numa_balancing": "1"}})) == []


class TestGpus:
    BRIDGE = pci("0000:16:00.0", 0x0604, path=("0000:15:01.0", "0000:16:00.0"), acs=0x1D)
    BELOW = pci("0000:18:00.0", 0x0302, vendor=0x10DE, path=("0000:15:01.0", "0000:16:00.0", "0000:18:00.0"))

    def host(self, **changes: Any) -> Patient:
        facts: dict[Any, object] = {
            **{catalogue.GPUS: (GPU,), catalogue.RDMA: (port("mlx5_0", "eth0"),), catalogue.KERNEL: KERNEL},
            **{
                catalogue.MODULES: frozenset(),
                catalogue.PCI: {each.address: each for each in (self.BRIDGE, self.BELOW)},
            },
        }
        return patient(facts=facts | changes.get("facts", {}))

    def test_gpudirect(self) -> None:
        assert seen("gpudirect", self.host()) == []
        closed = Kernel("5.4.0", 0, (), False, "NVRM version: NVIDIA UNIX x86_64 Kernel Module 470.1")
        assert seen("gpudirect", self.host(facts={catalogue.KERNEL: closed})) == [
            (
                *(WARNING, "h0", ""),
                "nvidia_peermem is not loaded, and the kernel's RDMA core has no dma-buf and "
                "NVIDIA's kernel module is not the open one",
            )
        ]
        loaded = {catalogue.KERNEL: closed, catalogue.MODULES: frozenset({"nvidia_peermem"})}
        assert seen("gpudirect", self.host(facts=loaded)) == []

    def test_acs(self) -> None:
        assert seen("acs", self.host()) == [
            (WARNING, "h0", "", "ACS is on at PCI bridges above GPUs or NICs: 0000:16:00.0")
        ]
        elsewhere = {"b": pci("0000:90:00.0", 0x0604, acs=0x1D), "g": self.BELOW}
        assert seen("acs", self.host(facts={catalogue.PCI: elsewhere})) == []

    @pytest.mark.parametrize(("types", "bad"), [(("DMA-FQ", "identity"), True), (("identity",), False)])
    def test_iommu(self, types: tuple[str, ...], bad: bool) -> None:
        kernel = Kernel("6.8.0", 214, types, True, "")
        assert bool(seen("iommu", self.host(facts={catalogue.KERNEL: kernel}))) is bad

    @pytest.mark.parametrize(
        ("near", "severity"), [("PIX", None), ("PXB", None), ("PHB", NOTE), ("NODE", NOTE), ("SYS", WARNING)]
    )
    def test_distance(self, near: str, severity: Severity | None) -> None:
        """mlx5_9 is nearer, but carries no data."""
        distances = ((("GPU0", "mlx5_0"), near), (("GPU0", "mlx5_9"), "PIX"))
        topology = Topology(("GPU0",), ("mlx5_0", "mlx5_9"), distances)
        found = seen("gpu-nic", self.host(facts={catalogue.TOPOLOGY: topology}))
        assert found == ([(severity, "h0", "GPU0", f"the nearest NIC is {near} away")] if severity else [])

    def test_pci_link(self) -> None:
        nic = pci("0000:17:00.0", speed_gts=16.0)
        narrow = Gpu(1, "0000:18:00.0", "580.1", 8, 16, 0)
        net = {"eth0": shown("eth0", device="/sys/devices/pci0000:15/0000:17:00.0")}
        facts = {catalogue.PCI: {"0000:17:00.0": nic}, catalogue.NET: net, catalogue.GPUS: (GPU, narrow)}
        assert [each[2:] for each in seen("pci-link", self.host(facts=facts))] == [
            ("eth0", "PCIe at 16 GT/s, though it can do 32"),
            ("GPU1", "PCIe x8, though it can do x16"),
        ]

    def test_memory_errors(self) -> None:
        bad = Gpu(0, "0000:18:00.0", "580.1", 16, 16, 2)
        found = seen("gpu-memory", self.host(facts={catalogue.GPUS: (bad,)}))
        assert found == [(ERROR, "h0", "GPU0", "2 uncorrected memory errors since it was started")]


class TestNccl:
    OURS = Mapped("/home/a/.r2cc/current/lib/libnccl.so.2", False)
    WHEEL = Mapped("/opt/venv/nvidia/nccl/lib/libnccl.so.2", False)

    @pytest.mark.parametrize(
        ("maps", "severities"),
        [
            ((), [ERROR]),
            ((OURS,), [NOTE]),
            ((WHEEL,), [WARNING]),
            ((OURS, WHEEL), [ERROR, WARNING, NOTE]),
            ((Mapped("/home/a/.r2cc/current/lib/libnccl.so.2", True),), [WARNING]),
            ((OURS, Mapped("/opt/libnccl-net.so", False)), [NOTE, NOTE]),
        ],
    )
    def test_what_is_mapped(self, maps: tuple[Mapped, ...], severities: list[Severity]) -> None:
        facts = {catalogue.MAPPED: maps, catalogue.STORAGE: STORAGE}
        found = seen("nccl-mapped", patient(facts=facts, pid=4711))
        assert [each[0] for each in found] == severities
        assert {each[2] for each in found} == {"pid 4711"}
