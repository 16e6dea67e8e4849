"""Hosts over SSH, as an inventory file names them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path

from harness.config.words import listed
from harness.errors import InputErrors, UsageError
from harness.hosts.base import Host
from harness.sites.inventory_file import ClusterHost, load, load_usable
from harness.sites.listing import ListedHost, of_member
from harness.sites.site import Opened, Planned, Site
from harness.sites.surveyed import Surveyed


class ClusterSite(Site):
    """FILE, or FILE:RANGE for some of its hosts. A host is connected to once, and asked about itself once."""

    bed = "cluster"
    has_switch = False
    machines = True

    def __init__(self, text: str, file: Path, words: str = "") -> None:
        super().__init__(text)
        self._file, self._words = file, words
        self._connections = ExitStack()
        self._hosts: Mapping[str, Host] | None = None
        self._surveyed: Surveyed | None = None

    @cached_property
    def members(self) -> list[ClusterHost]:
        """In the file's order. UsageError for a range that names a host that is not there, InputErrors for mistakes
        in the file."""
        hosts = load(self._file)
        wanted = self._wanted([host.name for host in hosts])
        return [host for host in hosts if host.name in wanted]

    def usable(self) -> tuple[list[ClusterHost], Mapping[str, InputErrors]]:
        """(hosts without a mistake, what is wrong with the others by name)."""
        hosts, wrong = load_usable(self._file)
        wanted = self._wanted([*(host.name for host in hosts), *wrong])
        return [host for host in hosts if host.name in wanted], {name: wrong[name] for name in wrong if name in wanted}

    def _wanted(self, known: Sequence[str]) -> set[str]:
        from harness.sites.ranges import expand

        try:
            wanted = set(expand(self._words)) if self._words else set(known)
        except ValueError as error:
            raise UsageError(f"--inventory {self}: {error}", "write FILE:node[1-4] for some of its hosts") from error
        unknown = sorted(wanted - set(known))
        if unknown:
            raise UsageError(f"{self._file} has no host {listed(unknown)}", f"r2cc hosts list --inventory {self._file}")
        return wanted

    def hosts(self) -> Mapping[str, Host]:
        """They connect when they are first used, and stay connected until the site is closed."""
        from harness.hosts.ssh.hosts import ssh_hosts

        if self._hosts is None:
            self._hosts = self._connections.enter_context(ssh_hosts(host.target for host in self.members))
        return self._hosts

    def surveyed(self) -> Surveyed:
        """What the hosts say of themselves. InfraError naming every host that cannot be reached."""
        from harness.hosts.survey import survey

        if self._surveyed is None:
            found = survey(self.hosts(), {host.name: host.prefix for host in self.members})
            self._surveyed = Surveyed(self.text, tuple(self.members), found)
        return self._surveyed

    def planned(self) -> Planned:
        found = self.surveyed()
        return Planned(found.names, found.nics(), found.root())

    @contextmanager
    def open(self) -> Iterator[Opened]:
        """UsageError, besides, when nothing is deployed there, or not the same everywhere."""
        found = self.surveyed()
        found.build()
        yield Opened(self.hosts(), None, found.nics())

    @contextmanager
    def connected(self) -> Iterator[Mapping[str, Host]]:
        yield self.hosts()

    def gpus(self) -> int | None:
        counts = {host.gpus for host in self.members}
        if len(counts) > 1:
            raise UsageError(
                f"{self}: hosts have {', '.join(sorted(map(str, counts)))} GPUs",
                "give `gpus`, the same number for all hosts",
            )
        return next(iter(counts))

    def env(self, net: str) -> dict[str, dict[str, str]]:
        return self.surveyed().env(net)

    def devices(self, net: str) -> dict[tuple[str, str], str]:
        return self.surveyed().devices() if net == "ib" else {}

    def hardware(self) -> list[tuple[str, int, int]]:
        return [(each.cpu, each.cores, each.memory_bytes) for each in self.surveyed().surveys.values()]

    def listing(self) -> list[ListedHost]:
        return [of_member(host) for host in self.members]

    def close(self) -> None:
        self._connections.close()
        self._hosts = self._surveyed = None


def over_ssh(site: Site, why: str, hint: str) -> ClusterSite:
    """The site, if its hosts are reached over SSH; else UsageError, with `why` that is needed."""
    if not isinstance(site, ClusterSite):
        raise UsageError(f"'{site}' is no inventory file: {why}", hint)
    return site
