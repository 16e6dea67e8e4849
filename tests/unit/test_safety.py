"""What an experiment must not break on hosts over SSH: the controller's own way there, and too much at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from chaos.deadman.safety import Ways, counted, parse, protected, refusals, too_much
from chaos.experiment.model import Limits
from chaos.faults.registry import spec_of
from chaos.faults.spec import FaultSpec

CLIENT, SERVER = "192.0.2.1", "192.0.2.10"
NICS = {host: [f"eth{n}" for n in range(4)] for host in ("h0", "h1", "h2", "h3")}


def link(name: str, address: str = "", **more: Any) -> dict[str, Any]:
    return {"ifname": name, "addr_info": [{"local": address}] if address else [], **more}


def ways(*links: dict[str, Any], routes: Sequence[str] = (), client: str = CLIENT, server: str = SERVER) -> Ways:
    return Ways(client, server, links, routes, ())


def names(told: Ways) -> set[str]:
    return {name for _, name in protected({"h1": told}, {})}


def test_the_interface_of_the_ssh_connection_and_that_of_its_answers_are_protected() -> None:
    told = ways(link("lo", "127.0.0.1"), link("eth0", SERVER), link("eth1", "10.0.0.1"), link("eth2"), routes=["eth2"])
    assert protected({"h1": told}, {}) == {
        ("h1", "eth0"): "carries the controller's connection",
        ("h1", "eth2"): "carries the controller's connection",
    }


@pytest.mark.parametrize(
    ("links", "wanted"),
    [
        ([link("bond0", SERVER), *(link(f"eth{n}", master="bond0") for n in "01")], {"bond0", "eth0", "eth1"}),
        ([link("eth0.7", SERVER, link="eth0"), link("eth0"), link("eth0.8", link="eth0")], {"eth0.7", "eth0"}),
        (
            [link("br0", SERVER), link("bond0.5", link="bond0", master="br0"), link("bond0"),
             link("eth3", master="bond0")],
            {"br0", "bond0.5", "bond0", "eth3"},
        ),
        ([link("vx", SERVER, linkinfo={"info_data": {"link": "eth1"}}), link("eth1")], {"vx", "eth1"}),
        ([link("veth0", SERVER, link="eth0", link_netnsid=0), link("eth0")], {"veth0"}),
        ([link("a", SERVER, master="b"), link("b", master="a")], {"a"}),
    ],
    ids=["bond", "vlan", "vlan of a bond in a bridge", "vxlan", "peer in another namespace", "circle"],
)  # fmt: skip
def test_so_is_all_that_it_runs_over(links: list[dict[str, Any]], wanted: set[str]) -> None:
    assert wanted <= names(ways(*links))
    assert "eth0.8" not in names(ways(*links))


def test_link_local_and_mapped_addresses_are_understood() -> None:
    assert names(ways(link("eth0", "fe80::1"), client="fe80::2%eth0", server="fe80::1%eth0")) == {"eth0"}
    assert names(ways(link("eth0", SERVER), server=f"::ffff:{SERVER}")) == {"eth0"}


def test_a_jump_host_keeps_the_way_to_those_behind_it() -> None:
    jump = ways(link("eth0", SERVER), link("eth1", "10.9.0.1"))
    behind = ways(link("eth5", "10.9.0.2"), client="10.9.0.1", server="10.9.0.2")
    found = protected({"jump": jump, "node": behind}, {})
    assert found["jump", "eth1"] == "carries the controller's way to node"
    assert found["node", "eth5"] == "carries the controller's connection"


def test_default_route_and_management_role_are_protected_but_nothing_else() -> None:
    told = Ways(CLIENT, SERVER, [link("eth0", SERVER), link("eth7"), link("eth1")], [], ["eth7"])
    assert protected({"h1": told}, {"h1": ["mgmt0"], "h2": ["mgmt1"]}) == {
        ("h1", "eth0"): "carries the controller's connection",
        ("h1", "eth7"): "has the default route",
        ("h1", "mgmt0"): "is for management, says the inventory",
        ("h2", "mgmt1"): "is for management, says the inventory",
    }


def said(**changes: str) -> str:
    parts = {
        "connection": f"{CLIENT} 5000 {SERVER} 22",
        "links": json.dumps([link("eth0", SERVER)]),
        "route": f"{CLIENT} via 192.0.2.254 dev eth3 src {SERVER} uid 0 \\    cache ",
        "route_from": "",
        "default": "default via 192.0.2.254 dev eth3 proto dhcp metric 100 \ndefault via 10.0.0.1 dev eth9 metric 600 ",
        "end": "",
        **changes,
    }
    return "".join(f"\n=== {name}\n{text}\n" for name, text in parts.items())


def test_what_a_host_says_is_read() -> None:
    told = parse(said())
    assert (told.client, told.server, list(told.routes), list(told.default)) == (CLIENT, SERVER, ["eth3"], ["eth3"])
    assert parse(said(default="")).default == []
    ways = "default proto static metric 5 \\\tnexthop via 10.0.0.1 dev eth1 weight 1 \\\tnexthop via 10.1.0.1 dev eth2"
    assert parse(said(default=ways)).default == ["eth1", "eth2"]


@pytest.mark.parametrize("text", ["", said()[:60], said(connection=""), said(links="[")])
def test_what_is_not_known_is_an_error(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        parse(text)


def fault(**words: Any) -> FaultSpec:
    about = {"id": "f0", "kind": "link_down", "host": "h1", "nic": "eth1", "duration_s": 1.0, "at": {"iteration": 1}}
    return spec_of({**about, **words})


def test_limits_say_how_they_are_raised() -> None:
    def broken(hosts: int, nics: int) -> list[tuple[str, str]]:
        return [(f"h{h}", f"eth{n}") for h in range(hosts) for n in range(nics)]

    assert too_much(broken(2, 3), NICS, Limits()) is None
    assert too_much(broken(3, 1), NICS, Limits()) == "3 of 4 hosts at once are more than 2 (say limits: {hosts: 3})"
    assert too_much(broken(3, 1), NICS, Limits(hosts=3)) is None
    why = too_much(broken(1, 4), NICS, Limits())
    assert why is not None
    assert "4 of h0's 4 NICs at once are more than 3 (say limits: {nics: 4}, or allow_total_loss: true" in why
    assert too_much(broken(1, 4), NICS, Limits(nics=4)) is None
    assert too_much(broken(1, 2), NICS, Limits(nics=1)) is not None
    assert too_much(broken(1, 1), {"h0": ["eth0"]}, Limits()) is not None, "its only NIC"


def test_every_reason_is_told_at_once() -> None:
    everywhere = [(host, nic) for host, nics in NICS.items() for nic in nics]
    reasons = refusals(
        [(fault(), [("h1", "eth1")]), (fault(id="f1"), everywhere)], {("h1", "eth1"): "is holy"}, NICS, Limits()
    )
    assert reasons == [
        "fault f0: h1 eth1 is holy",
        "fault f1: h1 eth1 is holy",
        "fault f1: 4 of 4 hosts at once are more than 2 (say limits: {hosts: 4})",
    ]


def test_who_means_it_may_do_it_but_never_cut_the_controller() -> None:
    every = [(host, "eth1") for host in NICS]
    rail = fault(kind="rail_down", host="", nic="", rail=1)
    assert counted(rail, every) == counted(fault(allow_total_loss=True), every) == []
    assert refusals([(rail, every)], {}, NICS, Limits()) == []
    assert refusals([(rail, every)], {("h2", "eth1"): "no"}, NICS, Limits()) == ["fault f0: h2 eth1 no"]
