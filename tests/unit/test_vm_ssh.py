"""Guests over SSH, without guests: the lab's key, the port that QEMU took, and the inventory file of it all."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import cast

import paramiko
import pytest

from harness.errors import LabError, UsageError
from harness.sites.inventory_file import load
from harness.vmlab import ssh
from harness.vmlab.host import VmHost
from harness.vmlab.lab import VmLab
from harness.vmlab.monitor import Monitor
from harness.vmlab.shape import Shape

USERNET = """Hub -1 (ssh0):
  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ
  TCP[ESTABLISHED]   30       127.0.0.1 51000     10.251.0.1    22     0     0
  TCP[HOST_FORWARD]  27       127.0.0.1 42299     10.251.0.1    22     0     0\r
"""


class Told:
    def __init__(self, answer: str) -> None:
        self.answer = answer

    def ask(self, command: str, **arguments: object) -> str:
        assert (command, arguments) == ("human-monitor-command", {"command-line": "info usernet"})
        return self.answer


def test_the_port_is_the_one_that_qemu_says_it_took() -> None:
    assert ssh.forwarded_port("h0", cast(Monitor, Told(USERNET))) == 42299
    with pytest.raises(LabError, match="h0: QEMU forwards no port"):
        ssh.forwarded_port("h0", cast(Monitor, Told(USERNET.replace("HOST_FORWARD", "SYN_SENT"))))


def test_the_key_is_private_and_its_public_half_is_what_guests_are_told(tmp_path: Path) -> None:
    told = ssh.make_key(tmp_path)
    assert stat.S_IMODE((tmp_path / ssh.KEY).stat().st_mode) == 0o600
    assert paramiko.Ed25519Key.from_private_key_file(str(tmp_path / ssh.KEY)).get_base64() == told
    assert "=" not in told, "one word of a kernel command line"
    assert ssh.make_key(tmp_path) != told


@pytest.mark.parametrize(("nics", "data"), [(1, ("eth0",)), (3, ("eth0", "eth1", "eth2"))])
def test_the_inventory_says_where_each_guest_is_and_which_key_it_has(
    tmp_path: Path, nics: int, data: tuple[str, ...]
) -> None:
    ssh.make_key(tmp_path)
    ports, keys = {"h0": 4000, "h1": 4001}, {"h0": "ssh-ed25519 AAA0", "h1": "ssh-ed25519 AAA1"}
    file = ssh.write_inventory(tmp_path, Shape(nics=nics, ssh=True), ports, keys)
    hosts = load(file, config=tmp_path / "none", home=tmp_path)
    assert [(h.name, h.target.address, h.target.port, h.target.user) for h in hosts] == [
        ("h0", "127.0.0.1", 4000, "root"),
        ("h1", "127.0.0.1", 4001, "root"),
    ]
    assert {h.nics["data"] for h in hosts} == {data}
    assert {h.nics["management"] for h in hosts} == {("mgmt0",)}
    assert {h.target.known_hosts for h in hosts} == {(tmp_path / ssh.KNOWN_HOSTS,)}
    known = (tmp_path / ssh.KNOWN_HOSTS).read_text().splitlines()
    assert known == ["[127.0.0.1]:4000 ssh-ed25519 AAA0", "[127.0.0.1]:4001 ssh-ed25519 AAA1"]


def test_a_lab_without_ssh_says_how_to_have_one(tmp_path: Path) -> None:
    lab = VmLab("lab", tmp_path, Shape(), {}, VmHost("switch", tmp_path), [], [])
    with pytest.raises(UsageError) as caught:
        _ = lab.inventory_file
    assert caught.value.hint == "r2cc lab up --kind vm --ssh"
