"""The topology an experiment names or holds: read by the lab's own reader, with the experiment file's lines."""

from __future__ import annotations

from pathlib import Path

from harness.config.documents import Document
from harness.errors import InputErrors, UsageError
from harness.lab import topology as lab_topology
from harness.lab.topology import Topology


def checked(document: Document, path: Path, errors: list[str]) -> Topology | None:
    """The topology of an experiment file; None, with what is wrong added to `errors`, when it cannot be used."""
    value = document.value["topology"]
    try:
        if isinstance(value, str):
            return Topology.load(beside(path, value))
        return lab_topology.checked(document.part("topology"))
    except InputErrors as error:
        errors += error.errors
    except UsageError as error:
        errors.append(document.message(("topology",), f"topology: {error.message}"))
    return None


def beside(path: Path, name: str) -> Path | str:
    """The file a topology's name means: relative to the experiment, else one of the shipped."""
    file = path.parent / name
    return name if not file.exists() and name in lab_topology.shipped_names() else file


def nics_of(topology: Topology) -> dict[str, list[str]]:
    """Every host's NICs, by the lab's naming (docs/reference/contracts.md)."""
    return {f"h{host}": [f"eth{nic}" for nic in range(topology.nics)] for host in range(topology.hosts)}
