"""The programs of this machine that a vm lab needs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from harness.errors import LabError
from harness.vmlab.shape import Engine

TOOLS = {"mksquashfs": "squashfs-tools", "zstd": "zstd", "g++": "g++", "apt-get": "apt", "dpkg-deb": "dpkg"}
"""Program to package, as in all of these."""
COMPILERS = {"gcc": "gcc", "make": "make", "flex": "flex", "bison": "bison", "bc": "bc", "patch": "patch"}
ENGINES: Mapping[Engine, Mapping[str, str]] = {
    "vm": {"qemu-system-x86_64": "qemu-system-x86"},
    "uml": {**COMPILERS, "xz": "xz-utils"},
}
"""What runs the guests, or makes it."""


def require(engine: Engine, path: str | None = None) -> None:
    """Raises LabError naming every program that the lab needs and this machine lacks."""
    if lacking := missing(engine, path):
        raise LabError(f"the vm lab needs {', '.join(lacking)}", f"bash scripts/system-packages.sh {engine}")


def missing(engine: Engine, path: str | None = None) -> list[str]:
    """Packages of programs that are not there."""
    needed = {**TOOLS, **ENGINES[engine]}
    return sorted({package for tool, package in needed.items() if shutil.which(tool, path=path) is None})
