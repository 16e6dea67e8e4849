"""What a host says of itself before anything is copied, and what is wrong with that for a build. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from harness.deploy.needs import Needs, Version, parsed, shown
from harness.repo import CPUS, OF_ELF

TOOLS = (
    "sh", "sha256sum", "flock", "timeout", "mv", "ln", "df", "sed", "grep", "sort", "comm", "head", "tail", "stat",
    "readlink", "sync", "du", "wc", "tr", "cat", "mkdir", "chmod", "touch", "id",
)  # fmt: skip
SPARE_BYTES = 32 << 20
OWN_PREFIX = "give those of one kind another `prefix:` in the inventory"


@dataclass(frozen=True)
class HostFacts:
    """As `facts.sh` prints them."""

    prefix: str
    system: str
    machine: str
    glibc: Version
    versions: frozenset[tuple[str, Version]]
    """Of libstdc++: (family, version)."""
    missing: tuple[str, ...]
    unwritable: str
    foreign: tuple[str, ...]
    free_bytes: int | None
    current: str
    previous: str
    gzip: bool
    unsafe: tuple[str, ...] = ()
    """Folders and files there that others could change, and who owns them."""
    built: str = ""
    """For which kind of CPU what is current there was built, if it says so."""


def parse(text: str) -> HostFacts:
    """ValueError when it is no answer of the script."""
    lines = [line.partition("=") for line in text.splitlines() if "=" in line]
    said: dict[str, list[str]] = {}
    for name, _, value in lines:
        said.setdefault(name, []).append(value)
    if "prefix" not in said or "machine" not in said:
        raise ValueError("the host did not say what it is")

    def one(name: str) -> str:
        return said.get(name, [""])[-1]

    glibc = re.search(r"(\d+(?:\.\d+)+)\s*$", one("glibc"))
    free = one("free").split()
    kib = free[-3] if len(free) >= 6 and free[-3].isdigit() else ""
    return HostFacts(
        prefix=one("prefix"),
        system=one("system"),
        machine=one("machine"),
        glibc=parsed(glibc[1]) if glibc else (),
        versions=frozenset(_family(word) for word in said.get("version", []) if "_" in word),
        missing=tuple(said.get("missing", [])),
        unwritable=one("unwritable"),
        foreign=tuple(said.get("foreign", [])),
        free_bytes=int(kib) * 1024 if kib else None,
        current=one("current").removeprefix("builds/"),
        previous=one("previous").removeprefix("builds/"),
        gzip="gzip" in said,
        unsafe=tuple(said.get("unsafe", [])),
        built=OF_ELF.get(one("built").strip(), ""),
    )


def _family(word: str) -> tuple[str, Version]:
    family, _, version = word.partition("_")
    return (family, parsed(version)) if re.fullmatch(r"\d+(\.\d+)*", version) else (family, ())


def unfit(host: str, facts: HostFacts, needs: Needs) -> Iterator[str]:
    """Every reason why this build cannot run on, or be put on, this host."""
    if facts.system != "Linux":
        yield f"{host}: runs {facts.system}, not Linux"
    if needs.machines and facts.machine not in needs.machines:
        yield f"{host}: has a CPU of kind {facts.machine}, the build is for {', '.join(sorted(needs.machines))}" + (
            f"; `r2cc build net --cpu {facts.machine}` makes one for --build net" if facts.machine in CPUS else ""
        )
    else:
        yield from _too_old(host, facts, needs)
        if facts.built and facts.built != facts.machine:
            yield (
                f"{host}: {facts.prefix}/current is for {facts.built}, and this CPU is {facts.machine}; if hosts of "
                f"both kinds share that folder, {OWN_PREFIX}; else remove {facts.prefix}/current there"
            )
    if facts.missing:
        yield f"{host}: lacks {', '.join(facts.missing)}"
    if facts.unwritable:
        yield f"{host}: {facts.unwritable} cannot be written (prefix {facts.prefix})"
    for why in facts.unsafe:
        yield f"{host}: {why}"
    for path in facts.foreign:
        yield f"{host}: {path} is there and is no link of ours"


def _too_old(host: str, facts: HostFacts, needs: Needs) -> Iterator[str]:
    for family, (version, file) in sorted(needs.versions.items()):
        if family == "GLIBC":
            if facts.glibc and facts.glibc < version:
                yield f"{host}: has glibc {shown(facts.glibc)}, {file} needs {shown(version)}"
        elif facts.versions:
            newest = max((have for name, have in facts.versions if name == family), default=())
            if newest < version:
                yield f"{host}: has libstdc++ with {family}_{shown(newest) or 'none'}, {file} needs {shown(version)}"
        else:
            yield f"{host}: has no libstdc++, {file} needs {family}_{shown(version)}"


def too_full(host: str, facts: HostFacts, needed_bytes: int) -> Iterator[str]:
    if facts.free_bytes is not None and needed_bytes and facts.free_bytes < needed_bytes + SPARE_BYTES:
        yield (
            f"{host}: {facts.free_bytes >> 20} MiB are free at {facts.prefix}, "
            f"{(needed_bytes + SPARE_BYTES) >> 20} MiB are needed"
        )
