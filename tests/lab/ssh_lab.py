"""Lab hosts as SSH hosts: each with its own sshd, address and host key, and an inventory file of them all."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sshd

from harness.lab.lab import Lab

LIMIT_S = 60.0
NEEDS = [
    pytest.mark.lab,
    pytest.mark.skipif(sshd.SSHD is None, reason="no sshd (apt-get install openssh-server)"),
    pytest.mark.skipif(os.geteuid() != 0, reason="sshd in a namespace needs root, to become its users"),
]


def address_of(host: str) -> str:
    """Of a lab host's management interface."""
    return f"10.250.0.{int(host.removeprefix('h')) + 1}"


@contextmanager
def served(
    lab: Lab,
    folder: Path,
    hosts: Sequence[str],
    entries: Sequence[dict[str, Any]] | None = None,
    within: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[Path]:
    """The inventory file of `hosts`, each with an sshd.

    `entries`: its hosts, where name and address are not all; `within`: words before the command of a host's sshd.
    """
    key, known = sshd.keygen(folder / "user_key"), []
    with ExitStack() as running:
        for host in hosts:
            here = folder / host
            here.mkdir()
            (here / "authorized_keys").write_text(sshd.public(key) + "\n")
            known.append(f"{address_of(host)} {sshd.public(sshd.keygen(here / 'host_key'))}\n")
            (here / "config").write_text(sshd.configuration(here, address_of(host), 22))
            process = lab.hosts[host].spawn([*(within or {}).get(host, ()), *sshd.command(here)])
            running.callback(process.close)
        for host in hosts:
            _await_listening(lab, host)
        (folder / "known_hosts").write_text("".join(known))
        defaults = {"user": "root", "key": str(key), "known_hosts": str(folder / "known_hosts")}
        every = entries or [{"name": host, "address": address_of(host)} for host in hosts]
        inventory = folder / "inventory.yaml"
        inventory.write_text(json.dumps({"schema": 1, "defaults": defaults, "hosts": every}))
        yield inventory


def _await_listening(lab: Lab, host: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while ":0016 " not in lab.hosts[host].read_text("/proc/net/tcp"):
        assert time.monotonic() < deadline, f"sshd of {host} does not listen"
        time.sleep(0.01)
