"""SSH servers, one a file of tests."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import sshd

from harness.hosts.ssh.hosts import SshHost, ssh_hosts


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sshd.Sshd]:
    made = sshd.start(tmp_path_factory.mktemp("sshd"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sshd.Sshd]:
    """Another host, with keys of its own."""
    made = sshd.start(tmp_path_factory.mktemp("other"))
    yield made
    made.stop()


@pytest.fixture
def host(server: sshd.Sshd) -> Iterator[SshHost]:
    with ssh_hosts([server.target()]) as hosts:
        yield hosts["n1"]


@pytest.fixture
def deaf() -> Iterator[int]:
    """A port where connections are taken and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        yield int(listener.getsockname()[1])
