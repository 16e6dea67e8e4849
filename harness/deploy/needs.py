"""What a build's programs need of a host: its CPU, and versions of glibc and libstdc++. Read from the files' ELF."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.deploy.build import Build

MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64", "EM_PPC64": "ppc64le", "EM_RISCV": "riscv64"}
VERSION = re.compile(r"^(GLIBC|GLIBCXX|CXXABI)_(\d+(?:\.\d+)*)$")
Version = tuple[int, ...]


@dataclass(frozen=True)
class Needs:
    """`versions`: of each family the highest, and a file that asks for it."""

    machines: frozenset[str]
    versions: dict[str, tuple[Version, str]]


def of(build: Build) -> Needs:
    """Of all ELF files; others need nothing."""
    machines: set[str] = set()
    versions: dict[str, tuple[Version, str]] = {}
    for file in build.objects.values():
        with file.local.open("rb") as stream:
            if stream.read(4) != b"\x7fELF":
                continue
            stream.seek(0)
            machine, names = _read(stream)
        machines.add(machine)
        for family, version in _versions(names):
            if family not in versions or version > versions[family][0]:
                versions[family] = (version, file.path)
    return Needs(frozenset(machines), versions)


def _read(stream: Any) -> tuple[str, list[str]]:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.gnuversions import GNUVerNeedSection

    elf = ELFFile(stream)
    section = elf.get_section_by_name(".gnu.version_r")
    every = section.iter_versions() if isinstance(section, GNUVerNeedSection) else ()
    names = [needed.name for _, versions in every for needed in versions]
    return MACHINES.get(elf["e_machine"], str(elf["e_machine"])), names


def _versions(names: Iterable[str]) -> Iterable[tuple[str, Version]]:
    for name in names:
        found = VERSION.match(name)
        if found:
            yield found[1], parsed(found[2])


def parsed(text: str) -> Version:
    return tuple(int(part) for part in text.split("."))


def shown(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
