"""What a test needs, and whether it is there: for the marker `r2cc_needs`."""

from __future__ import annotations

import os
from functools import cache

from harness.errors import R2ccError, UsageError

WORDS = ("root", "lab", "verbs")


def missing(place: str, *what: str, hosts: int = 0, gpus: int = 0) -> list[str]:
    """One reason for each thing that is not there. `place` is what `--r2cc-inventory` says.

    `root`: this process may do everything; `lab`: a lab can be made; `verbs`: hosts have RDMA devices; `hosts`: at
    least so many, `gpus`: at least so many over all of them. UsageError for any other word.
    """
    unknown = [word for word in what if word not in WORDS]
    if unknown:
        raise UsageError(f"r2cc_needs: {unknown[0]!r} is nothing to need", f"{', '.join(WORDS)}, hosts=2 or gpus=2")
    found = []
    if "root" in what and os.geteuid() != 0:
        found.append("needs root, and we are a plain user")
    if "lab" in what and (why := _no_lab()):
        found.append(f"needs a lab: {why}")
    if "verbs" in what and not _has_verbs(place):
        found.append(f"needs RDMA devices, and '{place}' has none: --r2cc-inventory vm:2x2, or a file of hosts")
    if (count := _hosts(place)) is not None and count < hosts:
        found.append(f"needs {hosts} hosts, and '{place}' has {count}")
    if gpus and (count := _gpus(place)) < gpus:
        found.append(f"needs {gpus} GPUs, and '{place}' has {count}")
    return found


@cache
def _no_lab() -> str:
    """Why there can be none; a small one is made to see."""
    from harness.lab.lab import Lab
    from harness.lab.topology import Topology
    from harness.sites.lab import require_tools

    try:
        require_tools()
        Lab.up(Topology(hosts=1, nics=1)).close()
    except R2ccError as error:
        return error.message
    return ""


@cache
def _has_verbs(place: str) -> bool:
    from harness.sites.inventory import parse
    from harness.sites.vm import VmSite

    with parse(place) as site:
        return isinstance(site, VmSite) or bool(site.devices("ib"))


@cache
def _hosts(place: str) -> int | None:
    """None: as many as an experiment wants."""
    from harness.sites.inventory import parse

    with parse(place) as site:
        return None if site.adopts_topology else len(site.listing())


@cache
def _gpus(place: str) -> int:
    """Of all hosts; those of the lab have this machine's."""
    from harness.sites.inventory import parse
    from harness.sites.lab import LabSite

    with parse(place) as site:
        return _here() if isinstance(site, LabSite) else (site.gpus() or 0) * len(site.listing())


def _here() -> int:
    import pynvml

    try:
        pynvml.nvmlInit()
        return int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError:
        return 0
