"""The host's kernel, limits, clock daemons, disk and settings, and what a process has mapped."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.facts.base import named_lines, parser, sections, table
from harness.facts.environment import TOOLKIT

UNLIMITED = 2**63
CAP_IPC_LOCK = 14
WHOLE_UIDS = 4294967295
WITHOUT_USER_NAMESPACES = ("0", "0", str(WHOLE_UIDS))
"""What a kernel that has none would say of everybody."""


@dataclass(frozen=True)
class Kernel:
    release: str
    iommu_groups: int
    iommu_types: tuple[str, ...]
    """`identity` is passthrough; `DMA` and `DMA-FQ` translate."""
    dmabuf_symbol: bool
    nvidia: str
    """What NVIDIA's kernel module says of itself; empty: it is not loaded."""


@dataclass(frozen=True)
class Limit:
    """`UNLIMITED` for what has no limit."""

    soft: int
    hard: int


@dataclass(frozen=True)
class Identity:
    """Who we are there. `locks_freely`: memlock does not bind us, by CAP_IPC_LOCK outside any user namespace."""

    uid: int
    locks_freely: bool
    connection: str
    """Its own address of the SSH connection; empty when it is not reached over SSH."""


@dataclass(frozen=True)
class Storage:
    """Free bytes; None: not known."""

    prefix: str
    existing: str
    """The nearest folder above the prefix that is there."""
    writable: bool
    free_bytes: int | None
    shm_bytes: int | None


@dataclass(frozen=True)
class Mapped:
    """A library that a process has mapped."""

    path: str
    deleted: bool


@parser("/proc/modules")
def modules(text: str) -> frozenset[str]:
    names = [line.split(" ") for line in text.splitlines() if line.strip()]
    wrong = [words for words in names if len(words) < 5]
    if wrong:
        raise ValueError(f"'{' '.join(wrong[0])}' is no module")
    return frozenset(words[0] for words in names)


@parser("modinfo")
def module_versions(text: str) -> dict[str, str]:
    """By name; empty: it says none."""
    return {name: named_lines(body.splitlines()).get("version", "") for name, body in sections(text).items()}


@parser("/proc and the kernel's configuration")
def kernel(text: str) -> Kernel:
    files = table(text)
    return Kernel(
        files["release"],
        int(files["iommu_groups"]),
        tuple(files.get("iommu_types", "").split()),
        "symbol ib_umem_dmabuf_get" in files,
        files.get("/proc/driver/nvidia/version", ""),
    )


@parser("/proc/self/limits")
def limits(text: str) -> dict[str, Limit]:
    """By name, as the file has it (`Max locked memory`): the columns lie below their headers, with spaces in names."""
    lines = [line for line in text.splitlines() if line.strip()]
    head = re.match(r"Limit\s+Soft Limit\s+Hard Limit", lines[0])
    if head is None:
        raise ValueError("no headers")
    found = {}
    for line in lines[1:]:
        name, soft, hard = re.split(r"\s{2,}", line.strip())[:3]
        found[name] = Limit(_limit(soft), _limit(hard))
    return found


def _limit(text: str) -> int:
    return UNLIMITED if text == "unlimited" else int(text)


@parser("/proc/self/status")
def identity(text: str) -> Identity:
    said = table(text)
    inside, _outside, count = (int(word) for word in said["uid_map"].split() or WITHOUT_USER_NAMESPACES)
    locks = bool(int(said["CapEff"], 16) >> CAP_IPC_LOCK & 1) and inside == 0 and count == WHOLE_UIDS
    words = said.get("connection", "").split()
    return Identity(int(said["Uid"].split()[0]), locks, words[2] if len(words) == 4 else "")


@parser("/proc/sys")
def sysctl(text: str) -> dict[str, str]:
    """By path below /proc/sys: an interface's name may hold dots."""
    return table(text)


@parser("/proc/*/comm")
def daemons(text: str) -> frozenset[str]:
    return frozenset(line.strip() for line in text.splitlines() if line.strip())


@parser("timedatectl")
def synchronised(text: str) -> bool | None:
    """None: it does not say."""
    return {"yes": True, "no": False}.get(named_lines(text.splitlines(), "=").get("NTPSynchronized", ""))


@parser("chronyc")
def follows(text: str) -> bool:
    """Whether chronyd follows a source."""
    said = named_lines(text.splitlines())
    return said["Leap status"] != "Not synchronised" and int(said["Stratum"]) > 0


@parser("df")
def storage(text: str) -> Storage:
    parts = sections(text)
    return Storage(
        parts["prefix"].strip(),
        parts["existing"].strip(),
        parts["writable"].strip() == "yes",
        _free(parts["disk"]),
        _free(parts["shm"]),
    )


def _free(text: str) -> int | None:
    """From `df -P -k`: the column `Available`, counted from the right, as names of devices may hold spaces."""
    lines = text.splitlines()
    if len(lines) < 2:
        return None
    names = lines[0].replace("Mounted on", "Mounted").split()
    behind = len(names) - names.index("Available")
    return int(lines[1].split()[-behind]) * 1024


@parser("the environment")
def settings(text: str) -> dict[str, str]:
    """Variables NCCL_* and R2CC_* that every login there sets, then those of ~/.nccl.conf and /etc/nccl.conf. What only
    `r2cc` reads is none of them."""
    return {name: value for name, value in named_lines(text.splitlines(), "=").items() if name and name not in TOOLKIT}


@parser("/proc/PID/maps")
def mapped(text: str) -> tuple[Mapped, ...]:
    """Files that are mapped, once each: the sixth field, which may hold spaces."""
    found: dict[Mapped, None] = {}
    for line in text.splitlines():
        words = line.split(maxsplit=5)
        if len(words) < 5 or not re.fullmatch(r"[0-9a-f]+-[0-9a-f]+", words[0]):
            raise ValueError(f"'{line[:80]}' is no mapping")
        path = words[5].strip() if len(words) > 5 else ""
        if path.startswith("/"):
            found[Mapped(path.removesuffix(" (deleted)"), path.endswith(" (deleted)"))] = None
    return tuple(found)
