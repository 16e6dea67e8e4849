"""This machine alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.hosts.local import LocalHost
from harness.sites.listing import ListedHost
from harness.sites.site import Opened, Planned, Site


class LocalSite(Site):
    """`local`: for commands that examine or mend one machine, at its console."""

    bed = "local"
    has_switch = False

    def planned(self) -> Planned:
        return Planned(["localhost"], [], "127.0.0.1")

    @contextmanager
    def open(self) -> Iterator[Opened]:
        yield Opened({"localhost": LocalHost()}, None, [])

    def listing(self) -> list[ListedHost]:
        return []
