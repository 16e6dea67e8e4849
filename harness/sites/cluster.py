"""Hosts over SSH, or pods, as an inventory file names them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from harness.config.words import listed
from harness.errors import InputErrors, UsageError
from harness.hosts.base import Host
from harness.hosts.pods.target import Placed, PodTarget, placed
from harness.hosts.ssh.target import Target
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
        self._breakers: Mapping[str, Host] | None = None
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
        if self._hosts is None:
            self._hosts = self._connections.enter_context(reached(self.members))
        return self._hosts

    @cached_property
    def places(self) -> Mapping[str, Placed]:
        """Of hosts that are pods. PodError naming those that do not run."""
        return placed(host.target for host in self.members if isinstance(host.target, PodTarget))

    @property
    def targets(self) -> list[Target]:
        """How hosts are reached over SSH; empty where they are pods."""
        return [host.target for host in self.members if isinstance(host.target, Target)]

    def breakers(self) -> Mapping[str, Host]:
        """Who breaks the NICs of each host: of pods, the agents of their nodes."""
        from harness.hosts.pods.hosts import PodHost, breakers

        if self._breakers is None:
            pods = {name: host for name, host in self.hosts().items() if isinstance(host, PodHost)}
            self._breakers = breakers(pods, self.places) if pods else self.hosts()
        return self._breakers

    def surveyed(self) -> Surveyed:
        """What the hosts say of themselves. InfraError naming every host that cannot be reached."""
        from harness.hosts.survey import survey

        if self._surveyed is None:
            found = survey(self.hosts(), {host.name: host.prefix for host in self.members})
            found |= {name: replace(found[name], address=place.address) for name, place in self.places.items()}
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
        yield Opened(self.hosts(), None, found.nics(), breakers=self.breakers())

    @contextmanager
    def connected(self, *, to_break: bool = False) -> Iterator[Mapping[str, Host]]:
        yield self.breakers() if to_break else self.hosts()

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
        self._hosts = self._breakers = self._surveyed = None


@contextmanager
def reached(members: Sequence[ClusterHost], *, to_break: bool = False) -> Iterator[Mapping[str, Host]]:
    """Hosts by name, or who breaks their NICs; they connect when they are first used."""
    from harness.hosts.pods.hosts import breakers, pod_hosts
    from harness.hosts.ssh.hosts import ssh_hosts

    pods = pod_hosts(host.target for host in members if isinstance(host.target, PodTarget))
    with ssh_hosts(host.target for host in members if isinstance(host.target, Target)) as hosts:
        broken = breakers(pods, placed(pod.target for pod in pods.values())) if to_break else pods
        yield {**hosts, **broken}


def of_a_file(site: Site, why: str, hint: str) -> ClusterSite:
    """The site, if an inventory file has its hosts; else UsageError, with `why` that is needed."""
    if not isinstance(site, ClusterSite):
        raise UsageError(f"'{site}' is no inventory file: {why}", hint)
    return site
