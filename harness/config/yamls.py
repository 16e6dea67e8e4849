"""YAML of files that anybody may have written: safe types, within limits; aliases count as often as they are used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from harness.config import plain
from harness.config.files import MOST_BYTES
from harness.config.untrusted_files import Unreadable, text_of
from harness.config.yaml_loader import value_of


def mapping_of(path: Path, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """The mapping in a file; {} of an empty one. Missing, or Unreadable: what `text_of` refuses, what is no YAML, is no
    mapping, or is beyond the limits."""
    value = loaded(text_of(path, most_bytes), path.name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Unreadable(f"{path.name} holds no mapping")
    return value


def loaded(text: str, name: str) -> object:
    """The value in `text`; `name` is what errors call it."""
    try:
        value = value_of(text)
    except yaml.MarkedYAMLError as error:
        raise Unreadable(f"{name} is no YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise Unreadable(f"{name} is no YAML: {str(error).splitlines()[0]}") from error
    plain.check(value, name)
    return value
