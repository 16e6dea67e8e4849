"""Dotted keys: what --set or a campaign puts into a file's value before it is checked."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from harness.config import jsons, yaml_text
from harness.config.yaml_text import Malformed
from harness.errors import UsageError


def applied(value: Any, changes: Mapping[str, Any]) -> tuple[Any, dict[str, str]]:
    """(a copy of a file's plain value with the changes in it, why not for every key that leads nowhere)."""
    changed = deepcopy(value)
    wrong: dict[str, str] = {}
    for key, new in changes.items():
        try:
            _put(changed, key, deepcopy(new))
        except ValueError as error:
            wrong[key] = str(error)
    return changed, wrong


def _put(value: Any, key: str, new: Any) -> None:
    """Mappings on the way are made when they are missing: what the file leaves out has defaults that can be set."""
    parts = key.split(".")
    for place, part in enumerate(parts):
        here = ".".join(parts[:place]) or "the experiment"
        last = place == len(parts) - 1
        if isinstance(value, dict) and part:
            value.setdefault(part, {})
            step: Any = part
        elif isinstance(value, list) and part.isdecimal():
            step = int(part)
            if step >= len(value):
                raise ValueError(f"{here} has {len(value)} entries, counted from 0")
        else:
            raise ValueError(f"{here} is no mapping in which {part!r} could be set")
        if last:
            value[step] = new
        else:
            value = value[step]


def setting(text: str) -> tuple[str, Any]:
    """`key=value` of --set, the value as JSON or YAML. UsageError for anything else."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--set {text}: KEY=VALUE is needed", "--set topology.hosts=32")
    try:
        return key.strip(), jsons.value_of(value)
    except ValueError:
        pass
    try:
        return key.strip(), yaml_text.value_of(value)
    except Malformed as error:
        raise UsageError(f"--set {text}: {error}", "the value is YAML, as in the file") from error
