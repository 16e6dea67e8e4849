"""All facts, in the order in which a host is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.facts import ethtool, ibv, iproute, kernel, loading, nvidia, scripts, sysfs, ways
from harness.facts.base import Fact, parser, table
from harness.facts.ways import Tried, Try

IPROUTE, NVIDIA = "iproute2", "the NVIDIA driver"

VERSIONS = Fact("versions", scripts.VERSIONS, parser("the script of versions")(table), "sh")
FIRST = Fact("counters before", ("ip", "-j", "-s", "link"), iproute.counters, "ip", IPROUTE)
FIRST_RDMA = Fact("RDMA counters before", scripts.RDMA_COUNTERS, sysfs.rdma_counters, "sh")
LINKS = Fact("links", ("ip", "-j", "-d", "link"), iproute.links, "ip", IPROUTE)
ADDRESSES = Fact("addresses", ("ip", "-j", "addr"), iproute.addresses, "ip", IPROUTE)
ROUTES = Fact("routes", ("ip", "-j", "-d", "route"), iproute.routes, "ip", IPROUTE)
ROUTES_IPV6 = Fact("IPv6 routes", ("ip", "-6", "-j", "-d", "route"), iproute.routes, "ip", IPROUTE)
QDISCS = Fact("qdiscs", ("tc", "-j", "-s", "qdisc"), iproute.qdiscs, "tc", IPROUTE)
RDMA_LINKS = Fact("RDMA links", ("rdma", "-j", "link"), iproute.rdma_links, "rdma", IPROUTE)
RDMA_DEVICES = Fact("RDMA devices", ("rdma", "-j", "dev"), iproute.rdma_kinds, "rdma", IPROUTE)
RDMA_NETNS = Fact("RDMA namespaces", ("rdma", "-j", "system"), iproute.rdma_netns, "rdma", IPROUTE)
CHAINS = Fact("firewall", ("nft", "-j", "list", "ruleset"), iproute.input_chains, "nft", "nftables")
NET = Fact("NICs", scripts.NET, sysfs.nics, "sh")
RDMA = Fact("RDMA ports", scripts.RDMA, sysfs.rdma_ports, "sh", limit_s=20)
PCI = Fact("PCI devices", scripts.PCI, sysfs.pci_devices, "sh", limit_s=20)
ETHTOOL = Fact("ethtool", scripts.ETHTOOL, ethtool.nics, "ethtool", "ethtool", 20)
IBV = Fact("verbs devices", ("ibv_devinfo", "-v"), ibv.devices, "ibv_devinfo", "ibverbs-utils", 10)
GPUS = Fact(
    "GPUs",
    ("nvidia-smi", f"--query-gpu={','.join(nvidia.QUERY)}", "--format=csv"),
    nvidia.gpus,
    "nvidia-smi",
    NVIDIA,
    20,
    nvidia.refused,
)
TOPOLOGY = Fact("GPU topology", ("nvidia-smi", "topo", "-m"), nvidia.topology, "nvidia-smi", NVIDIA, 20)
MODULES = Fact("modules", scripts.MODULES, kernel.modules, "cat")
MODINFO = Fact("module versions", scripts.MODINFO, kernel.module_versions, "modinfo", "kmod")
KERNEL = Fact("kernel", scripts.KERNEL, kernel.kernel, "sh")
LIMITS = Fact("limits", scripts.LIMITS, kernel.limits, "cat")
IDENTITY = Fact("identity", scripts.IDENTITY, kernel.identity, "sh")
SYSCTL = Fact("sysctl", scripts.SYSCTL, kernel.sysctl, "sh")
DAEMONS = Fact("time daemons", scripts.DAEMONS, kernel.daemons, "sh")
TIMEDATE = Fact("timedatectl", ("timedatectl", "show"), kernel.synchronised, "timedatectl", "systemd")
CHRONY = Fact("chrony", ("chronyc", "-n", "tracking"), kernel.follows, "chronyc", "chrony")
SETTINGS = Fact("settings", scripts.SETTINGS, kernel.settings, "sh")
LOADING = Fact("NCCL to be loaded", loading.LOADING, loading.loading, "sh", limit_s=20)
PING = Fact("ping", ("true",), str.strip, "ping", "iputils-ping")
WHOLE_PING = Fact("ping -M", scripts.FORBIDS, str.strip, "ping", "iputils-ping")
LAST = Fact("counters after", ("ip", "-j", "-s", "link"), iproute.counters, "ip", IPROUTE)
LAST_RDMA = Fact("RDMA counters after", scripts.RDMA_COUNTERS, sysfs.rdma_counters, "sh")

EVERY: tuple[Fact[Any], ...] = (
    *(VERSIONS, FIRST, FIRST_RDMA, LINKS, ADDRESSES, ROUTES, ROUTES_IPV6, QDISCS, RDMA_LINKS, RDMA_DEVICES),
    *(RDMA_NETNS, CHAINS, NET, RDMA, PCI, ETHTOOL, IBV, GPUS, TOPOLOGY, MODULES, MODINFO, KERNEL, LIMITS, IDENTITY),
    *(SYSCTL, DAEMONS, TIMEDATE, CHRONY, SETTINGS, LOADING, PING, WHOLE_PING),
)
STORAGE = Fact("storage", (), kernel.storage, "df", "coreutils")
MAPPED = Fact("mapped libraries", (), kernel.mapped, "cat", "coreutils")
LOADED = Fact("loaded NCCL", (), loading.loading, "sh")


def paths(tries: Sequence[Try]) -> Fact[tuple[Tried, ...]]:
    """What the host tries of its ways to others; ping sends again for a second before it gives one up."""
    words = [word for each in tries for word in (each.nic, each.source, each.target, str(each.size))]
    return Fact("paths", scripts.script(scripts.PATHS, *words), ways.tried, "ip", IPROUTE, 15)


def asked(prefix: str, pid: int | None = None) -> tuple[Fact[Any], ...]:
    """What one host is asked; `prefix` is where builds are deployed, `pid` a workload's process there."""
    storage = Fact("storage", scripts.script(scripts.STORAGE, prefix), kernel.storage, "df", "coreutils")
    return (*EVERY, storage, *(_of_process(pid) if pid else ()), LAST_RDMA, LAST)


def _of_process(pid: int) -> tuple[Fact[Any], ...]:
    return (
        replace(MAPPED, argv=("cat", f"/proc/{pid}/maps")),
        replace(LOADED, argv=scripts.script(loading.OF_PROCESS, str(pid))),
    )
