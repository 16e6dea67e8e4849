"""A real OpenSSH server on this machine's loopback, with its own configuration, host key and users' keys."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
from ports import free_port
from waits import until

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
LOOPBACK = "127.0.0.1"


def keygen(path: Path, *words: str) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", *words, "-f", str(path)], check=True, timeout=30)
    return path


def public(key: Path) -> str:
    return " ".join(Path(f"{key}.pub").read_text().split()[:2])


@dataclass
class Sshd:
    """One server. Connections are its children, so that a host which dies can be made of it."""

    folder: Path
    process: subprocess.Popen[bytes]
    port: int
    key: Path
    known_hosts: Path

    def target(self, **changes: Any) -> Any:
        """How our own client is to reach it."""
        from harness.hosts.ssh.options import local_user
        from harness.hosts.ssh.target import Target

        plain = Target("n1", LOOPBACK, local_user(), self.port, (self.key,), "none", (self.known_hosts,))
        return replace(plain, **changes)

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def commands(self) -> list[list[str]]:
        """What runs on the host through it."""
        found = []
        for child in self.children():
            with suppress(psutil.Error):  # it has just ended
                found.append(child.cmdline())
        return found

    def kill_connections(self, signum: int = signal.SIGKILL) -> None:
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.NoSuchProcess):
                child.send_signal(signum)

    def stop(self) -> None:
        """With all its connections; what was started through them ends too."""
        found = self.children()
        self.process.kill()
        self.process.wait()
        for child in found:
            with suppress(psutil.NoSuchProcess):
                child.kill()


def configuration(folder: Path, address: str, port: int, options: str = "") -> str:
    return (
        f"ListenAddress {address}:{port}\nHostKey {folder}/host_key\nAuthorizedKeysFile {folder}/authorized_keys\n"
        "PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nMaxStartups 200\nMaxSessions 10\n"
        # A shell that thinks it is nested reads no .bashrc: what this machine's user has there is not under test.
        f"SetEnv SHLVL=5\n{options}\n"
    )


def command(folder: Path) -> list[str]:
    """sshd in the foreground, with the configuration that lies in `folder`."""
    assert SSHD is not None
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # what the distribution's service makes
    return [SSHD, "-D", "-e", "-f", str(folder / "config")]


def start(folder: Path, options: str = "") -> Sshd:
    folder.chmod(0o700)
    host_key, key = keygen(folder / "host_key"), keygen(folder / "user_key")
    (folder / "authorized_keys").write_text(public(key) + "\n")
    port = free_port()
    (folder / "known_hosts").write_text(f"[{LOOPBACK}]:{port} {public(host_key)}\n")
    (folder / "config").write_text(configuration(folder, LOOPBACK, port, options))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command(folder), stderr=log)
    made = Sshd(folder, process, port, key, folder / "known_hosts")
    try:
        _await(folder / "log", process)
    except BaseException:
        made.stop()
        raise
    return made


def _await(log: Path, process: subprocess.Popen[bytes]) -> None:
    until(lambda: process.poll() is not None or b"Server listening" in log.read_bytes(), "sshd does not listen")
    assert process.poll() is None, log.read_text()


def once(holds: Callable[[], bool], act: Callable[[], None]) -> None:
    """Acts in the background as soon as something holds."""

    def watch() -> None:
        until(holds)
        act()

    threading.Thread(target=watch, daemon=True).start()


def environment(folder: Path) -> dict[str, str]:
    """A user without keys, agent or configuration of their own."""
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(Path(__file__).parents[2])}
