"""`nvidia-smi`: GPUs, and how near each is to each NIC. NVML in this process is the same fact for this machine."""

from __future__ import annotations

import csv
import importlib
import re
from dataclasses import dataclass
from typing import Any

from harness.facts.base import NotAvailable, parser

QUERY = (
    *("index", "name", "uuid", "pci.bus_id", "driver_version", "pcie.link.gen.current", "pcie.link.gen.max"),
    *("pcie.link.width.current", "pcie.link.width.max", "ecc.errors.uncorrected.volatile.total"),
)
DISTANCES = ("X", "PIX", "PXB", "PHB", "NODE", "SYS")


@dataclass(frozen=True)
class Gpu:
    """None: the GPU does not tell."""

    index: int
    name: str
    uuid: str
    bus: str
    driver: str
    gen: int | None
    most_gen: int | None
    width: int | None
    most_width: int | None
    uncorrected: int | None


@dataclass(frozen=True)
class Topology:
    """Distances between GPUs and NICs: NV#, PIX, PXB, PHB, NODE, SYS. NICs are called by their RDMA devices."""

    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    distances: tuple[tuple[tuple[str, str], str], ...]

    def between(self, first: str, second: str) -> str:
        return dict(self.distances).get((first, second), "")


@parser("nvidia-smi")
def gpus(text: str) -> tuple[Gpu, ...]:
    """From `--query-gpu=... --format=csv`: columns by the names in the first line, whatever units they carry."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].startswith("No devices"):
        return ()
    rows = list(csv.reader(lines, skipinitialspace=True))
    names = [name.partition(" [")[0].strip() for name in rows[0]]
    return tuple(_gpu(dict(zip(names, row, strict=True))) for row in rows[1:])


def _gpu(row: dict[str, str]) -> Gpu:
    def count(name: str) -> int | None:
        return int(row[name]) if row.get(name, "").strip().isdigit() else None

    bus = row["pci.bus_id"].strip().lower()
    return Gpu(
        int(row["index"]),
        row["name"],
        row["uuid"],
        re.sub(r"^0{4}(?=[0-9a-f]{4}:)", "", bus),
        row["driver_version"],
        count("pcie.link.gen.current"),
        count("pcie.link.gen.max"),
        count("pcie.link.width.current"),
        count("pcie.link.width.max"),
        count("ecc.errors.uncorrected.volatile.total"),
    )


@parser("nvidia-smi topo")
def topology(text: str) -> Topology:
    """The matrix by its own headers; old drivers call NICs by their device in it, newer ones NIC0 with a legend."""
    lines = [line for line in text.splitlines() if line.strip()]
    legend = dict(re.findall(r"^\s*(NIC\d+):\s*(\S+)\s*$", text, flags=re.MULTILINE))
    head = next((line for line in lines if "GPU0" in line.split()), None)
    if head is None:
        raise ValueError("no line of headers with GPU0")
    columns = re.split(r"\s*(?:CPU|NUMA) Affinity", head)[0].split()
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.split()[0] in columns and line != head}
    distances = {
        (legend.get(row, row), legend.get(column, column)): cell
        for row, cells in rows.items()
        for column, cell in zip(columns, cells, strict=False)
    }
    wrong = [cell for cell in distances.values() if cell not in DISTANCES and not re.fullmatch(r"NV\d+|OK|NS", cell)]
    if wrong:
        raise ValueError(f"'{wrong[0]}' is no distance")
    gpu_names = tuple(name for name in columns if re.fullmatch(r"GPU\d+", name))
    nics = tuple(legend.get(name, name) for name in columns if name not in gpu_names)
    return Topology(gpu_names, nics, tuple(distances.items()))


def local_gpus() -> tuple[Gpu, ...] | NotAvailable:
    """This machine's GPUs through NVML, with no program started. Nothing is raised."""
    missing = NotAvailable("NVML", "nvidia-ml-py")
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return missing
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return NotAvailable("NVML", "nvidia-ml-py", str(error))
    try:
        return tuple(_from_nvml(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
    except nvml.NVMLError as error:
        return NotAvailable("NVML", "nvidia-ml-py", str(error))
    finally:
        nvml.nvmlShutdown()


def _from_nvml(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)

    def asked(name: str) -> int | None:
        try:
            return int(getattr(nvml, name)(handle))
        except nvml.NVMLError:
            return None

    bus = _text(nvml.nvmlDeviceGetPciInfo(handle).busId).lower()
    return Gpu(
        index,
        _text(nvml.nvmlDeviceGetName(handle)),
        _text(nvml.nvmlDeviceGetUUID(handle)),
        re.sub(r"^0{4}(?=[0-9a-f]{4}:)", "", bus),
        _text(nvml.nvmlSystemGetDriverVersion()),
        asked("nvmlDeviceGetCurrPcieLinkGeneration"),
        asked("nvmlDeviceGetMaxPcieLinkGeneration"),
        asked("nvmlDeviceGetCurrPcieLinkWidth"),
        asked("nvmlDeviceGetMaxPcieLinkWidth"),
        None,
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
