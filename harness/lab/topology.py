"""What a lab should look like, as YAML. Reading it reports every mistake of the file at once, each with its line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError

from harness.errors import InputErrors, UsageError
from harness.lab import yaml_lines

SHIPPED = Path(__file__).parent.parent / "topologies"

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


class Topology(_Model):
    """`hosts` servers with `nics` NICs each; NIC r of every host is on rail r. Rates hold in both directions."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")] = "lab"
    hosts: Annotated[StrictInt, Field(ge=1, le=64)]
    nics: Annotated[StrictInt, Field(ge=1, le=16)]
    rate_gbit: RateGbit = 1.0
    mtu: Mtu = 9000
    overrides: list[Override] = []

    @classmethod
    def load(cls, source: Path | str) -> Topology:
        """From a file (a Path, or the name of a shipped one such as `default`) or from YAML text.

        Raises InputErrors with all mistakes, or UsageError when there is no such file.
        """
        path = find(source)
        if path is None:
            return parse(str(source), "<topology>")
        try:
            return parse(path.read_text(), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read topology {path}: {error}", "check the path") from error

    def rate_of(self, host: str, nic: str) -> float:
        """The rate of one NIC, in Gbit/s, overrides applied."""
        found = [o.rate_gbit for o in self.overrides if (o.host, o.nic) == (host, nic)]
        return found[0] if found else self.rate_gbit


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
    document = yaml_lines.read(text, file)
    errors = [*document.errors]
    if document.root is None and errors:
        raise InputErrors(errors)
    try:
        topology = Topology.model_validate(document.value)
    except ValidationError as error:
        topology = None
        errors += [document.message(e["loc"], _say(e), key=e["type"] == "extra_forbidden") for e in error.errors()]
    errors += [document.message(loc, message) for loc, message in cross_errors(document.value)]
    if topology is None or errors:
        raise InputErrors(sorted(errors, key=yaml_lines.line_of))
    return topology


def _say(error: Mapping[str, Any]) -> str:
    """pydantic's message, with the value and what is allowed where that helps."""
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        known = Override if "overrides" in error["loc"] else Topology
        names = ", ".join(field.alias or name for name, field in known.model_fields.items())
        return f"unknown key '{error['loc'][-1]}' (known: {names})"
    if error["type"] == "missing":
        return f"missing key '{error['loc'][-1]}'"
    message = error["msg"][:1].lower() + error["msg"][1:]
    return f"{where or 'topology'}: {message}" + ("" if error["type"] == "model_type" else f", not {error['input']!r}")


def cross_errors(value: object) -> list[tuple[tuple[str | int, ...], str]]:
    """Mistakes between keys, looked for in the raw value so that they are reported next to all others."""
    if not isinstance(value, dict) or not isinstance(value.get("overrides"), list):
        return []
    errors: list[tuple[tuple[str | int, ...], str]] = []
    seen: set[tuple[str, str]] = set()
    for index, item in enumerate(value["overrides"]):
        if not isinstance(item, dict):
            continue
        host, nic = str(item.get("host")), str(item.get("nic"))
        at = ("overrides", index)
        for key, name, prefix, total in (("host", host, "h", "hosts"), ("nic", nic, "eth", "nics")):
            count = value.get(total)
            number = name.removeprefix(prefix)
            if isinstance(count, int) and number.isdigit() and int(number) >= count:
                errors.append(((*at, key), f"no {key} '{name}': with {total}: {count} the last is {prefix}{count - 1}"))
        if (host, nic) in seen:
            errors.append((at, f"duplicate override for {host} {nic}"))
        seen.add((host, nic))
    return errors
