"""environment.json: what a reader needs to compare runs, from an allow-list, so that no secret can slip in."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from harness.schemas.form import form, growing, left_out

ALLOWED_VARIABLES = (
    "NCCL_DEBUG",
    "NCCL_SOCKET_IFNAME",
    "R2CC_EVENT_FILE",
    "R2CC_HOLD_MS",
    "R2CC_MODE",
    "R2CC_SCHEDULE",
    "R2CC_SIDE_IFNAME",
)
TOOLKIT = frozenset(
    {
        "R2CC_CI_GRACE_S",
        "R2CC_CI_STARTED",
        "R2CC_CI_STORE",
        "R2CC_CI_TIMES",
        "R2CC_DEBUG",
        "R2CC_NCCL_SOURCE",
        "R2CC_NCCL_TESTS",
        "R2CC_PYTHON",
        "R2CC_SHARE_GPUS",
        "R2CC_STORE",
    }
)
"""Read by `r2cc` alone: they say nothing to the library, and do not ask for it."""
PACKAGES = ("r2cc", "click", "pydantic", "pyroute2", "PyYAML", "rich")


@growing
@dataclass(frozen=True)
class Hardware:
    """What figures depend on, and a fingerprint to key series of runs by."""

    fingerprint: str
    cpu: str
    cores: int
    memory_bytes: int
    machines: int | None = left_out()


@form("environment", "environment.json of a run directory; an imported one says only what wrote it")
@dataclass(frozen=True)
class Environment:
    """Where a run was made."""

    hardware: Hardware
    kernel: str
    python: str
    platform: str
    packages: Mapping[str, str]
    build: Mapping[str, Any]
    """build.json of what ran; `nccl`: the version of NCCL that it was built for, where that is the one that ran"""
    variables: Mapping[str, str]
    """those of a list of harmless ones"""


def cpu_model(cpuinfo: str) -> str:
    """The first `model name` of /proc/cpuinfo; the architecture's name where there is none (ARM)."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def hardware() -> Hardware:
    """Of this machine; memory is rounded in the fingerprint: it differs between boots."""
    import psutil

    cpu = cpu_model(Path("/proc/cpuinfo").read_text())
    return hardware_of([(cpu, len(os.sched_getaffinity(0)), psutil.virtual_memory().total)])


def hardware_of(machines: Sequence[tuple[str, int, int]]) -> Hardware:
    """The same of one or more machines, each with its CPU's model, cores and memory in bytes; figures of the first."""
    texts = [f"{cpu}|{cores}|{round(memory / 2**30)}" for cpu, cores, memory in machines]
    cpu, cores, memory = machines[0]
    return Hardware(
        fingerprint=hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()[:12],
        cpu=cpu,
        cores=cores,
        memory_bytes=memory,
        machines=len(machines) if len(machines) > 1 else None,
    )


def environment(
    build: Mapping[str, Any], variables: Mapping[str, str] | None = None, machines: Hardware | None = None
) -> Environment:
    """The whole of environment.json; `build` is the build's own description (id and what went into it), `machines`
    the hardware of the bed where it is not this machine's."""
    given = os.environ if variables is None else variables
    return Environment(
        hardware=machines or hardware(),
        kernel=platform.release(),
        python=platform.python_version(),
        platform=sys.platform,
        packages={name: found for name in PACKAGES if (found := _version(name))},
        build=build,
        variables={name: given[name] for name in ALLOWED_VARIABLES if name in given},
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
