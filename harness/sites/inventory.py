"""What `--inventory` means. Its text is understood here, once; everything else has a Site."""

from __future__ import annotations

import os
import re
from pathlib import Path

from harness.errors import UsageError
from harness.sites.cluster import ClusterSite
from harness.sites.lab import LabSite
from harness.sites.local import LocalSite
from harness.sites.site import Site
from harness.sites.slurm import SlurmSite
from harness.sites.vm import VmSite

SUPPORTED = (
    "supported: lab (the default), lab:FILE with a topology file or the name of a shipped topology, "
    "vm or vm:2x4 for emulated machines with soft-RoCE (hosts x NICs), uml or uml:2x4 for the same in User Mode Linux, "
    "FILE or FILE:node[1-4] with hosts over SSH or pods (docs/howto/cluster.md), slurm for those of our allocation"
)
VM = re.compile(r"(?P<engine>vm|uml)(?::(?P<hosts>[1-8])x(?P<nics>[1-8]))?")


def without_a_file(start: str) -> dict[str, str | None]:
    """Inventories that begin so and need no file, each with what it is; for a shell's completion."""
    from harness.lab.topology import shipped_names

    kinds = {
        "lab": "network namespaces of this machine",
        "vm": "emulated machines with soft-RoCE",
        "uml": "User Mode Linux with soft-RoCE",
    }
    shipped = dict.fromkeys((f"lab:{name}" for name in shipped_names()) if ":" in start else ())
    return {name: what for name, what in {**kinds, **shipped}.items() if name.startswith(start)}


def parse(text: str, *, local: bool = False) -> Site:
    """The site that `text` names; nothing of it is read or asked yet. `local`: this machine may be one.

    UsageError, with what is supported, for a text that names none.
    """
    kind, colon, source = text.partition(":")
    if text == "lab" or (kind == "lab" and source):
        return LabSite(text, source)
    if text == "slurm":
        return SlurmSite(text)
    if local and text == "local":
        return LocalSite(text)
    if (found := VM.fullmatch(text)) is not None:
        return _vm(text, found)
    file, words = _file_of(text)
    if file.is_file():
        return ClusterSite(text, file, words)
    if kind in ("vm", "uml"):
        raise UsageError(f"'{text}' is no {kind} lab: at most 8 hosts and 8 NICs", SUPPORTED)
    if kind == "lab" and colon:
        raise UsageError("'lab:' names no topology file", SUPPORTED)
    raise UsageError(f"no inventory '{text}'{_no_file(text)}", SUPPORTED)


def _vm(text: str, found: re.Match[str]) -> VmSite:
    from harness.vmlab.shape import Engine, Shape

    engine: Engine = "uml" if found["engine"] == "uml" else "vm"
    hosts, nics = int(found["hosts"] or 2), int(found["nics"] or 4)
    return VmSite(text, Shape.fitting(len(os.sched_getaffinity(0)), hosts=hosts, nics=nics, engine=engine))


def _file_of(text: str) -> tuple[Path, str]:
    """(file, range of hosts). A file whose name has a colon in it is still a file."""
    name, _, words = text.rpartition(":")
    if Path(text).is_file() or not name or not Path(name).is_file():
        return Path(text), ""
    return Path(name), words


def _no_file(text: str) -> str:
    """What is wrong with a file that was meant; empty where none was."""
    if Path(text).exists():
        return ": it is no file"
    return ": there is no such file" if "/" in text or re.search(r"\.ya?ml(:|$)", text) else ""
