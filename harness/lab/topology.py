"""What a lab should look like, as YAML. Reading it reports every mistake of the file at once, each with its line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from harness.config import documents
from harness.config.documents import Document
from harness.config.fitting import fitted
from harness.config.kinds import TOPOLOGY
from harness.config.words import in_order
from harness.errors import InputErrors
from harness.schemas.form import form

SHIPPED = Path(__file__).parent / "topologies"

MAX_RATE_GBIT = 32.0
"""The kernel's classic token bucket counts bytes a second in 32 bits: 34 Gbit/s is the most it can say."""

RateGbit = Annotated[float, Field(gt=0, le=MAX_RATE_GBIT, strict=True, allow_inf_nan=False)]
Mtu = Annotated[int, Field(ge=1280, le=65000, strict=True)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Override(_Model):
    """One NIC that differs from the rest, as a degraded or older card would."""

    host: Annotated[str, Field(pattern=r"^h[0-9]+$")]
    nic: Annotated[str, Field(pattern=r"^eth[0-9]+$")]
    rate_gbit: RateGbit


class Placement(_Model):
    """Where a NIC would sit in a real server: of every host, or of one. Hosts of the lab are told (`lab.places`)."""

    host: Annotated[str, Field(pattern=r"^h[0-9]+$")] | None = None
    nic: Annotated[str, Field(pattern=r"^eth[0-9]+$")]
    numa: Annotated[StrictInt, Field(ge=0, le=1024)] | None = None
    switch: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")] | None = None


@form("topology", "A lab's topology")
class Topology(_Model):
    """`hosts` servers with `nics` NICs each; NIC r of every host is on rail r. Rates hold in both directions."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")] = "lab"
    hosts: Annotated[StrictInt, Field(ge=1, le=64)]
    nics: Annotated[StrictInt, Field(ge=1, le=16)]
    gpus: Annotated[StrictInt, Field(ge=1, le=16)] = 1
    """Of a host, where a workload uses any: this machine's, in order."""
    rate_gbit: RateGbit = 1.0
    mtu: Mtu = 9000
    one_subnet: StrictBool = False
    """All NICs on one switch and in one subnet, with the kernel's own settings: any NIC of a host answers for all."""
    overrides: list[Override] = []
    placement: list[Placement] = []

    @classmethod
    def load(cls, source: Path | str) -> Topology:
        """From a file (a Path, or the name of a shipped one such as `default`) or from YAML text.

        Raises InputErrors with all mistakes, or UsageError when there is no such file.
        """
        path = find(source)
        if path is None:
            return parse(str(source), "<topology>")
        hint = f"give the path of a YAML file, or a shipped topology: {', '.join(shipped_names())}"
        return checked(documents.load(path, replace(TOPOLOGY, hint=hint)))

    def rate_of(self, host: str, nic: str) -> float:
        """The rate of one NIC, in Gbit/s, overrides applied."""
        found = [o.rate_gbit for o in self.overrides if (o.host, o.nic) == (host, nic)]
        return found[0] if found else self.rate_gbit

    def place_of(self, host: str, nic: str) -> Placement | None:
        """Where a NIC sits; what is said of one host goes before what is said of all."""
        found = [p for p in self.placement if p.nic == nic and p.host in (host, None)]
        return min(found, key=lambda place: place.host is None, default=None)


def find(source: Path | str) -> Path | None:
    """The file that `source` means; None if it is YAML text itself."""
    if isinstance(source, str) and ("\n" in source or ": " in source):
        return None
    shipped = SHIPPED / f"{source}.yaml"
    if isinstance(source, str) and "/" not in source and shipped.is_file():
        return shipped
    return Path(source)


def shipped_names() -> list[str]:
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def parse(text: str, file: str) -> Topology:
    """Parses YAML text; `file` is only what the messages call it."""
    return checked(documents.parse(text, file, TOPOLOGY))


def checked(document: Document) -> Topology:
    """The topology of a document, or of a part of one. Raises InputErrors with every mistake."""
    errors = [*document.errors]
    if document.unreadable:
        raise InputErrors(errors)
    topology = fitted(Topology, document.value, lambda place, text: errors.append(document.said(place, text)))
    errors += [document.message(loc, message) for loc, message in cross_errors(document.value)]
    if topology is None or errors:
        raise InputErrors(in_order(errors, document.file))
    return topology


def cross_errors(value: object) -> list[tuple[tuple[str | int, ...], str]]:
    """Mistakes between keys, looked for in the raw value so that they are reported next to all others."""
    if not isinstance(value, dict):
        return []
    return _list_errors(value, "overrides", "override") + _list_errors(value, "placement", "placement")


def _list_errors(value: Mapping[str, Any], key: str, noun: str) -> list[tuple[tuple[str | int, ...], str]]:
    """NICs of one list that do not exist or are there twice. An entry without a host is about all hosts."""
    errors: list[tuple[tuple[str | int, ...], str]] = []
    seen: set[tuple[str, str]] = set()
    items = value.get(key)
    for index, item in enumerate(items if isinstance(items, list) else []):
        if not isinstance(item, dict):
            continue
        host, nic = str(item.get("host")), str(item.get("nic"))
        for part, name, prefix, total in (("host", host, "h", "hosts"), ("nic", nic, "eth", "nics")):
            count = value.get(total)
            number = name.removeprefix(prefix)
            if isinstance(count, int) and number.isdigit() and int(number) >= count:
                last = f"{prefix}{count - 1}"
                errors.append(((key, index, part), f"no {part} '{name}': with {total}: {count} the last is {last}"))
        if (host, nic) in seen:
            errors.append(((key, index), f"duplicate {noun} for {'' if item.get('host') is None else host + ' '}{nic}"))
        seen.add((host, nic))
    return errors
