"""A topology's file, read and checked: all mistakes at once, each with its line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.simulate.cluster import topology_checks
from chaos.simulate.cluster.topology import Place, Topology
from harness.config import documents
from harness.config.documents import Document
from harness.config.fitting import fitted
from harness.config.kinds import SIMULATED_NETWORK
from harness.config.words import in_order
from harness.errors import InputErrors


def load(source: Path | str | Mapping[str, Any]) -> Topology:
    """From a YAML file or from what one holds. Raises InputErrors with all mistakes; UsageError without such a file."""
    if isinstance(source, Mapping):
        topology, found = check(source)
        errors = [f"topology: {'.'.join(map(str, place))}{': ' if place else ''}{text}" for place, text in found]
        if topology is None:
            raise InputErrors(errors)
        return topology
    return checked(documents.load(Path(source), SIMULATED_NETWORK))


def parse(text: str, file: str) -> Topology:
    """From YAML text; `file` is only what the messages call it."""
    return checked(documents.parse(text, file, SIMULATED_NETWORK))


def checked(document: Document) -> Topology:
    """The topology of a document. Raises InputErrors with every mistake."""
    if document.unreadable:
        raise InputErrors(document.errors)
    topology, found = check(document.value)
    errors = [*document.errors, *(document.said(place, text) for place, text in found)]
    if topology is None or errors:
        raise InputErrors(in_order(errors, document.file))
    return topology


def check(value: Any) -> tuple[Topology | None, list[tuple[Place, str]]]:
    """The topology, or every mistake of it with its place: for files that hold one, as experiments do."""
    found: list[tuple[Place, str]] = []
    topology = fitted(Topology, value, lambda place, text: found.append((place, text)))
    found += topology_checks.between_keys(value)
    if topology is not None and not found:
        found = topology_checks.impossible(topology)
    return (None, found) if found else (topology, [])
