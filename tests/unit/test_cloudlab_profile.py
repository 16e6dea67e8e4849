"""The CloudLab profile, run by the real geni-lib as the portal would: its RSpec, and what it refuses."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from harness.cloudlab import profile

HERE = Path(__file__).parent
DATA = HERE.parent / "data" / "cloudlab"
V3 = "{http://www.geni.net/resources/rspec/3}"
EMULAB = "{http://www.protogeni.net/resources/rspec/ext/emulab/1}"
DEFAULTS = {
    "hardware": "c6525-100g",
    "nodes": 2,
    "rails": 2,
    "rateGbit": 10,
    "spaceGB": 100,
    "setup": True,
    "extraPorts": 0,
    "image": profile.IMAGE,
}
GOLDEN = {
    "r7525": {"hardware": "r7525", "nodes": 3, "rails": 3},
    "d7525": {"hardware": "d7525", "nodes": 4, "rails": 2, "rateGbit": 100},
    "d8545": {"hardware": "d8545", "nodes": 2, "rails": 2, "spaceGB": 0},
    "c6525-100g": {},
}

needs_geni = pytest.mark.skipif(importlib.util.find_spec("geni") is None, reason="geni-lib is not installed")


@cache
def portal(*cases: str) -> list[dict[str, Any]]:
    command = [sys.executable, str(HERE / "cloudlab_portal.py"), profile.__file__]
    done = subprocess.run(command, input=f"[{','.join(cases)}]", capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def golden() -> dict[str, str]:
    answers = portal(*(json.dumps(case) for case in GOLDEN.values()))
    assert [answer["exit"] for answer in answers] == [0] * len(GOLDEN)
    return {name: answer["xml"] for name, answer in zip(GOLDEN, answers, strict=True)}


@needs_geni
@pytest.mark.parametrize("name", list(GOLDEN))
def test_the_request_is_the_recorded_one(name: str) -> None:
    assert golden()[name] == (DATA / f"request-{name}.xml").read_text()


@needs_geni
@pytest.mark.parametrize("name", list(GOLDEN))
def test_the_request_keeps_the_rules_of_rspecs(name: str) -> None:
    """Those of GENI v3 that a portal trips over: unique names, members that exist, types and managers that fit."""
    asked = {**DEFAULTS, **GOLDEN[name]}
    root = ElementTree.fromstring(golden()[name])
    assert (root.tag, root.get("type")) == (f"{V3}rspec", "request")
    nodes, links = root.findall(f"{V3}node"), root.findall(f"{V3}link")
    interfaces = {interface.get("client_id"): node for node in nodes for interface in node.findall(f"{V3}interface")}
    names = Counter([*(each.get("client_id") for each in (*nodes, *links)), *interfaces])
    assert max(names.values()) == 1 and None not in names
    assert (len(nodes), len(links)) == (asked["nodes"], asked["rails"])
    assert len(interfaces) == len(nodes) * len(links)
    for node in nodes:
        assert node.get("exclusive") == "true"
        assert node.find(f"{V3}sliver_type").get("name") == "raw"  # type: ignore[union-attr]
        assert node.find(f"{V3}hardware_type").get("name") == name  # type: ignore[union-attr]
        cluster = profile.CLUSTERS[profile.HARDWARE[name].cluster]
        assert node.get("component_manager_id") == cluster
    for link in links:
        members = [member.get("client_id") for member in link.findall(f"{V3}interface_ref")]
        assert [interfaces[member] for member in members] == nodes, "one interface of every node"
        assert link.find(f"{V3}link_type").get("name") == "lan"  # type: ignore[union-attr]
        rates = {each.get("source_id"): each.get("capacity") for each in link.findall(f"{V3}property")}
        assert rates == dict.fromkeys(members, str(asked["rateGbit"] * 10**6)), "one rate, in kbit/s"
        assert {each.get("dest_id") for each in link.findall(f"{V3}property")} == {link.get("client_id")}
        assert link.find(f"{EMULAB}link_multiplexing") is None, "a port of its own"
        assert link.find(f"{EMULAB}vlan_tagging").get("enabled") == "false"  # type: ignore[union-attr]


@needs_geni
def test_addresses_are_those_of_the_lab() -> None:
    root = ElementTree.fromstring(golden()["r7525"])
    found = {
        interface.get("client_id"): (interface[0].get("address"), interface[0].get("netmask"))
        for interface in root.iter(f"{V3}interface")
    }
    assert found == {
        f"node{node}:rail{rail}": (f"10.{rail + 1}.0.{node + 1}", "255.255.255.0")
        for node in range(3)
        for rail in range(3)
    }


@needs_geni
def test_the_portal_is_told_what_cannot_be_had() -> None:
    """With CloudLab's own exit codes, 100 and one an error, and which fields to mark."""
    many, short, strange = portal(
        json.dumps({"nodes": 1, "rails": 9, "spaceGB": -1}),
        json.dumps({"hardware": "d8545", "rails": 3}),
        json.dumps({"hardware": "m400"}),
    )
    assert many["exit"] == 103 and [error["params"] for error in many["errors"]] == [["nodes"], ["rails"], ["spaceGB"]]
    assert short["exit"] == 101
    assert short["errors"][0]["message"] == "3 rails need as many ports; d8545 has 2 (100G, 100G)"
    assert strange["exit"] == 101 and "m400" in strange["errors"][0]["message"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, None),
        ({"hardware": "r7525", "rails": 3, "rateGbit": 25}, None),
        ({"hardware": "r7525", "rails": 2, "rateGbit": 100}, None),
        ({"hardware": "c6525-100g", "rails": 3, "extraPorts": 1, "rateGbit": 25}, None),
        ({"hardware": "r7525", "rails": 3, "rateGbit": 40}, "1 to 25 Gbit/s"),
        ({"hardware": "c6525-100g", "rails": 3}, "c6525-100g has 2"),
        ({"rateGbit": 0}, "1 to 25 Gbit/s"),
        ({"nodes": 33}, "2 to 32 nodes"),
        ({"extraPorts": 5}, "0 to 4 more ports"),
    ],
)
def test_ports_and_rates_that_there_are(asked: dict[str, object], words: str | None) -> None:
    found = profile.problems(SimpleNamespace(**{**DEFAULTS, **asked}))
    assert [message for message, _ in found] == [] if words is None else words in found[0][0]


def test_nothing_typed_in_reaches_a_shell() -> None:
    asked = SimpleNamespace(**{**DEFAULTS, "image": "x; reboot", "hardware": "d7525"})
    assert profile.boot_command(asked) == (
        "test ! -x /usr/local/sbin/r2cc-setup || sudo /usr/local/sbin/r2cc-setup "
        "--hardware d7525 --rate-gbit 10 --only limits,kernel,rates"
    )


def test_it_is_what_python_2_understands_too() -> None:
    """What only Python 3 has, and a formatter or a careless hand may bring in."""
    text = Path(profile.__file__).read_text()
    assert text.isascii(), "Python 2 wants a coding line for more"
    code = re.sub(r"#.*", "", text)
    for new in ('f"', "f'", "->", "nonlocal ", ":="):
        assert new not in code
