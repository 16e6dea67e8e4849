"""`nvidia-smi`: GPUs, and how near each is to each NIC. NVML in this process is the same fact for this machine."""

from __future__ import annotations

import csv
import importlib
import re
from dataclasses import dataclass
from typing import Any

from harness.facts.base import FactError, NotAvailable, Raw, parser

QUERY = (
    *("index", "name", "uuid", "pci.bus_id", "driver_version", "pcie.link.gen.current", "pcie.link.gen.max"),
    *("pcie.link.width.current", "pcie.link.width.max", "ecc.errors.uncorrected.volatile.total"),
)
"""Any of them may say that the GPU is lost."""
LOST = re.compile(r"GPU is lost|Unknown Error|ERR!|requires reset|fallen off the bus", re.IGNORECASE)
UNABLE = re.compile(
    r"Unable to determine the device handle for GPU\s*(?:(?P<index>\d{1,3}):\s*)?"
    r"(?P<bus>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)?:?\s*(?P<why>.*)",
    re.IGNORECASE,
)
"""Written `GPU 0000:3b:00.0: WHY`, `GPU0000:3B:00.0: WHY` or `GPU0: 0000:3b:00.0: WHY`, by the driver's age."""
NONE_FOUND = re.compile(r"^\s*No devices were found", re.MULTILINE)
DISTANCES = ("X", "PIX", "PXB", "PHB", "NODE", "SYS")


@dataclass(frozen=True)
class Gpu:
    """None: the GPU does not tell."""

    index: int
    """-1: of a lost one it is not told."""
    bus: str
    driver: str
    width: int | None
    most_width: int | None
    uncorrected: int | None
    lost: str = ""
    """Why the driver cannot use it any more, in its words; empty: it can."""


@dataclass(frozen=True)
class Topology:
    """Distances between GPUs and NICs: NV#, PIX, PXB, PHB, NODE, SYS, or what else a driver writes. NICs are called by
    their RDMA devices."""

    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    distances: tuple[tuple[tuple[str, str], str], ...]

    def between(self, first: str, second: str) -> str:
        return dict(self.distances).get((first, second), "")


@parser("nvidia-smi")
def gpus(text: str) -> tuple[Gpu, ...]:
    """From `--query-gpu=... --format=csv`: columns by the names in the first line, whatever units they carry. GPUs that
    are lost have a line of their own, or tell so in a column."""
    lines = [line for line in text.splitlines() if line.strip()]
    unable = [match for line in lines if (match := UNABLE.search(line))]
    lost = tuple(_lost(match) for match in unable)
    told = [line for line in lines if not UNABLE.search(line) and not NONE_FOUND.match(line)]
    if not told:
        return lost
    rows = list(csv.reader(told, skipinitialspace=True))
    names = [name.partition(" [")[0].strip() for name in rows[0]]
    found = tuple(_gpu(dict(zip(names, row, strict=True)), at) for at, row in enumerate(rows[1:]))
    return (*found, *lost)


def refused(raw: Raw) -> tuple[Gpu, ...] | None:
    """What an nvidia-smi that failed still says of GPUs: which are lost, or that there are none. None: nothing."""
    text = f"{raw.stdout}\n{raw.stderr}"
    try:
        found = gpus(text)
    except FactError:
        return None
    return found if any(gpu.lost for gpu in found) or NONE_FOUND.search(text) else None


def _lost(found: re.Match[str]) -> Gpu:
    index = int(found["index"]) if found["index"] else -1
    return Gpu(index, _bus(found["bus"] or ""), "", None, None, None, found["why"].strip() or "?")


def _bus(text: str) -> str:
    """As the kernel writes PCI addresses."""
    domain, colon, rest = text.strip().lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}" if colon else text.strip().lower()


def _gpu(row: dict[str, str], at: int) -> Gpu:
    def count(name: str) -> int | None:
        return int(row[name]) if row.get(name, "").strip().isdigit() else None

    def text(name: str) -> str:
        return "" if LOST.search(row[name]) else row[name].strip()

    lost = next((value.strip(" []") for value in row.values() if LOST.search(value)), "")
    return Gpu(
        int(text("index") or at),
        _bus(text("pci.bus_id")),
        text("driver_version"),
        count("pcie.link.width.current"),
        count("pcie.link.width.max"),
        count("ecc.errors.uncorrected.volatile.total"),
        lost,
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
    wrong = [cell for cell in distances.values() if not re.fullmatch(r"[A-Z][A-Z0-9/]{0,7}", cell)]
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
        return tuple(_found_or_lost(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
    except nvml.NVMLError as error:
        return NotAvailable("NVML", "nvidia-ml-py", str(error))
    finally:
        nvml.nvmlShutdown()


def _found_or_lost(nvml: Any, index: int) -> Gpu:
    try:
        return _from_nvml(nvml, index)
    except nvml.NVMLError as error:
        if not LOST.search(str(error)):
            raise
        return Gpu(index, "", "", None, None, None, str(error))


def _from_nvml(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)

    def asked(name: str) -> int | None:
        try:
            return int(getattr(nvml, name)(handle))
        except nvml.NVMLError:
            return None

    bus = _text(nvml.nvmlDeviceGetPciInfo(handle).busId)
    return Gpu(
        index,
        _bus(bus),
        _text(nvml.nvmlSystemGetDriverVersion()),
        asked("nvmlDeviceGetCurrPcieLinkWidth"),
        asked("nvmlDeviceGetMaxPcieLinkWidth"),
        None,
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
