#!/usr/bin/env python3
"""Checks which folder of our C++ includes which. Run by lint-cpp.sh; exit code 1: every line that breaks the order."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
CODE = (".cc", ".h", ".inc")

ALLOWED: dict[str, str] = {
    # folders of src/, each of which may include only what stands above it
    "base": "",
    "tls": "base",
    "nic": "base",
    "inner": "base tls nic",
    "wire": "base tls nic inner",
    "record": "base",
    "memory": "base inner",
    "paths": "base nic wire record",
    "lanes": "base inner wire paths",
    "data": "base wire record paths lanes",
    "health": "base nic record paths lanes data",
    "status": "base nic wire record paths data health",
    "engine": "base wire record paths lanes data health status",
    "net": "base nic inner wire memory engine",
    "standalone": "base inner engine net",
    "stamp": "",
    # the parts beside src/
    "planner": "base",
    "agree": "base tls",
    "bench": "base tls record planner agree",
    "sim": "base planner bench",
    "nccl": "base tls wire record engine net planner agree",
    "progress": "base record",
    "faults": "base",
}
"""Which folders a folder may include, apart from itself."""


def mistakes(native: Path) -> Iterator[str]:
    """Every include under `native` (r2cc_patches) that is not allowed, as file:line and what is wrong."""
    yield from circles(ALLOWED)
    for name in sorted({entry.name for entry in (native / "src").iterdir() if entry.is_dir()} - set(ALLOWED)):
        yield f"src/{name}: a folder that scripts/include_order.py does not list"
    for folder, allowed in ALLOWED.items():
        for file in sorted(folder_of(native, folder).rglob("*")):
            if file.suffix in CODE:
                yield from mistakes_in(native, file, {folder, *allowed.split()})


def circles(allowed: dict[str, str]) -> Iterator[str]:
    """Folders that may include one that stands below them: with none there is no circle."""
    above: set[str] = set()
    for folder, names in allowed.items():
        for name in sorted(set(names.split()) - above):
            yield f"scripts/include_order.py: {folder} may include {name}, which does not stand above it"
        above.add(folder)


def mistakes_in(native: Path, file: Path, allowed: set[str]) -> Iterator[str]:
    for number, line in enumerate(file.read_text().splitlines(), 1):
        found = INCLUDE.match(line)
        target = found and resolve(native, file, found[1])
        if target and target not in allowed:
            yield f"{file.relative_to(native)}:{number}: includes {target}, which this folder must not"


def resolve(native: Path, file: Path, name: str) -> str | None:
    """The folder of ours that the compiler finds this header in; None for a header that is not ours."""
    for base in (file.parent, native / "src", native):
        header = (base / name).resolve()
        if header.is_file() and native.resolve() in header.parents:
            parts = header.relative_to(native.resolve()).parts
            return parts[1] if parts[0] == "src" else parts[0]
    return None


def folder_of(native: Path, folder: str) -> Path:
    return native / "src" / folder if (native / "src" / folder).is_dir() else native / folder


def main() -> int:
    native = Path(sys.argv[1] if len(sys.argv) > 1 else "r2cc_patches")
    found = list(mistakes(native))
    print("\n".join(found) or f"include order: {len(ALLOWED)} folders")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
