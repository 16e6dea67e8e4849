"""Manifests of other people's profiles: known by what is in them, and only links that carry data are rails."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.cli import run_cli
from harness.cloudlab import manifest, rails
from harness.cloudlab.manifest import Node
from harness.sites.inventory_file import load

SPACES = (
    'xmlns="http://www.geni.net/resources/rspec/3" '
    'xmlns:emulab="http://www.protogeni.net/resources/rspec/ext/emulab/1" '
    'xmlns:vtop="http://www.protogeni.net/resources/rspec/ext/emulab/1" '
    'xmlns:sharedvlan="http://www.geni.net/resources/rspec/ext/shared-vlan/1"'
)
SITE = "urn:publicid:IDN+site.example+sliver+"


@dataclass
class Link:
    """A LAN of all nodes, with what CloudLab writes into it, and members that are no nodes of ours."""

    name: str
    inside: str = ""
    others: tuple[str, ...] = ()
    addressed: bool = True
    macs: bool = True


@dataclass
class Portal:
    """What the portal shows of an experiment."""

    links: list[Link]
    kind: str = "request"
    users: tuple[str, ...] = ("mia",)
    nodes: int = 2
    more: str = ""
    control: str = ""
    """The name of a link whose addresses are those of the nodes' host element."""
    slivers: bool = True
    logins: bool = True
    starts: str = ""
    per_node_users: dict[int, str] = field(default_factory=dict)

    def node(self, number: int) -> str:
        interfaces = "".join(self._interface(number, at, link) for at, link in enumerate(self.links))
        users = (self.per_node_users[number],) if number in self.per_node_users else self.users
        logins = "".join(
            f'<login authentication="ssh-keys" hostname="m{number}.site.example" port="22" username="{user}"/>'
            for user in users
        )
        sliver = f' sliver_id="{SITE}{number}"' if self.slivers else ""
        services = f"<services>{logins}</services>" if self.logins else ""
        host = f'<host name="n{number}.exp.site.example" ipv4="192.0.2.{number + 1}"/>'
        return f'<node client_id="n{number}"{sliver}>{interfaces}{services}{host}</node>\n'

    def _interface(self, number: int, at: int, link: Link) -> str:
        address = f"192.0.2.{number + 1}" if link.name == self.control else f"10.{at}.0.{number + 1}"
        ip = f'<ip address="{address}" type="ipv4" netmask="255.255.255.0"/>' if link.addressed else ""
        mac = f' mac_address="02000000{at:02x}{number:02x}"' if link.macs else ""
        return f'<interface client_id="n{number}:if{at}"{mac}>{ip}</interface>'

    def _link(self, at: int, link: Link) -> str:
        members = [*(f"n{number}:if{at}" for number in range(self.nodes)), *link.others]
        refs = "".join(f'<interface_ref client_id="{member}"/>' for member in members)
        return f'<link client_id="{link.name}" vlantag="{300 + at}">{refs}<link_type name="lan"/>{link.inside}</link>\n'

    def xml(self) -> str:
        nodes = "".join(self.node(number) for number in range(self.nodes))
        links = "".join(self._link(at, link) for at, link in enumerate(self.links))
        return f'{self.starts}<rspec {SPACES} type="{self.kind}">\n{nodes}{self.more}{links}</rspec>'


DATASET = (
    f'<node client_id="bs" sliver_id="{SITE}9"><sliver_type name="emulab-blockstore"/>'
    '<interface client_id="bs:if0"/><emulab:blockstore name="bs" class="remote" dataset="urn:x"/></node>\n'
)
KINDS = {
    "a data set": (Link("link7", others=("bs:if0",)), "storage"),
    "a shared VLAN": (Link("lanS", '<sharedvlan:link_shared_vlan name="all"/>', addressed=False), "shared VLAN"),
    "tagged": (Link("lanT", '<emulab:vlan_tagging enabled="true"/>', macs=False), "VLANs on NICs"),
    "a tunnel": (Link("lanG", '<link_type name="egre-tunnel"/>', others=("far:if0",)), "tunnel"),
    "a hub": (Link("lanH", '<vtop:link_attribute key="nomac_learning" value="yep"/>'), "nomac_learning"),
    "by name, NFS": (Link("nfsLan"), "storage"),
    "by name, management": (Link("mgmt-lan"), "management"),
    "the control network": (Link("lanC"), "control network"),
}


def nodes_of(portal: Portal) -> list[Node]:
    return manifest.parse(portal.xml().encode(), "m.xml")


@pytest.mark.parametrize("name", list(KINDS))
def test_links_for_storage_and_management_are_no_rails(name: str) -> None:
    link, why = KINDS[name]
    portal = Portal([link, Link("lan0")], more=DATASET, control="lanC")
    for node in nodes_of(portal):
        assert [nic.lan for nic in node.nics] == ["lan0"]
        assert why in dict(node.left_out)[link.name]


@given(st.permutations(list(KINDS)), st.integers(0, len(KINDS)), st.integers(1, 12))
def test_rails_are_what_is_left_in_their_order(kinds: list[str], most: int, count: int) -> None:
    good = [Link(f"lan{number}", '<emulab:vlan_tagging enabled="false"/>') for number in reversed(range(count))]
    portal = Portal([*(KINDS[each][0] for each in kinds[:most]), *good], more=DATASET, control="lanC")
    for node in nodes_of(portal):
        assert [nic.lan for nic in node.nics] == [f"lan{number}" for number in range(count)]


def test_a_name_decides_only_where_another_link_is_left() -> None:
    assert [nic.lan for nic in nodes_of(Portal([Link("admin")]))[0].nics] == ["admin"]
    assert [nic.lan for nic in nodes_of(Portal([Link("admin"), Link("x")]))[0].nics] == ["x"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nfsLan", "storage"),
        ("ds-link", "storage"),
        ("iscsi", "storage"),
        ("control", "management"),
        ("OOB0", "management"),
    ],
)
def test_names_that_say_what_they_are_for(name: str, said: str) -> None:
    assert said in rails._by_name(name)


@pytest.mark.parametrize("name", ["lan0", "link-1", "center", "dslam", "fabric", "adminton", "absolute", "stores3x"])
def test_other_names_say_nothing(name: str) -> None:
    assert rails._by_name(name) == ""


@pytest.mark.parametrize("kind", ["request", "manifest", ""])
def test_a_manifest_is_known_by_what_is_in_it(kind: str) -> None:
    assert [node.name for node in nodes_of(Portal([Link("lan0")], kind=kind))] == ["n0", "n1"]
    assert len(nodes_of(Portal([Link("lan0")], kind=kind, slivers=False))) == 2


@pytest.mark.parametrize(
    ("kind", "message"), [("request", "a request, not the manifest"), ("manifest", "no login yet")]
)
def test_what_was_not_given_out_is_none(kind: str, message: str) -> None:
    from harness.errors import InputErrors

    with pytest.raises(InputErrors, match=message):
        nodes_of(Portal([Link("lan0")], kind=kind, slivers=False, logins=False))


@pytest.mark.parametrize("starts", ["\n\n ", "\ufeff", '\n<?xml version="1.0"?>\n', '\ufeff<?xml version="1.0"?>'])
def test_what_pasting_puts_before_it_does_not_matter(starts: str) -> None:
    assert len(nodes_of(Portal([Link("lan0")], starts=starts))) == 2


@pytest.mark.parametrize(("starts", "line"), [("\n\n\n", 5), ('\n<?xml version="1.0"?>\n', 4)])
def test_lines_are_those_of_the_file(starts: str, line: int) -> None:
    from harness.errors import InputErrors

    with pytest.raises(InputErrors, match=f"m.xml:{line}: "):
        nodes_of(Portal([Link("lan0", macs=False)], starts=starts))


def test_a_data_set_is_known_by_its_store_and_a_local_one_makes_none() -> None:
    far = DATASET.replace('<sliver_type name="emulab-blockstore"/>', "")
    portal = Portal([Link("x", others=("bs:if0",)), Link("lan0")], more=far)
    assert [[nic.lan for nic in node.nics] for node in nodes_of(portal)] == [["lan0"], ["lan0"]]
    local = portal.xml().replace("<services>", '<emulab:blockstore name="b" class="local"/><services>')
    assert len(manifest.parse(local.encode(), "m.xml")) == 2


@pytest.mark.parametrize("kind", ["delay", "bridge", "emulab-blockstore"])
def test_nodes_that_nobody_logs_in_to_are_no_hosts(kind: str) -> None:
    more = f'<node client_id="middle" sliver_id="{SITE}5"><sliver_type name="{kind}"/></node>'
    assert [node.name for node in nodes_of(Portal([Link("lan0")], more=more))] == ["n0", "n1"]


def cli(folder: Path, portal: Portal, *words: str) -> int:
    (folder / "m.xml").write_text(portal.xml())
    return run_cli(["inventory", "from-cloudlab", str(folder / "m.xml"), "--no-resolve", *words])


def test_several_users_are_asked_for_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    portal = Portal([Link("lan0"), Link("nfs")], users=("mia", "noa", "mia"))
    assert cli(tmp_path, portal) == 2
    said = capsys.readouterr().err
    assert "several users may log in to n0: mia, noa" in said and "--user" in said
    assert cli(tmp_path, portal, "--user", "noa") == 0
    out = capsys.readouterr()
    assert yaml.safe_load(out.out)["defaults"]["user"] == "noa"
    assert "link 'nfs' is no rail: by its name it leads to storage" in out.err


def test_each_host_has_its_own_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "c.yaml"
    assert cli(tmp_path, Portal([Link("lan0")], per_node_users={0: "mia", 1: "noa"}), "--out", str(out)) == 0
    assert [host.target.user for host in load(out, home=tmp_path)] == ["mia", "noa"]
    capsys.readouterr()
