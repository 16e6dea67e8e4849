"""`r2cc hosts check` against a real OpenSSH server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ports import free_port

sys.path.insert(0, str(Path(__file__).parent))
import sshd

from harness.schemas import validate

pytestmark = pytest.mark.skipif(sshd.SSHD is None, reason="no sshd (apt-get install openssh-server)")

REPO = Path(__file__).parents[2]
R2CC = [sys.executable, "-c", "from harness.cli import main; main()"]
Server = sshd.Sshd


def inventory(server: Server, folder: Path, hosts: list[dict[str, Any]]) -> list[str]:
    defaults = {"user": server.target().user, "port": server.port, "known_hosts": str(server.known_hosts)}
    file = folder / "hosts.yaml"
    entries = [{"address": "127.0.0.1", "key": str(server.key), **host} for host in hosts]
    file.write_text(json.dumps({"schema": 1, "defaults": defaults, "hosts": entries}))
    return [*R2CC, "hosts", "check", "--inventory", str(file)]


def test_checking_many_hides_nothing(server: Server, tmp_path: Path) -> None:
    bad: list[dict[str, Any]] = [
        {"name": "away", "port": free_port()},
        {"name": "strange", "known_hosts": "/dev/null"},
        {"name": "shut", "key": str(sshd.keygen(tmp_path / "wrong"))},
    ]
    command = inventory(server, tmp_path, [*({"name": f"n{index}"} for index in range(5)), *bad])
    done = subprocess.run(
        [*command, "--json"], env=sshd.environment(tmp_path), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (3, "")
    told = json.loads(done.stdout)
    validate("hosts_check", told)
    kinds = {host["name"]: (host["error"] or {"kind": "ok"})["kind"] for host in told["hosts"]}
    assert kinds == {**{f"n{index}": "ok" for index in range(5)}} | {
        "away": "unreachable",
        "strange": "unknown_host_key",
        "shut": "auth",
    }
    plain = subprocess.run(command, env=sshd.environment(tmp_path), capture_output=True, text=True, timeout=60)
    assert plain.returncode == 3
    assert "5 of 8 hosts answer" in plain.stdout
    assert "\x1b" not in plain.stdout


def test_ctrl_c_ends_at_once(server: Server, deaf: int, tmp_path: Path) -> None:
    command = inventory(server, tmp_path, [{"name": "n0"}, {"name": "deaf", "port": deaf}])
    process = subprocess.Popen(command, env=sshd.environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"n0  ok")
    process.send_signal(signal.SIGINT)
    _out, err = process.communicate(timeout=30)
    assert (process.returncode, err.strip()) == (130, b"r2cc: interrupted")


@pytest.mark.slow
def test_sixty_four_hosts_answer_in_time(server: Server, tmp_path: Path) -> None:
    """The figures of docs/howto/cluster.md have a bound: 6 s cold, 0.5 s over open connections."""
    command = inventory(server, tmp_path, [{"name": f"n{index}"} for index in range(64)])
    done = subprocess.run(
        [*command, "--json"], env=sshd.environment(tmp_path), capture_output=True, text=True, timeout=60
    )
    told = json.loads(done.stdout)
    assert (done.returncode, told["failed"]) == (0, 0)
    assert told["cold_ms"] <= 6000
    assert told["warm_ms"] <= 500
