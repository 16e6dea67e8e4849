"""A channel that ends while another thread sends into it takes nothing else of its connection down."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from waits import until

sys.path.insert(0, str(Path(__file__).parent))
import sshd

from harness.hosts.ssh import transport as ssh_transport
from harness.hosts.ssh.command import Channelled
from harness.hosts.ssh.hosts import SshHost, ssh_hosts

pytestmark = pytest.mark.skipif(sshd.SSHD is None, reason="no sshd (apt-get install openssh-server)")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[SshHost]:
    server = sshd.start(tmp_path)
    with ssh_hosts([server.target()]) as hosts:
        yield hosts["n1"]
    server.stop()


def test_the_hosts_close_waits_for_what_is_being_sent(host: SshHost) -> None:
    running = Channelled(host.link, ["sh", "-c", "read line"], None)
    (transport,) = host.link._transports
    with ssh_transport._guard(running.channel):  # as a thread that sends
        running.channel.sendall(b"go\n")
        closes = "the host's CLOSE was answered, or never came"
        until(lambda: any(thread.name == "close" for thread in threading.enumerate()), closes)
        running.channel.shutdown_write()
    assert running.pump(lambda _data: None, lambda _data: None, 10)
    assert host.run(["echo", "still"]).stdout == "still\n"
    assert host.link._transports == [transport]
    with pytest.raises(OSError, match="closed"):
        ssh_transport.send(running.channel, b"late")


def test_input_that_nobody_reads_harms_nothing(host: SshHost) -> None:
    host.run(["true"])
    (transport,) = host.link._transports
    for _ in range(20):
        host.run(["true"], input="x" * 3_000_000)
    assert host.link._transports == [transport]
    assert transport.is_active()
