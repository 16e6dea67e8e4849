"""Which NCCL a tree says that it is."""

from __future__ import annotations

import re
from pathlib import Path

VERSION = re.compile(r"^(NCCL_(?:MAJOR|MINOR|PATCH)|PKG_REVISION)\s*:=\s*(\d+)", re.MULTILINE)
PARTS = ("NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH")


def version_of(tree: Path) -> tuple[str, str] | None:
    """Version and revision, 2.30.7 and 2.30.7-1; None for a folder that holds no NCCL."""
    try:
        found = dict(VERSION.findall((tree / "makefiles" / "version.mk").read_text(errors="replace")))
        version = ".".join(found[part] for part in PARTS)
    except (OSError, KeyError):
        return None
    return version, f"{version}-{found.get('PKG_REVISION', '1')}"
