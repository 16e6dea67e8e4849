"""The distribution's source archive of NCCL, through apt, without touching the host's apt.

Everything apt writes goes to a scratch directory, so no root is needed; the mirrors are those the host is configured
with. Nothing is trusted on the mirror's word: the archive's sha256 and the tree's hash are pinned, which is why the
isolated source list may skip signatures (an old host lacks the newest keys).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from harness.errors import SourceError
from harness.fork.network import run_bounded
from harness.fork.pin import Archive
from harness.fork.unpack import unpack_tar

APT_HELPER = "/usr/lib/apt/apt-helper"
URI_LINE = re.compile(r"^'(?P<uri>[^']+)' (?P<name>\S+) (?P<bytes>\d+) ?(?P<hash>\S*)$", re.MULTILINE)
USABLE = ("http://", "https://", "file:", "copy:")


def fetch_through_apt(archive: Archive, scratch: Path, target: Path) -> None:
    """Find the archive on one of the host's mirrors and unpack it into target. Raises SourceError."""
    failures: list[str] = []
    for number, mirror in enumerate(host_mirrors()):
        try:
            unpack_tar(_download(archive, mirror, scratch / f"apt{number}"), target)
            return
        except SourceError as error:
            failures.append(f"{mirror}: {error.message}")
    raise SourceError(
        "\n    ".join(["no configured apt mirror has it", *failures]) if failures else "no mirror is set up"
    )


def host_mirrors() -> list[str]:
    """The repositories this host's apt is configured with; those of security updates last, they hold little."""
    listing = run_bounded(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"], timeout_s=20)
    mirrors = {line.strip(): None for line in listing.splitlines() if line.startswith(USABLE)}
    return sorted(mirrors, key=lambda uri: "security" in uri)


def _download(archive: Archive, mirror: str, scratch: Path) -> Path:
    source_list = scratch / "sources.list"
    options = isolated(scratch, {"Dir::Etc::sourcelist": source_list, "Dir::Etc::sourceparts": "/dev/null"})
    source_list.write_text(f"deb-src [trusted=yes] {mirror} {archive.suite} {archive.component}\n")
    run_bounded(["apt-get", *options, "update"], timeout_s=60)
    listing = run_bounded(
        ["apt-get", *options, "source", "--print-uris", "--only-source", archive.source_package], timeout_s=20
    )
    target = scratch / "source.orig.tar"
    uri = find_uri(listing, archive.name)
    run_bounded([APT_HELPER, *options, "download-file", uri, str(target), f"SHA256:{archive.sha256}"], timeout_s=120)
    return target


def isolated(scratch: Path, more: Mapping[str, object]) -> list[str]:
    """Options that point all that apt writes to at scratch, whose folders are made; the host's proxy settings hold.

    The status file is empty: to apt nothing is installed."""
    for folder in ("lists/partial", "cache/archives/partial"):
        (scratch / folder).mkdir(parents=True, exist_ok=True)
    (scratch / "status").touch()
    settings = {
        "Dir::State": scratch,
        "Dir::State::lists": scratch / "lists",
        "Dir::State::status": scratch / "status",
        "Dir::Cache": scratch / "cache",
        "APT::Sandbox::User": "root",  # the _apt user cannot read a private scratch directory
        "Acquire::Languages": "none",
        "Acquire::Retries": 1,
        "Acquire::http::Timeout": 15,
        "Acquire::https::Timeout": 15,
        **more,
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def find_uri(listing: str, name: str) -> str:
    """The URI of one file in what `apt-get source --print-uris` printed. Raises SourceError naming what is there."""
    found = {match["name"]: match["uri"] for match in URI_LINE.finditer(listing)}
    if name not in found:
        raise SourceError(f"has no {name}, only {', '.join(found) or 'nothing of that package'}")
    return found[name]
