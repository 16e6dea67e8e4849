"""From CloudLab's manifest to an inventory file: what it means, every mistake with its line, and names of NICs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from host_double import FakeHost

from harness.cli import run_cli
from harness.cloudlab import inventory, manifest, profile
from harness.cloudlab.inventory import NAMES_BY_MAC, Access, Names, names_by_mac
from harness.errors import InputErrors, UsageError
from harness.schemas import validate
from harness.sites.inventory_file import load

DATA = Path(__file__).parent.parent / "data" / "cloudlab"
TYPES = list(profile.HARDWARE)


def manifest_of(hardware: str) -> Path:
    return DATA / f"manifest-{hardware}.xml"


def cli(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = run_cli(["inventory", "from-cloudlab", *map(str, words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("hardware", TYPES)
def test_the_inventory_is_the_recorded_one(hardware: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = cli(capsys, manifest_of(hardware), "--no-resolve")
    assert (code, out, err) == (0, (DATA / f"cluster-{hardware}.yaml").read_text(), "")
    validate("inventory", yaml.safe_load(out))
    hosts = load(DATA / f"cluster-{hardware}.yaml", home=tmp_path)
    assert {host.gpus for host in hosts} == {profile.HARDWARE[hardware].gpus}
    assert {host.labels["hardware"] for host in hosts} == {hardware}


@pytest.mark.parametrize("hardware", TYPES)
def test_nics_stand_in_the_order_of_rails_as_the_profile_gave_their_addresses(hardware: str) -> None:
    """In the manifests LANs come in another order, and one has an interface of a data set."""
    for number, node in enumerate(manifest.load(manifest_of(hardware))):
        assert [nic.lan for nic in node.nics] == [f"rail{rail}" for rail in range(len(node.nics))]
        assert [nic.address for nic in node.nics] == [profile.address(rail, number) for rail in range(len(node.nics))]
        assert [nic.rate_gbit for nic in node.nics] == [10.0] * len(node.nics)
        assert all(len(nic.mac) == 17 for nic in node.nics)


Change = Callable[[str], str]
BAD: list[tuple[str, Change, list[str]]] = [
    (
        "a request",
        lambda text: (
            text.replace('type="manifest"', 'type="request"')
            .replace("<login ", "<nothing ")
            .replace(" sliver_id=", " x=")
        ),
        [":3: a request, not the manifest: no node in it has a sliver_id or a login"],
    ),
    ("another version", lambda text: text.replace("rspec/3", "rspec/2"), [":3: no GENI v3 manifest"]),
    ("no XML", lambda text: text[:-9], [":59: not valid XML: no element found"]),
    ("empty", lambda text: "", [":1: not valid XML: no element found"]),
    ("HTML", lambda text: "<html><body/></html>", [":1: no GENI v3 manifest: its root is <html>"]),
    (
        "not ready: two nodes, all of it at once",
        lambda text: text.replace("<login ", "<nothing ").replace('mac_address="0c42a1695c09"', ""),
        [
            ":5: node 'node0' has no login yet",
            ":10: interface 'node0:rail0' has no MAC address (mac_address='')",
            ":23: node 'node1' has no login yet",
        ],
    ),
    (
        "names, addresses, members",
        lambda text: (
            text.replace('client_id="node1"', 'client_id="node0"')
            .replace('address="10.2.0.1"', 'address="10.2.0.300"')
            .replace('interface_ref client_id="node1:rail1"', 'interface_ref client_id="node9:rail1"')
            .replace('hostname="amd105.utah', 'hostname="-oProxyCommand=x;y')
            .replace('capacity="10000000"', 'capacity="10G"', 1)
        ),
        [
            ":13: interface 'node0:rail1' needs one IPv4 address, and has 10.2.0.300",
            ":17: login 'alice' at '-oProxyCommand=x;y.cloudlab.us' cannot be one",
            ":23: 'node0' is there twice, the first time in line 5",
            ":31: interface 'node1:rail1' is in 0 LANs",
            ":43: LAN 'rail1' has a member 'node9:rail1' that no node has",
            ":47: capacity '10G' is no number of kbit/s",
        ],
    ),
    ("no port", lambda text: text.replace('port="22"', 'port="99999"', 1), [":17: '99999' is no port"]),
    ("no nodes", lambda text: "".join(text.partition("  <node ")[0]) + "</rspec>", [":3: it has no nodes"]),
    ("no name", lambda text: text.replace('client_id="node1"', 'client_id="node 1"'), [":23: 'node 1' cannot be a"]),
]


@pytest.mark.parametrize(("change", "messages"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_all_mistakes_at_once_with_their_lines(
    change: Change, messages: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "m.xml", tmp_path / "cluster.yaml"
    file.write_text(change(manifest_of("c6525-100g").read_text()))
    with pytest.raises(InputErrors) as caught:
        manifest.load(file)
    assert len(caught.value.errors) == len(messages), caught.value.errors
    for error, message in zip(caught.value.errors, messages, strict=True):
        assert f"{file}{message}" in error
    code, shown, err = cli(capsys, file, "--out", out)
    assert (code, shown) == (2, "") and "Traceback" not in err and not out.exists()


LAUGHS = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
ATTACKS = {
    "entities that grow": f'<!DOCTYPE rspec [<!ENTITY a0 "ha">{LAUGHS}]><rspec>&a9;</rspec>',
    "a file of this machine": '<!DOCTYPE rspec [<!ENTITY x SYSTEM "file:///etc/passwd">]><rspec>&x;</rspec>',
    "a document type elsewhere": '<!DOCTYPE rspec SYSTEM "http://192.0.2.1/x.dtd"><rspec/>',
    "parameter entities": '<!DOCTYPE rspec [<!ENTITY % x SYSTEM "http://192.0.2.1/x"> %x;]><rspec/>',
}


@pytest.mark.parametrize("text", list(ATTACKS.values()), ids=list(ATTACKS))
def test_xml_that_would_do_harm_is_not_read(text: str) -> None:
    with pytest.raises(InputErrors, match="1: it declares a document type"):
        manifest.parse(text.encode(), "m.xml")


def test_what_is_too_deep_or_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputErrors, match="nested over 64 deep"):
        manifest.parse(b"<a>" * 5000, "m.xml")
    monkeypatch.setattr("harness.cloudlab.safe_xml.MOST_BYTES", 10)
    with pytest.raises(InputErrors, match="over 0 MiB"):
        manifest.parse(b"<rspec></rspec>", "m.xml")


def with_logins(*users: str) -> list[manifest.Node]:
    return [manifest.Node("n", "x", "", "", tuple((user, "n.example.org", 22) for user in users), ())]


def test_whose_login_it_is() -> None:
    assert inventory.document(with_logins("a"), Access())["defaults"] == {"user": "a"}
    assert inventory.document(with_logins("a", "b"), Access("b", "k"))["defaults"] == {"user": "b", "key": "k"}
    assert inventory.document(with_logins("a"), Access("c"))["defaults"] == {"user": "c"}, "another of the project"
    with pytest.raises(UsageError, match="several users may log in to n: a, b"):
        inventory.document(with_logins("a", "b"), Access())


def hosts_of(nodes: list[manifest.Node]) -> dict[str, FakeHost]:
    """Hosts whose NICs are called ensN, the last of them first."""
    found = {}
    for node in nodes:
        lines = [f"{nic.mac} ens{index}f0np0" for index, nic in enumerate(node.nics)]
        shown = "\n".join(["00:00:5e:00:53:01 eno1", *reversed(lines), "default eno1"])
        found[node.name] = FakeHost(node.name, strict=True).answer("sh -c *", f"{shown}\n")
    return found


def test_names_of_nics_are_asked_from_the_hosts_by_mac() -> None:
    nodes = manifest.load(manifest_of("r7525"))
    outcomes = inventory.resolve(nodes, hosts_of(nodes))
    names = {name: outcome.value for name, outcome in outcomes.items() if outcome.value}
    assert names == {node.name: Names(("ens0f0np0", "ens1f0np0", "ens2f0np0"), "eno1") for node in nodes}
    content = inventory.text(nodes, Access(), names)
    assert "named by address" not in content
    assert inventory.checked(content, "c.yaml")[2].nics == {"data": names["node2"].data, "management": ("eno1",)}


def test_a_host_with_other_nics_than_the_manifests_is_named() -> None:
    nodes = manifest.load(manifest_of("d8545"))
    hosts = hosts_of(nodes)
    hosts["node1"] = FakeHost("node1").answer("sh -c *", f"{nodes[1].nics[0].mac} a\n{nodes[1].nics[0].mac} b\n")
    outcomes = inventory.resolve(nodes, hosts)
    assert outcomes["node0"].error is None
    message = str(outcomes["node1"].error)
    assert f"rail0: {nodes[1].nics[0].mac} is a and b" in message
    assert f"rail1: {nodes[1].nics[1].mac} is no NIC of it" in message


def test_the_script_lists_physical_nics_alone(tmp_path: Path) -> None:
    for name, physical in (("ens1", True), ("ens2", True), ("ens1.5", False), ("lo", False)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "address").write_text("0c:42:a1:00:00:01\n" if "1" in name else "0C:42:A1:00:00:02\n")
        if physical:
            (tmp_path / name / "device").mkdir()
    (tmp_path / "bonding_masters").touch()
    (tmp_path / "route").write_text("Iface\tDestination\tGateway\neno1\t00000000\t010200C0\nens1\t0000010A\t0\n")
    script = NAMES_BY_MAC.replace("/sys/class/net", str(tmp_path)).replace("/proc/net/route", f"{tmp_path}/route")
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, check=True)
    macs = {"0c:42:a1:00:00:01": ["ens1"], "0c:42:a1:00:00:02": ["ens2"]}
    assert names_by_mac(done.stdout) == {**macs, "default": ["eno1"]}
    assert done.stderr == ""


def unreachable(tmp_path: Path) -> Path:
    """A manifest whose hosts nobody answers for, on this machine's own loopback."""
    file = tmp_path / "m.xml"
    text = manifest_of("c6525-100g").read_text()
    for name in ("amd105.utah.cloudlab.us", "amd117.utah.cloudlab.us"):
        text = text.replace(f'hostname="{name}" port="22"', 'hostname="127.0.0.1" port="1"')
    file.write_text(text)
    return file


def test_hosts_that_do_not_answer_leave_addresses_unless_names_were_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = unreachable(tmp_path), tmp_path / "cluster.yaml"
    code, shown, err = cli(capsys, file, "--resolve", "--out", out)
    assert (code, shown) == (3, "") and "2 of 2 hosts could not be asked" in err and not out.exists()
    code, shown, err = cli(capsys, file, "--out", out, "--json")
    assert code == 0 and json.loads(shown)["resolved"] is False
    assert "named by their addresses" in err and f"r2cc hosts check --inventory {out}" in err
    assert "data: 10.1.0.1,10.2.0.1" in out.read_text()


def test_a_file_is_not_replaced_unasked_and_never_half_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "cluster.yaml"
    out.write_text("mine\n")
    words = (manifest_of("d8545"), "--no-resolve", "--out", out)
    code, _, err = cli(capsys, *words)
    assert code == 2 and "is there already" in err and out.read_text() == "mine\n"
    assert cli(capsys, *words, "--force")[0] == 0
    assert len(load(out, home=tmp_path)) == 2 and [path.name for path in tmp_path.iterdir()] == ["cluster.yaml"]
    code, _, err = cli(capsys, manifest_of("d8545"), "--no-resolve", "--out", out / "where.yaml")
    assert code == 2 and "cannot write" in err


def test_a_key_that_is_not_there_is_found_before_anything_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = cli(capsys, manifest_of("d8545"), "--key", tmp_path / "none", "--out", tmp_path / "cluster.yaml")
    assert code == 2 and "error: there is no key" in err, "no line of a file that is not written"
    assert "try: ls ~/.ssh" in err
    code, _, err = cli(capsys, tmp_path / "none.xml")
    assert code == 2 and "cannot read manifest" in err
