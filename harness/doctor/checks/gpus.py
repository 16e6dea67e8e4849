"""GPUs, and what lies between them and the NICs."""

from __future__ import annotations

from collections.abc import Iterator

from harness.doctor.checks.mark import of_host
from harness.doctor.model import ERROR, NOTE, WARNING, Patient, Seen
from harness.facts import NotAvailable
from harness.facts import catalogue as facts
from harness.facts.base import NOT_ASKED
from harness.facts.nvidia import DISTANCES
from harness.facts.sysfs import ACS_REDIRECTS, PciDevice

PEERMEM = frozenset({"nvidia_peermem", "nv_peer_mem"})
NETWORK, BRIDGE = (0x0200, 0x0207), 0x0604
NVIDIA, DISPLAY = 0x10DE, 0x03
NEAR = ("PIX", "PXB")


@of_host("gpudirect", facts.GPUS, facts.RDMA, facts.KERNEL)
def gpudirect(patient: Patient) -> Iterator[Seen]:
    """Where there are GPUs and RDMA: by nvidia_peermem, or by dma-buf with the open kernel module."""
    kernel = patient.known.get(facts.KERNEL)
    if not patient.known.get(facts.GPUS) or not patient.known.get(facts.RDMA) or kernel is None:
        return
    modules = patient.known.get(facts.MODULES) or frozenset()
    if modules & PEERMEM:
        return
    opened = "Open Kernel Module" in kernel.nvidia
    if not (kernel.dmabuf_symbol and opened):
        lacks = [] if kernel.dmabuf_symbol else ["the kernel's RDMA core has no dma-buf"]
        lacks += [] if opened else ["NVIDIA's kernel module is not the open one"]
        yield Seen(WARNING, patient.name, "", f"nvidia_peermem is not loaded, and {' and '.join(lacks)}")


@of_host("acs", facts.GPUS, facts.PCI)
def acs(patient: Patient) -> Iterator[Seen]:
    """Only of bridges above a GPU or a NIC: others send nothing from one to the other."""
    devices = patient.known.get(facts.PCI) or {}
    gpus = _gpu_addresses(patient)
    if not gpus:
        return
    above = {
        part for each in devices.values() if each.address in gpus or each.kind in NETWORK for part in each.path[:-1]
    }
    bad = [
        each.address
        for each in devices.values()
        if each.kind == BRIDGE and each.address in above and (each.acs or 0) & ACS_REDIRECTS
    ]
    if bad:
        few = ", ".join(bad[:3]) + (f" and {len(bad) - 3} more" if len(bad) > 3 else "")
        yield Seen(WARNING, patient.name, "", f"ACS is on at PCI bridges above GPUs or NICs: {few}")


def _gpu_addresses(patient: Patient) -> frozenset[str]:
    return frozenset(gpu.bus for gpu in patient.known.get(facts.GPUS) or ())


@of_host("iommu", facts.GPUS, facts.KERNEL)
def iommu(patient: Patient) -> Iterator[Seen]:
    kernel = patient.known.get(facts.KERNEL)
    if kernel is None or not kernel.iommu_groups or not patient.known.get(facts.GPUS):
        return
    if {"DMA", "DMA-FQ"} & set(kernel.iommu_types):
        yield Seen(WARNING, patient.name, "", "the IOMMU translates devices' addresses")


@of_host("gpu-nic", facts.TOPOLOGY)
def distance(patient: Patient) -> Iterator[Seen]:
    """Of each GPU to the nearest data NIC that has an RDMA device; `nvidia-smi topo` knows no others."""
    topology = patient.known.get(facts.TOPOLOGY)
    if topology is None:
        return
    wanted = {port.device for port in patient.ports().values()} & set(topology.nics) or set(topology.nics)
    for gpu in topology.gpus:
        found = [topology.between(gpu, nic) for nic in topology.nics if nic in wanted]
        near = min((each for each in found if each in DISTANCES), key=DISTANCES.index, default=None)
        if near is not None and near not in (*NEAR, "X"):
            severity = WARNING if near == "SYS" else NOTE
            yield Seen(severity, patient.name, gpu, f"the nearest NIC is {near} away")


@of_host("pci-link", facts.PCI, facts.NET)
def pci_link(patient: Patient) -> Iterator[Seen]:
    """A GPU that idles lowers its speed, so only the lanes count there."""
    devices = patient.known.get(facts.PCI) or {}
    nics = {shown.pci: nic for nic, shown in (patient.known.get(facts.NET) or {}).items() if nic in patient.data}
    for address, each in devices.items():
        name = nics.get(address)
        if name is None:
            continue
        if each.width and each.most_width and each.width < each.most_width:
            yield Seen(WARNING, patient.name, name, f"PCIe x{each.width}, though it can do x{each.most_width}")
        elif each.speed_gts and each.most_gts and each.speed_gts < each.most_gts:
            yield Seen(
                WARNING, patient.name, name, f"PCIe at {each.speed_gts:g} GT/s, though it can do {each.most_gts:g}"
            )
    for gpu in patient.known.get(facts.GPUS) or ():
        if gpu.width and gpu.most_width and gpu.width < gpu.most_width:
            yield Seen(
                WARNING, patient.name, f"GPU{gpu.index}", f"PCIe x{gpu.width}, though it can do x{gpu.most_width}"
            )


@of_host("gpu-lost")
def lost(patient: Patient) -> Iterator[Seen]:
    """By the driver's word, or because it drives a GPU that it does not show, or because the inventory has more."""
    known = patient.known.get(facts.GPUS)
    if known is None:
        yield from _silent(patient)
        return
    for gpu in known:
        if gpu.lost:
            subject = f"GPU{gpu.index}" if gpu.index >= 0 else gpu.bus
            yield Seen(ERROR, patient.name, subject, f"NVIDIA's driver has lost it: {gpu.lost}")
    shown = {gpu.bus for gpu in known}
    nameless = sum(not gpu.bus for gpu in known)
    hidden = [device.address for device in _driven(patient) if device.address not in shown]
    for address in hidden[nameless:]:
        yield Seen(ERROR, patient.name, address, "NVIDIA's driver has this GPU and does not show it")
    if patient.gpus is not None and len(known) + len(hidden[nameless:]) < patient.gpus:
        text = f"the inventory says {patient.gpus} GPUs, and NVIDIA's driver shows {len(known)}"
        yield Seen(ERROR, patient.name, "", text)


def _driven(patient: Patient) -> list[PciDevice]:
    devices = (patient.known.get(facts.PCI) or {}).values()
    return [each for each in devices if is_gpu(each) and each.driver == "nvidia"]


def is_gpu(device: PciDevice) -> bool:
    return device.vendor == NVIDIA and device.kind >> 8 == DISPLAY


def _silent(patient: Patient) -> Iterator[Seen]:
    """nvidia-smi is there and fails: with a GPU in the machine, something is wrong with GPU or driver."""
    why, devices = patient.known.why(facts.GPUS), patient.known.get(facts.PCI)
    fails = isinstance(why, NotAvailable) and why.installed and why.why != NOT_ASKED
    if fails and (devices is None or any(is_gpu(each) for each in devices.values())):
        severity = ERROR if _driven(patient) else WARNING
        yield Seen(severity, patient.name, "", str(why))


@of_host("gpu-memory", facts.GPUS)
def memory_errors(patient: Patient) -> Iterator[Seen]:
    for gpu in patient.known.get(facts.GPUS) or ():
        if gpu.uncorrected:
            text = f"{gpu.uncorrected} uncorrected memory errors since it was started"
            yield Seen(ERROR, patient.name, f"GPU{gpu.index}", text)
