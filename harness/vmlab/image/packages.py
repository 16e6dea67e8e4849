"""Debian packages through the host's own apt: its mirrors and its keys, but nothing of its state is touched."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from harness.errors import LabError, SourceError
from harness.fork.apt import isolated
from harness.fork.network import run_bounded

UPDATE_LIMIT_S, DOWNLOAD_LIMIT_S, QUERY_LIMIT_S = 120.0, 600.0, 30.0


class IsolatedApt:
    """apt with lists, cache and package status of its own. No root is needed; signatures are checked as always."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.options = isolated(folder, {"APT::Install-Recommends": "false"})

    def update(self) -> None:
        run_bounded(["apt-get", *self.options, "update"], timeout_s=UPDATE_LIMIT_S)

    def newest(self, wanted: str, pattern: str) -> str:
        """`wanted` if the mirrors still have it, else the newest package whose name matches. Raises LabError."""
        listing = run_bounded(["apt-cache", *self.options, "pkgnames", "linux-image-"], timeout_s=QUERY_LIMIT_S)
        names = [name for name in listing.split() if re.match(pattern, name)]
        if wanted in names:
            return wanted
        if not names:
            raise LabError(
                f"no apt source of this machine has {wanted} or another 6.12 kernel for Debian 12",
                "the vm lab is built on Debian 12 with bookworm-security among its apt sources",
            )
        return max(names, key=version_in)

    def download_alone(self, package: str) -> Path:
        """One package's .deb file, without what it depends on. Raises LabError where no apt source has it."""
        try:
            run_bounded(["apt-get", *self.options, "download", package], timeout_s=DOWNLOAD_LIMIT_S, cwd=self._folder)
        except SourceError as error:
            raise LabError(f"{package} could not be had: {error.message}", error.hint or "check apt") from error
        return next(self._folder.glob(f"{package}_*.deb"))

    def download(self, packages: Iterable[str]) -> list[Path]:
        """The .deb files of `packages` and of all they depend on, by name."""
        command = ["apt-get", *self.options, "install", "-y", "--download-only", *packages]
        try:
            run_bounded(command, timeout_s=DOWNLOAD_LIMIT_S)
        except SourceError as error:
            raise LabError(
                f"the vm lab's packages could not be had: {error.message}", error.hint or "check apt"
            ) from error
        return sorted((self._folder / "cache" / "archives").glob("*.deb"))


def version_in(name: str) -> tuple[int, ...]:
    """The numbers of a kernel package's name, so that 6.12.117 comes after 6.12.99."""
    return tuple(int(number) for number in re.findall(r"\d+", name))


def package_of(deb: Path) -> str:
    """The package's name, as apt names its files: NAME_VERSION_ARCHITECTURE.deb."""
    return deb.name.partition("_")[0]
