"""A host reached over SSH."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from harness.errors import SshError
from harness.hosts.base import Argv, Env
from harness.hosts.remote import RemoteHost, Running
from harness.hosts.ssh.command import Channelled
from harness.hosts.ssh.link import Link, lost
from harness.hosts.ssh.target import Target


@contextmanager
def ssh_hosts(targets: Iterable[Target]) -> Iterator[dict[str, SshHost]]:
    """Hosts by name. Nothing connects yet; a jump host is connected to once for all; all is closed at the end."""
    jumps: dict[Target, Link] = {}

    def link(target: Target) -> Link:
        if target.jump is not None and target.jump not in jumps:
            jumps[target.jump] = link(target.jump)
        return Link(target, jumps[target.jump] if target.jump else None)

    made = {target.name: SshHost(target.name, link(target)) for target in targets}
    try:
        yield made
    finally:
        with ExitStack() as stack:
            for one in [*jumps.values(), *(host.link for host in made.values())]:
                stack.callback(one.close)


@dataclass(frozen=True)
class SshHost(RemoteHost):
    """Commands share the host's connection, which opens at the first one and again after it was lost."""

    name: str
    link: Link

    def _start(self, argv: Argv, env: Env) -> Running:
        return Channelled(self.link, argv, env)

    def lost(self, why: str = "") -> SshError:
        return lost(self.link.target, why)

    def close(self) -> None:
        self.link.close()
