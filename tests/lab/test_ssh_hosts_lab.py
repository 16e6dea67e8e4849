"""Lab hosts as SSH hosts: each with its own sshd, address and host key, and a network that can be cut."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import ssh_lab

from harness.hosts import Process
from harness.lab.lab import Lab
from harness.lab.topology import Topology

pytestmark = ssh_lab.NEEDS

REPO = Path(__file__).parents[2]
LIMIT_S = 30.0
HOLD = """
import sys
from pathlib import Path
from harness.errors import SshError
from harness.hosts.ssh.hosts import ssh_hosts
from harness.hosts.ssh.target import Target
address, key, known = sys.argv[1:]
target = Target("h2", address, "root", 22, (Path(key),), "none", (Path(known),), silence_s=1.5)
with ssh_hosts([target]) as hosts:
    print(hosts["h2"].run(["echo", "up"]).stdout, end="", flush=True)
    try:
        hosts["h2"].run(["sleep", "60"])
    except SshError as error:
        print(error.kind, flush=True)
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.up(Topology.load("hosts: 4\nnics: 1\n")) as made:
        yield made


@pytest.fixture(scope="module")
def folder(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An sshd on h1, h2, h3, and an inventory of them."""
    made = tmp_path_factory.mktemp("ssh")
    entries = [{"name": "h[1-3]", "address": "10.250.0.[2-4]"}]
    with ssh_lab.served(lab, made, ("h1", "h2", "h3"), entries):
        yield made


def from_h0(lab: Lab, *argv: str) -> Process:
    env = {"PYTHONPATH": str(REPO), "HOME": "/nonexistent", "SSH_AUTH_SOCK": ""}
    return lab.hosts["h0"].spawn([sys.executable, *argv], env=env, stderr=subprocess.STDOUT)


def test_all_hosts_are_checked_from_another_one(lab: Lab, folder: Path) -> None:
    main = "from harness.cli import main; main()"
    process = from_h0(lab, "-c", main, "hosts", "check", "--json", "--inventory", str(folder / "inventory.yaml"))
    assert process.stdout is not None
    said = process.stdout.read().decode()
    assert process.wait(LIMIT_S) == 0, said
    assert [host["ok"] for host in json.loads(said)["hosts"]] == [True, True, True]
    process.close()


@pytest.mark.timed
def test_a_host_whose_network_goes_silent_is_lost_in_time(lab: Lab, folder: Path) -> None:
    process = from_h0(lab, "-c", HOLD, "10.250.0.3", str(folder / "user_key"), str(folder / "known_hosts"))
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    lab.hosts["h2"].run(["ip", "link", "set", "mgmt0", "down"])
    try:
        said = process.stdout.read().decode()
        assert said == "lost\n", said
    finally:
        lab.hosts["h2"].run(["ip", "link", "set", "mgmt0", "up"])
        process.close()
