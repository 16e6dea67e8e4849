"""A topology's file, read and checked: all mistakes at once, each with its line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from chaos.simulate.cluster import topology_checks
from chaos.simulate.cluster.topology import Fabric, Override, Place, Topology
from harness.config import documents
from harness.config.documents import Document
from harness.config.kinds import SIMULATED_NETWORK
from harness.config.words import in_order, shown
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
    errors = [*document.errors, *(document.message(place, _dotted(place, text), key=True) for place, text in found)]
    if topology is None or errors:
        raise InputErrors(in_order(errors, document.file))
    return topology


def check(value: Any) -> tuple[Topology | None, list[tuple[Place, str]]]:
    """The topology, or every mistake of it with its place: for files that hold one, as experiments do."""
    found: list[tuple[Place, str]] = []
    topology = None
    try:
        topology = Topology.model_validate(value)
    except ValidationError as error:
        found = [(tuple(problem["loc"]), _say(problem)) for problem in error.errors()]
    found += topology_checks.between_keys(value)
    if topology is not None and not found:
        found = topology_checks.impossible(topology)
    return (None, found) if found else (topology, [])


def _dotted(place: Place, text: str) -> str:
    return f"{'.'.join(map(str, place))}: {text}" if place else text


def _say(problem: Mapping[str, Any]) -> str:
    """pydantic's message, with the value or what is known where that helps."""
    place = problem["loc"]
    if problem["type"] == "extra_forbidden":
        parts: dict[str, type[BaseModel]] = {"fabric": Fabric, "overrides": Override}
        inner = parts.get(str(place[0]), Topology) if len(place) > 1 else Topology
        return f"unknown key; known here: {', '.join(f.alias or name for name, f in inner.model_fields.items())}"
    if problem["type"] == "missing":
        return "missing"
    message = str(problem["msg"][:1].lower() + problem["msg"][1:])
    return message if problem["type"] == "model_type" else f"{message}, not {shown(problem['input'])}"
