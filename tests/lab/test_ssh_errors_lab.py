"""Everything that goes wrong on the way to a host over SSH has its error, against a real OpenSSH server."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from ports import free_port
from processes import words_of
from waits import until

sys.path.insert(0, str(Path(__file__).parent))
import sshd

from harness.errors import SshError
from harness.hosts.ssh.hosts import ssh_hosts
from harness.hosts.ssh.target import Target

pytestmark = pytest.mark.skipif(sshd.SSHD is None, reason="no sshd (apt-get install openssh-server)")

Server = sshd.Sshd


def wrong_key(server: Server, folder: Path) -> Target:
    return server.target(keys=(sshd.keygen(folder / "wrong"),))


def no_known_key(server: Server, folder: Path) -> Target:
    return server.target(known_hosts=(folder / "empty",))


def another_host_key(server: Server, folder: Path) -> Target:
    key = sshd.public(sshd.keygen(folder / "another"))
    (folder / "known").write_text(f"[127.0.0.1]:{server.port} {key}\n")
    return server.target(known_hosts=(folder / "known",))


def revoked_host_key(server: Server, folder: Path) -> Target:
    (folder / "known").write_text(
        server.known_hosts.read_text() + "@revoked * " + sshd.public(server.folder / "host_key")
    )
    return server.target(known_hosts=(folder / "known",))


def key_with_passphrase(server: Server, folder: Path) -> Target:
    return server.target(keys=(sshd.keygen(folder / "locked", "-N", "secret words"),))


def nobody_there(server: Server, _folder: Path) -> Target:
    return server.target(port=free_port())


def no_such_name(server: Server, _folder: Path) -> Target:
    return server.target(address="no-such-host.invalid")


RELAY = """exec {python} -c '
import os, socket, sys, threading
link = socket.create_connection(("127.0.0.1", {port}))
def up():
    while data := os.read(0, 65536): link.sendall(data)
    os._exit(0)
threading.Thread(target=up, daemon=True).start()
while data := link.recv(65536): os.write(1, data)
' relay-of-{port}"""


def relayed(server: Server, command: str = "") -> Target:
    """Its address is no address: only the command knows the way."""
    known = f"[far.invalid]:{server.port} {sshd.public(server.folder / 'host_key')}\n"
    (server.folder / "known_far").write_text(known)
    relay = (command or RELAY).format(python=sys.executable, port=server.port).removeprefix("exec ")
    return server.target(address="far.invalid", known_hosts=(server.folder / "known_far",), proxy_command=relay)


def test_a_proxy_command_is_the_connection_and_ends_with_it(server: Server) -> None:
    with ssh_hosts([relayed(server)]) as hosts:
        assert hosts["n1"].run(["echo", "through"]).stdout == "through\n"
        assert len(hosts["n1"].run(["head", "-c", "3000000", "/dev/zero"]).stdout) == 3_000_000
        assert _relays(server.port)
    until(lambda: not _relays(server.port))


def _relays(port: int) -> list[int]:
    return [each.pid for each in psutil.Process().children(recursive=True) if f"relay-of-{port}" in words_of(each.pid)]


def test_damaged_lines_of_known_hosts_harm_no_host(server: Server, tmp_path: Path) -> None:
    known = tmp_path / "known"
    damaged = ["|1|abc|abc", "|1|c2hvcnQ=|c2hvcnQ=", "@revoked", "x"]
    key = sshd.public(server.folder / "host_key")
    known.write_text(
        "".join(f"{each} {key}\n" for each in damaged) + "y ssh-rsa AAAA\n" + server.known_hosts.read_text()
    )
    with ssh_hosts([server.target(known_hosts=(known,))]) as hosts:
        assert hosts["n1"].run(["echo", "in"]).stdout == "in\n"


def proxy_that_says_why(server: Server, _folder: Path) -> Target:
    return relayed(server, "sh -c 'echo no way to the farm >&2; exit 1'")


def proxy_that_is_missing(server: Server, _folder: Path) -> Target:
    return relayed(server, "no-such-tool --to x")


def jump_to_nowhere(server: Server, _folder: Path) -> Target:
    return server.target(port=free_port(), jump=server.target(name="jump"))


def jump_with_wrong_key(server: Server, folder: Path) -> Target:
    return server.target(jump=wrong_key(server, folder))


@pytest.mark.parametrize(
    ("made", "kind", "says"),
    [
        (wrong_key, "auth", r"does not let us in with \S+/wrong"),
        (key_with_passphrase, "auth", r"locked has a passphrase \(ssh-add it\)"),
        (no_known_key, "unknown_host_key", r"is not in \S+empty: ssh-ed25519 SHA256:"),
        (another_host_key, "changed_host_key", "HAS CHANGED"),
        (revoked_host_key, "revoked_host_key", "marked as revoked"),
        (nobody_there, "unreachable", "Connection refused"),
        (no_such_name, "unreachable", "cannot reach"),
        (proxy_that_says_why, "unreachable", "its ProxyCommand .* leads to no SSH server: no way to the farm"),
        (proxy_that_is_missing, "unreachable", "leads to no SSH server: .*no-such-tool"),
        (jump_to_nowhere, "unreachable", "n1: through .*: that host cannot connect to 127"),
        (jump_with_wrong_key, "auth", "does not let us in"),
    ],
)
def test_each_bad_day_has_its_error(
    made: Callable[[Server, Path], Target], kind: str, says: str, server: Server, tmp_path: Path
) -> None:
    with ssh_hosts([made(server, tmp_path)]) as hosts, pytest.raises(SshError, match=says) as caught:
        hosts["n1"].run(["true"])
    assert (caught.value.kind, caught.value.exit_code) == (kind, 3)
    assert caught.value.hint
    assert "secret" not in str(caught.value)


def test_a_host_that_never_speaks_is_given_up(server: Server, deaf: int) -> None:
    with ssh_hosts([server.target(port=deaf, connect_timeout_s=0.5)]) as hosts:
        with pytest.raises(SshError, match=r"did not finish the handshake within 0\.5 s") as caught:
            hosts["n1"].run(["true"])
        assert caught.value.kind == "unreachable"


def test_what_is_no_ssh_server_is_named(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            link, _ = listener.accept()
            link.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            link.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with ssh_hosts([server.target(port=listener.getsockname()[1])]) as hosts:
            with pytest.raises(SshError, match="not as an SSH server should") as caught:
                hosts["n1"].run(["true"])
            assert caught.value.kind == "no_ssh"
        thread.join(60)
