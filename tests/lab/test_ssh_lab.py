"""Hosts over SSH against a real OpenSSH server, and everything that goes wrong with one."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import sshd

from harness.errors import CommandError, SshError
from harness.hosts import Host
from harness.hosts.ssh.hosts import SshHost, ssh_hosts
from harness.hosts.ssh.target import Target
from harness.schemas import validate

pytestmark = pytest.mark.skipif(sshd.SSHD is None, reason="no sshd (apt-get install openssh-server)")

REPO = Path(__file__).parents[2]
R2CC = [sys.executable, "-c", "from harness.cli import main; main()"]
Server = sshd.Sshd


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = sshd.start(tmp_path_factory.mktemp("sshd"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Another host, with keys of its own."""
    made = sshd.start(tmp_path_factory.mktemp("other"))
    yield made
    made.stop()


@pytest.fixture
def host(server: Server) -> Iterator[SshHost]:
    with ssh_hosts([server.target()]) as hosts:
        yield hosts["n1"]


@pytest.fixture
def deaf() -> Iterator[int]:
    """A port where connections are taken and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        yield int(listener.getsockname()[1])


def test_it_is_a_host_as_any_other(host: SshHost, tmp_path: Path) -> None:
    assert isinstance(host, Host)
    result = host.run(["sh", "-c", "cat; echo err >&2; exit 3"], input="in", check=False)
    assert (result.exit_code, result.stdout, result.stderr) == (3, "in", "err\n")
    nasty = f"$(touch {tmp_path}/owned); `id` ' \" \\ !x\n*"
    assert host.run(["printf", "%s", nasty]).stdout == nasty
    assert (
        host.run(["sh", "-c", 'echo "$A"'], env={"A": nasty.replace("\n", "")}).stdout == nasty.replace("\n", "") + "\n"
    )
    assert host.run(["sh", "-c", "kill -TERM $$"], check=False).exit_code == -signal.SIGTERM
    assert len(host.run(["head", "-c", "5000000", "/dev/zero"]).stdout) == 5_000_000
    assert len(host.run(["cat"], input="y" * 5_000_000).stdout) == 5_000_000
    with pytest.raises(CommandError, match="n1: cannot start no-such-program: No such file"):
        host.run(["no-such-program"])
    with pytest.raises(CommandError, match="exit code 4"):
        host.run(["sh", "-c", "exit 4"])
    assert not (tmp_path / "owned").exists()


def test_the_environment_is_not_seen_in_ps(host: SshHost, server: Server) -> None:
    process = host.spawn(["sleep", "30"], env={"TOKEN": "s3cret"})
    _await(lambda: ["sleep", "30"] in server.commands())
    assert not [word for command in server.commands() for word in command if "s3cret" in word]
    process.close()


def test_a_spawned_command_streams_takes_signals_and_leaves_nothing(host: SshHost, server: Server) -> None:
    process = host.spawn(["sh", "-c", "echo up; sleep 60 & sleep 60; echo never"])
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    assert process.poll() is None
    assert psutil.Process(process.pid).is_running()
    with pytest.raises(CommandError, match="still runs after"):
        process.wait(0.01)
    process.terminate()
    assert process.wait(5) == -signal.SIGTERM
    process.close()
    failing = host.spawn(["sh", "-c", "echo bad >&2; exit 9"])
    assert (failing.wait(5), failing.stderr_tail()) == (9, "bad")
    failing.close()
    with pytest.raises(CommandError, match=r"still ran after 0\.2 s and was killed"):
        host.run(["sh", "-c", "sleep 60 & sleep 60"], timeout_s=0.2)
    host.spawn(["sleep", "60"]).close()
    _await(lambda: ["sleep", "60"] not in server.commands())


def test_files_go_whole_or_not_at_all(host: SshHost, server: Server, tmp_path: Path) -> None:
    source, there, back = tmp_path / "source", tmp_path / "a b" / "there", tmp_path / "back"
    source.write_bytes(os.urandom(3_000_000))
    source.chmod(0o750)
    host.put(source, str(there))
    host.get(str(there), back)
    assert back.read_bytes() == source.read_bytes() == there.read_bytes()
    assert there.stat().st_mode & 0o777 == 0o750
    assert host.read_text("/proc/sys/kernel/ostype") == "Linux\n"
    with pytest.raises(CommandError, match="No such file"):
        host.get(str(tmp_path / "absent"), back)
    endless = tmp_path / "endless"
    endless.touch()
    os.truncate(endless, 1 << 40)
    _once(lambda: any(part.stat().st_size for part in there.parent.glob("*.part-*")), server.kill_connections)
    with pytest.raises(CommandError, match="was lost"):
        host.put(endless, str(there))
    _await(lambda: sorted(path.name for path in there.parent.iterdir()) == ["there"])
    assert there.read_bytes() == source.read_bytes()


def test_more_commands_than_sshd_allows_on_a_connection(host: SshHost) -> None:
    done: list[str] = []
    threads = [threading.Thread(target=lambda: done.append(host.run(["sleep", "0.2"]).stdout)) for _ in range(15)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(done) == 15


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
    return server.target(port=closed_port())


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
    _await(lambda: not _relays(server.port))


def _relays(port: int) -> list[psutil.Process]:
    return [
        each
        for each in psutil.Process().children(recursive=True)
        if each.status() != psutil.STATUS_ZOMBIE and f"relay-of-{port}" in each.cmdline()
    ]


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
    return server.target(port=closed_port(), jump=server.target(name="jump"))


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
        thread.join(5)


def test_a_host_that_dies_half_way_is_said_to_be_lost_and_found_again(
    host: SshHost, server: Server, tmp_path: Path
) -> None:
    spawned = host.spawn(["sleep", "60"])
    _once((tmp_path / "pid").exists, server.kill_connections)
    with pytest.raises(SshError, match="was lost: while it ran sh") as caught:
        host.run(["sh", "-c", f"echo $$ >'{tmp_path}/new'; mv '{tmp_path}/new' '{tmp_path}/pid'; exec sleep 60"])
    assert caught.value.kind == "lost"
    assert spawned.wait(5) == 255
    assert "was lost" in spawned.stderr_tail()
    spawned.close()
    assert host.run(["echo", "back"]).stdout == "back\n"
    host.run(["kill", str(spawned.pid), (tmp_path / "pid").read_text().strip()])


def test_what_a_login_prints_is_no_output(tmp_path: Path) -> None:
    server = sshd.start(tmp_path, 'ForceCommand echo "Welcome!"; eval "$SSH_ORIGINAL_COMMAND"')
    try:
        with ssh_hosts([server.target()]) as hosts:
            assert hosts["n1"].run(["echo", "mine"]).stdout == "mine\n"
    finally:
        server.stop()


def test_an_account_that_runs_no_commands_is_named(tmp_path: Path) -> None:
    server = sshd.start(tmp_path, "ForceCommand echo This account is closed; exit 1")
    try:
        with ssh_hosts([server.target()]) as hosts, pytest.raises(CommandError, match="no commands: This account is"):
            hosts["n1"].run(["true"])
    finally:
        server.stop()


def test_an_interrupted_command_ends_on_the_host(server: Server, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from harness.hosts.ssh.hosts import ssh_hosts\n"
        "from harness.hosts.ssh.target import Target\n"
        "user, port, key, known = sys.argv[1:]\n"
        "target = Target('n1', '127.0.0.1', user, int(port), (Path(key),), 'none', (Path(known),))\n"
        "with ssh_hosts([target]) as hosts: hosts['n1'].run(['sh', '-c', 'sleep 61 & sleep 61'])\n"
    )
    words = [server.target().user, str(server.port), str(server.key), str(server.known_hosts)]
    argv = [sys.executable, "-c", code, *words]
    process = subprocess.Popen(argv, env=environment(tmp_path), stderr=subprocess.DEVNULL)

    def sleeping() -> int:
        return server.commands().count(["sleep", "61"])

    _await(lambda: sleeping() == 2)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == -signal.SIGINT
    _await(lambda: sleeping() == 0)


@pytest.mark.slow
def test_sixty_four_hosts_answer_in_time(server: Server, tmp_path: Path) -> None:
    """The figures of docs/howto/cluster.md have a bound: 6 s cold, 0.5 s over open connections."""
    command = inventory(server, tmp_path, [{"name": f"n{index}"} for index in range(64)])
    done = subprocess.run([*command, "--json"], env=environment(tmp_path), capture_output=True, text=True, timeout=60)
    told = json.loads(done.stdout)
    assert (done.returncode, told["failed"]) == (0, 0)
    assert told["cold_ms"] <= 6000
    assert told["warm_ms"] <= 500


def test_through_a_jump_host_that_is_connected_to_once(server: Server, other: Server) -> None:
    jump = server.target(name="gate")
    targets = [other.target(name=name, jump=jump) for name in ("a", "b", "c")]
    with ssh_hosts(targets) as hosts:
        assert [host.run(["echo", name]).stdout for name, host in hosts.items()] == ["a\n", "b\n", "c\n"]
        links = {host.link.jump for host in hosts.values()}
        assert len(links) == 1


def test_the_agents_key_is_enough(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "agent")
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    try:
        _await(Path(path).exists)
        monkeypatch.setenv("SSH_AUTH_SOCK", path)
        subprocess.run(["ssh-add", "-q", str(server.key)], check=True, timeout=10)
        with ssh_hosts([server.target(keys=(), agent="all")]) as hosts:
            assert hosts["n1"].run(["echo", "in"]).stdout == "in\n"
        unnamed = server.target(keys=(tmp_path / "absent",), agent="named")
        with ssh_hosts([unnamed]) as hosts, pytest.raises(SshError, match="absent is not there"):
            hosts["n1"].run(["true"])
    finally:
        agent.terminate()
        agent.wait()


def inventory(server: Server, folder: Path, hosts: list[dict[str, Any]]) -> list[str]:
    defaults = {"user": server.target().user, "port": server.port, "known_hosts": str(server.known_hosts)}
    file = folder / "hosts.yaml"
    entries = [{"address": "127.0.0.1", "key": str(server.key), **host} for host in hosts]
    file.write_text(json.dumps({"schema": 1, "defaults": defaults, "hosts": entries}))
    return [*R2CC, "hosts", "check", "--inventory", str(file)]


def environment(folder: Path) -> dict[str, str]:
    """A user without keys, agent or configuration of their own."""
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(REPO)}


def test_checking_many_hides_nothing(server: Server, tmp_path: Path) -> None:
    bad: list[dict[str, Any]] = [
        {"name": "away", "port": closed_port()},
        {"name": "strange", "known_hosts": "/dev/null"},
        {"name": "shut", "key": str(sshd.keygen(tmp_path / "wrong"))},
    ]
    command = inventory(server, tmp_path, [*({"name": f"n{index}"} for index in range(5)), *bad])
    done = subprocess.run([*command, "--json"], env=environment(tmp_path), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (3, "")
    told = json.loads(done.stdout)
    validate("hosts_check", told)
    kinds = {host["name"]: (host["error"] or {"kind": "ok"})["kind"] for host in told["hosts"]}
    assert kinds == {**{f"n{index}": "ok" for index in range(5)}} | {
        "away": "unreachable",
        "strange": "unknown_host_key",
        "shut": "auth",
    }
    plain = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, timeout=60)
    assert plain.returncode == 3
    assert "5 of 8 hosts answer" in plain.stdout
    assert "\x1b" not in plain.stdout


def test_ctrl_c_ends_at_once(server: Server, deaf: int, tmp_path: Path) -> None:
    command = inventory(server, tmp_path, [{"name": "n0"}, {"name": "deaf", "port": deaf}])
    process = subprocess.Popen(command, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"n0  ok")
    process.send_signal(signal.SIGINT)
    _out, err = process.communicate(timeout=30)
    assert (process.returncode, err.strip()) == (130, b"r2cc: interrupted")


def _once(holds: Callable[[], bool], act: Callable[[], None]) -> None:
    """Acts in the background as soon as something holds."""

    def watch() -> None:
        _await(holds, 20.0)
        act()

    threading.Thread(target=watch, daemon=True).start()


def _await(holds: Callable[[], bool], limit_s: float = 10.0) -> None:
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.02)
