"""Hosts over SSH against a real OpenSSH server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from waits import LIMIT_S, until

sys.path.insert(0, str(Path(__file__).parent))
import sshd

from harness.errors import CommandError, SshError
from harness.hosts import Host
from harness.hosts.ssh.hosts import SshHost, ssh_hosts

pytestmark = pytest.mark.skipif(sshd.SSHD is None, reason="no sshd (apt-get install openssh-server)")
NO_AGENT = 2
"""What `ssh-add` ends with where no agent answers: its socket is there before it listens."""

Server = sshd.Sshd


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
    until(lambda: ["sleep", "30"] in server.commands())
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
    assert process.wait(LIMIT_S) == -signal.SIGTERM
    process.close()
    failing = host.spawn(["sh", "-c", "echo bad >&2; exit 9"])
    assert (failing.wait(LIMIT_S), failing.stderr_tail()) == (9, "bad")
    failing.close()
    with pytest.raises(CommandError, match=r"still ran after 0\.2 s and was killed"):
        host.run(["sh", "-c", "sleep 60 & sleep 60"], timeout_s=0.2)
    host.spawn(["sleep", "60"]).close()
    until(lambda: ["sleep", "60"] not in server.commands())


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

    def begun() -> bool:
        with suppress(FileNotFoundError):  # a part that is whole, or given up, is there no longer
            return any(part.stat().st_size for part in there.parent.glob("*.part-*"))
        return False

    sshd.once(begun, server.kill_connections)
    with pytest.raises(CommandError, match="was lost"):
        host.put(endless, str(there))
    until(lambda: sorted(path.name for path in there.parent.iterdir()) == ["there"])
    assert there.read_bytes() == source.read_bytes()


def test_more_commands_than_sshd_allows_on_a_connection(host: SshHost) -> None:
    done: list[str] = []
    threads = [threading.Thread(target=lambda: done.append(host.run(["sleep", "0.2"]).stdout)) for _ in range(15)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert len(done) == 15


def test_a_host_that_dies_half_way_is_said_to_be_lost_and_found_again(
    host: SshHost, server: Server, tmp_path: Path
) -> None:
    spawned = host.spawn(["sleep", "60"])
    sshd.once((tmp_path / "pid").exists, server.kill_connections)
    with pytest.raises(SshError, match="was lost: while it ran sh") as caught:
        host.run(["sh", "-c", f"echo $$ >'{tmp_path}/new'; mv '{tmp_path}/new' '{tmp_path}/pid'; exec sleep 60"])
    assert caught.value.kind == "lost"
    assert spawned.wait(LIMIT_S) == 255
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
    process = subprocess.Popen(argv, env=sshd.environment(tmp_path), stderr=subprocess.DEVNULL)

    def sleeping() -> int:
        return server.commands().count(["sleep", "61"])

    until(lambda: sleeping() == 2)
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == -signal.SIGINT
    until(lambda: sleeping() == 0)


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
        monkeypatch.setenv("SSH_AUTH_SOCK", path)
        until(lambda: subprocess.run(["ssh-add", "-l"], capture_output=True).returncode != NO_AGENT)
        subprocess.run(["ssh-add", "-q", str(server.key)], check=True, timeout=LIMIT_S)
        with ssh_hosts([server.target(keys=(), agent="all")]) as hosts:
            assert hosts["n1"].run(["echo", "in"]).stdout == "in\n"
        unnamed = server.target(keys=(tmp_path / "absent",), agent="named")
        with ssh_hosts([unnamed]) as hosts, pytest.raises(SshError, match="absent is not there"):
            hosts["n1"].run(["true"])
    finally:
        agent.terminate()
        agent.wait()
