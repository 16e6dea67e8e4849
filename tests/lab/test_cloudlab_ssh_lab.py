"""A CloudLab manifest whose nodes are a real sshd: NICs are asked for by MAC; the inventory it makes can be used."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import sshd

from harness.cli import run_cli
from harness.sites.inventory_file import load

pytestmark = pytest.mark.skipif(sshd.SSHD is None, reason="no sshd (apt-get install openssh-server)")

SYSFS = Path("/sys/class/net")


def physical() -> str:
    """A NIC of this machine that is no bridge, bond or tunnel, with an address of its own."""
    macs = {path.name: (path / "address").read_text().strip() for path in SYSFS.iterdir() if (path / "device").exists()}
    own = [name for name, mac in macs.items() if [*macs.values()].count(mac) == 1]
    if not own:
        pytest.skip("this machine shows no physical NIC")
    return own[0]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sshd.Sshd]:
    made = sshd.start(tmp_path_factory.mktemp("sshd"))
    yield made
    made.stop()


def manifest(folder: Path, server: sshd.Sshd, mac: str) -> Path:
    """Two nodes that both are the server, on one rail."""
    nodes = "".join(
        f'''<node client_id="node{number}" exclusive="true"><hardware_type name="c6525-100g"/>
        <interface client_id="node{number}:rail0" mac_address="{mac.replace(":", "")}">
        <ip address="10.1.0.{number + 1}" netmask="255.255.255.0" type="ipv4"/></interface>
        <services><login hostname="127.0.0.1" port="{server.port}" username="{getpass.getuser()}"/></services></node>'''
        for number in (0, 1)
    )
    members = "".join(f'<interface_ref client_id="node{number}:rail0"/>' for number in (0, 1))
    link = f'<link client_id="rail0">{members}<link_type name="lan"/></link>'
    file = folder / "manifest.xml"
    file.write_text(f'<rspec xmlns="http://www.geni.net/resources/rspec/3" type="manifest">{nodes}{link}</rspec>')
    return file


def asked(file: Path, server: sshd.Sshd, known_hosts: Path | None = None) -> list[str]:
    known = str(known_hosts or server.known_hosts)
    return ["inventory", "from-cloudlab", str(file), "--key", str(server.key), "--known-hosts", known]


def test_nics_get_their_names_from_the_hosts(
    server: sshd.Sshd, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nic, out = physical(), tmp_path / "cluster.yaml"
    file = manifest(tmp_path, server, (SYSFS / nic / "address").read_text().strip())
    words = [*asked(file, server), "--out", str(out)]
    assert run_cli([*words, "--resolve"]) == 0, capsys.readouterr().err
    hosts = load(out)
    assert [(host.name, host.nics["data"]) for host in hosts] == [("node0", (nic,)), ("node1", (nic,))]
    assert run_cli(["hosts", "check", "--inventory", str(out)]) == 0
    assert "2 of 2 hosts answer" in capsys.readouterr().out


def test_nics_that_the_manifest_has_and_the_hosts_have_not(
    server: sshd.Sshd, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = manifest(tmp_path, server, "02:00:5e:00:53:77")
    assert run_cli([*asked(file, server), "--resolve"]) == 3
    captured = capsys.readouterr()
    assert captured.out == "" and "node1: its NICs are not those of the manifest" in captured.err


def test_a_host_key_that_nobody_knows(server: sshd.Sshd, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is sent to such a host; the inventory is made without it, and says what it lacks."""
    (tmp_path / "known").touch()
    file = manifest(tmp_path, server, "02:00:5e:00:53:77")
    assert run_cli(asked(file, server, tmp_path / "known")) == 0
    captured = capsys.readouterr()
    assert "data: 10.1.0.1" in captured.out and "named by their addresses" in captured.err
    assert "SHA256:" in captured.err
