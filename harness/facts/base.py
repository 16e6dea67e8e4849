"""A fact: the command that shows it, the function that reads its output, and what there is when there is none."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from harness.errors import InfraError

LIMIT_S = 5.0
QUOTED = 120
NOT_ASKED = "was not asked"
BROKEN = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, ArithmeticError)
ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

Value = TypeVar("Value")
Record = Mapping[str, Any]


class FactError(InfraError):
    """A tool printed what we cannot read."""


@dataclass(frozen=True)
class NotAvailable:
    """No fact, and why: the tool is not installed, or it refused."""

    tool: str
    package: str
    why: str = "not installed"

    @property
    def installed(self) -> bool:
        return self.why != "not installed"

    def __str__(self) -> str:
        if self.installed or not self.package:
            return f"{self.tool}: {self.why}"
        return f"{self.tool} is not installed (package {self.package})"


@dataclass(frozen=True)
class Raw:
    """What one command left behind on a host. `exit_code` None: its tool is not there."""

    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = 0


@dataclass(frozen=True)
class Fact(Generic[Value]):
    """`tool` is looked for on the host before `argv` runs there; `parse` raises FactError and nothing else."""

    name: str
    argv: tuple[str, ...]
    parse: Callable[[str], Value]
    tool: str
    package: str = ""
    limit_s: float = LIMIT_S
    refused: Callable[[Raw], Value | None] | None = None
    """What a tool that ended with an error still tells; None: nothing."""

    def read(self, raw: Raw, version: str = "") -> Value | NotAvailable | FactError:
        """Of what the command left: its value, or why there is none."""
        if raw.exit_code is None:
            return NotAvailable(self.tool, self.package)
        if raw.exit_code != 0:
            if self.refused is not None and (told := self.refused(raw)) is not None:
                return told
            return NotAvailable(self.tool, self.package, _refusal(raw, self.limit_s))
        try:
            return self.parse(raw.stdout)
        except FactError as error:
            message = f"{error.message} (version: {version or 'unknown'})"
            return FactError(message, error.hint)


def _refusal(raw: Raw, limit_s: float) -> str:
    said = [line.strip() for line in raw.stderr.splitlines() if line.strip()] or [raw.stdout.strip()[:QUOTED]]
    if raw.exit_code in (124, 137):
        return f"no answer within {limit_s:g} s"
    return f"exit code {raw.exit_code}: {said[-1][:QUOTED]}".rstrip(": ")


@dataclass(frozen=True)
class Known:
    """All facts of one host."""

    values: Mapping[str, object] = field(default_factory=dict)

    def get(self, fact: Fact[Value]) -> Value | None:
        """None: there is none; `why` says why."""
        found = self.values.get(fact.name)
        return None if found is None or isinstance(found, NotAvailable | FactError) else cast(Value, found)

    def why(self, fact: Fact[Any]) -> NotAvailable | FactError | None:
        """Why there is no such fact; None: there is one."""
        found = self.values.get(fact.name, NotAvailable(fact.tool, "", NOT_ASKED))
        return found if isinstance(found, NotAvailable | FactError) else None


def parser(tool: str) -> Callable[[Callable[[str], Value]], Callable[[str], Value]]:
    """Makes of any surprise in a tool's output one error that names the tool and quotes what it printed."""

    def decorate(parse: Callable[[str], Value]) -> Callable[[str], Value]:
        @functools.wraps(parse)
        def guarded(text: str) -> Value:
            try:
                return parse(ESCAPES.sub("", text))
            except BROKEN as error:
                told = f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error)
                first = next((line for line in text.splitlines() if line.strip()), "nothing")[:QUOTED]
                message = f"cannot read what {tool} printed: {told[:QUOTED]}; it begins with: {first}"
                raise FactError(
                    message, f"run {tool} by hand on that host; please report output that is in order"
                ) from error

        return guarded

    return decorate


def records(text: str) -> list[Record]:
    """A JSON list of objects; iproute2 prints nothing at all, or empty objects, where there is nothing to tell."""
    value = json.loads(text) if text.strip() else []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ValueError("no list of JSON objects")
    return [each for each in value if each]


def _told(record: Record, key: str, default: object) -> object:
    """iproute2 prints null where there is nothing: a tunnel's `link`."""
    value = record.get(key)
    return default if value is None else value


def string(record: Record, key: str, default: str | None = None) -> str:
    value = _told(record, key, default)
    if not isinstance(value, str):
        raise TypeError(f"'{key}' is {value!r}, no text")
    return value


def number(record: Record, key: str, default: int | None = None) -> int:
    value = _told(record, key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"'{key}' is {value!r}, no number")
    return value


def table(text: str) -> dict[str, str]:
    """Lines of `PATH<tab>VALUE`, as `harness.facts.scripts.SHOW` prints them."""
    pairs = [line.partition("\t") for line in text.splitlines() if line]
    wrong = [path for path, tab, _ in pairs if not tab]
    if wrong:
        raise ValueError(f"'{wrong[0][:QUOTED]}' has no value")
    return {path: value.strip() for path, _, value in pairs}


def sections(text: str) -> dict[str, str]:
    """The parts of an output whose parts begin with a line `== NAME`."""
    parts = re.split(r"^== (.*)\n", text, flags=re.MULTILINE)
    if parts[0].strip():
        raise ValueError("text before the first section")
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def named_lines(lines: Sequence[str], separator: str = ":") -> dict[str, str]:
    """`name: value` lines by name; others are passed over, and of a name that is there twice the first counts."""
    found: dict[str, str] = {}
    for line in lines:
        name, mark, value = line.partition(separator)
        if mark:
            found.setdefault(name.strip(), value.strip())
    return found
