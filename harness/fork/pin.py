"""The pins: exactly which NCCLs we fork (nccl_fork/pins)."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError


@dataclass(frozen=True)
class Archive:
    """The distribution's source package of the same tree."""

    source_package: str
    suite: str
    component: str
    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Pin:
    """Version, upstream commit and content of the NCCL we fork."""

    version: str
    patches: Sequence[str]
    """folders under r2cc_patches/patches; of patches of one name the last folder's is taken"""
    repository: str
    tag: str
    commit: str
    tree: str
    tree_sha256: str
    archive: Archive | None
    """None: no distribution has a source package of this version"""


def load_pin(path: Path) -> Pin:
    """Read the pin. Raises UsageError, naming the file, if it is absent, no TOML, or lacks an entry."""
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text())
        return Pin(
            version=data["version"],
            patches=_folders(data["patches"]),
            archive=Archive(**data["archive"]) if "archive" in data else None,
            **data["upstream"],
            **data["content"],
        )
    except OSError as error:
        raise UsageError(f"cannot read the pin {path}: {error.strerror}", "restore it from git") from error
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is not a valid pin: {error}", "restore it from git") from error


def _folders(found: object) -> tuple[str, ...]:
    if not isinstance(found, list) or not found or not all(isinstance(name, str) for name in found):
        raise TypeError("`patches` is no list of folders")
    return tuple(found)
