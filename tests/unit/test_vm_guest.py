"""QEMU's command line, word for word, and what is said in the guest's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.vmlab.guest import Files, encoded, kernel_command_line, qemu_command
from harness.vmlab.image.build import Image
from harness.vmlab.shape import Shape
from harness.vmlab.wire import wire_command

DATA = Path(__file__).parents[1] / "data" / "vm"


def golden(name: str, command: list[str]) -> None:
    """One word a line, so that a change is seen where it is."""
    path = DATA / name
    assert command == path.read_text().splitlines(), f"compare with {path}"


def test_the_second_of_two_guests() -> None:
    files = Files(agent=10, monitor=11, nics=[12, 13, 14])
    command = qemu_command(
        Shape(hosts=2, nics=2),
        1,
        image=Image(Path("/cache/vm/0123")),
        files=files,
        console=Path("/logs/a,b/h1.console"),
        share=Path("/home/me/r2cc, new"),
    )
    golden("qemu-h1.txt", command)
    assert files.all() == [10, 11, 12, 13, 14]


def test_what_ssh_adds_and_nothing_else() -> None:
    """A network that leads nowhere but from a free port on loopback to the guest's sshd, for one user's key."""
    rest = {"image": Image(Path("/i")), "files": Files(1, 2, [3, 4]), "console": Path("/c"), "share": None}
    plain = qemu_command(Shape(nics=1), 1, **rest)  # type: ignore[arg-type]
    served = qemu_command(Shape(nics=1, ssh=True), 1, **rest, ssh_key="AAAAkey+/0")  # type: ignore[arg-type]
    added = served[len(plain) :]
    assert [word for word, other in zip(served, plain, strict=False) if word != other] == [
        f"{plain[plain.index('-append') + 1]} r2cc.ssh=AAAAkey+/0"
    ]
    golden("ssh-h1.txt", added)


def test_the_wire_between_them() -> None:
    shape = Shape(hosts=2, nics=1)
    golden("wire.txt", wire_command(Path("/cache/r2cc_wire"), 5, dict(zip(shape.ports(), range(6, 10), strict=True))))


def test_without_a_share_there_is_none() -> None:
    line = kernel_command_line(Shape(), 0, None)
    assert "r2cc.share" not in line
    assert line.endswith("r2cc.index=0 r2cc.nics=4 r2cc.mtu=9000")


@pytest.mark.parametrize("path", ["/plain/path", "/with space/and,comma", "/über/$HOME `x` 'q' \"d\" \\ =*?[a]%s"])
def test_any_path_survives_the_kernel_command_line(path: str) -> None:
    """The guest's own line of shell undoes it."""
    word = encoded(Path(path))
    assert not set(word) & set(" \"'`$,%*?[]")
    script = 'word="r2cc.share=$1"; share=$(printf %b "${word#*=}"); printf %s "$share"'
    done = subprocess.run(["sh", "-c", script, "sh", word], capture_output=True, check=True)
    assert done.stdout.decode() == path


def test_names_and_addresses_are_the_contract_s() -> None:
    ports = Shape(hosts=2, nics=2).ports_of(1)
    assert [(p.name, p.address, p.mac, p.device) for p in ports] == [
        ("h1-eth0", "10.1.0.2", "52:54:00:00:00:02", "nic-eth0"),
        ("h1-eth1", "10.2.0.2", "52:54:00:00:01:02", "nic-eth1"),
        ("h1-mgmt0", "10.250.0.2", "52:54:00:00:fa:02", "nic-mgmt0"),
    ]


@pytest.mark.parametrize(
    ("cores", "hosts", "cpus"), [(1, 2, 1), (2, 2, 1), (4, 2, 1), (5, 2, 2), (16, 2, 4), (16, 8, 1)]
)
def test_guests_share_the_machine_but_for_one_core(cores: int, hosts: int, cpus: int) -> None:
    assert Shape.fitting(cores, hosts=hosts) == Shape(hosts=hosts, cpus=cpus)
