"""Inventory files: ranges, how ~/.ssh/config is applied, and that every mistake is reported at once with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.cli import run_cli
from harness.errors import InputErrors, UsageError
from harness.hosts.ssh.options import Config
from harness.hosts.ssh.target import Asked, Target, resolve
from harness.schemas import validate
from harness.sites.inventory_file import ClusterHost, load, parse
from harness.sites.ranges import MOST_NAMES, expand

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "inventory.yaml"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("node[08-11]", ["node08", "node09", "node10", "node11"]),
        ("node[8-11]", ["node8", "node9", "node10", "node11"]),
        ("gpu[0-15/5],login1", ["gpu0", "gpu5", "gpu10", "gpu15", "login1"]),
        ("r[1-2]n[1,4-5].x", ["r1n1.x", "r1n4.x", "r1n5.x", "r2n1.x", "r2n4.x", "r2n5.x"]),
        ("a[007]", ["a007"]),
        ("a[0-2]", ["a0", "a1", "a2"]),
    ],
)
def test_ranges_are_clustershells(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text", ["", "a,", "a[1-2", "a1-2]", "a[[1]]", "a[]", "a[2-1]", "a[1-3/0]", "a[01-100]", "a[x]", "a[1-99999999999]"]
)
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"bracket|empty|range|more than"):
        expand(text)


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 5), st.integers(1, 9))
def test_every_range_counts_as_python_does(first: int, length: int, width: int, step: int) -> None:
    last = first + length
    width = max(width, len(str(last)))
    names = expand(f"n[{first:0{width}}-{last:0{width}}/{step}]")
    assert names == [f"n{number:0{width}}" for number in range(first, last + 1, step)]
    assert len(names) <= MOST_NAMES


def hosts_of(text: str, home: Path, config: str = "") -> list[ClusterHost]:
    (home / "config").write_text(config)
    return parse(text, "i.yaml", config=home / "config", home=home)


def test_the_example_means_what_it_says(tmp_path: Path) -> None:
    hosts = {host.name: host for host in load(EXAMPLE, home=tmp_path)}
    assert len(hosts) == 18
    node, spare = hosts["node07"], hosts["spare2"]
    assert (node.target.shown, node.labels, node.gpus) == ("alice@node07.example.org", {"rack": "a"}, 8)
    assert node.nics["data"] == tuple(f"mlx5_{index}" for index in range(8))
    assert node.target.jump is not None
    assert node.target.jump.address == "login.example.org"
    assert (spare.target.shown, spare.target.jump, spare.gpus) == ("alice@192.0.2.12:2222", None, 0)
    assert spare.target.known_as == "[192.0.2.12]:2222"
    validate("inventory", yaml.safe_load(EXAMPLE.read_text()))


def test_all_mistakes_at_once_with_their_lines(tmp_path: Path) -> None:
    text = """\
schema: 2
defaults:
  colour: red
hosts:
  - name: node[01-16
  - name: node[1-3]
    address: a[1-2]
  - name: node2
    port: 0
    key: ~/absent
    nics: {data: "eth[0-1]", mgmt: eth1}
  - name: "-oProxyCommand=x"
  - {address: x, jump: "a b", gpus: many, gpus: 2}
"""
    with pytest.raises(InputErrors) as caught:
        hosts_of(text, tmp_path)
    assert caught.value.exit_code == 2
    said = [error.removeprefix("i.yaml:").partition(": ")[::2] for error in caught.value.errors]
    assert [line for line, _ in said] == ["1", "3", "5", "7", "8", "9", "10", "11", "12", "13", "13", "13"]
    parts = ["not 2", "colour: unknown key", "brackets", "2 addresses for 3", "'node2' is there twice", "port"]
    parts += ["no key", "'eth1' is there twice", "cannot be a name"]
    for (_, message), part in zip(said, parts, strict=False):
        assert part in message
    assert "duplicate key 'gpus'" in {message for _, message in said}
    assert any(message.endswith(".name: this is required") for _, message in said)


@pytest.mark.parametrize("text", ["", "[]", "hosts: []", "hosts: 3", "hosts:\n- 3", "a: [", "hosts: [name: [1]]"])
def test_what_is_no_inventory_is_bad_input(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputErrors, match=r"i\.yaml:1|i\.yaml:2"):
        hosts_of(text, tmp_path)


CONFIG = """\
Include more
Host node*
    HostName %h.cluster
    User bob
    Port 2200
    IdentityFile ~/.ssh/cluster
    IdentitiesOnly yes
    ProxyJump carol@gate:2022,inner
    ConnectTimeout 3
Host inner
    HostName 192.0.2.9
    User dave
"""


def target_of(asked: Asked, home: Path, config: str = CONFIG) -> Target:
    (home / "config").write_text(config.replace("Include ", f"Include {home}/"))
    (home / "more").write_text("Host inner\n  HostKeyAlias the-inner\n")
    return resolve(asked, Config(home / "config", home))


def test_the_users_ssh_configuration_is_honoured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    target = target_of(Asked("node1"), tmp_path)
    assert (target.shown, target.agent, target.connect_timeout_s) == ("bob@node1.cluster:2200", "named", 3.0)
    assert target.keys == (tmp_path / ".ssh" / "cluster",)
    assert tmp_path / ".ssh" / "known_hosts" in target.known_hosts
    inner = target.jump
    assert inner is not None
    assert (inner.shown, inner.known_as) == ("dave@192.0.2.9", "the-inner")
    assert inner.jump is not None
    assert (inner.jump.shown, inner.jump.jump) == ("carol@gate:2022", None)


def test_what_the_inventory_says_goes_first(tmp_path: Path) -> None:
    asked = Asked("node1", user="eve", port=22, key="/k", jump="none", known_hosts="~/known")
    target = target_of(asked, tmp_path)
    assert (target.shown, target.keys, target.jump) == ("eve@node1.cluster", (Path("/k"),), None)
    assert target.known_hosts == (tmp_path / "known",)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("Host *\n  ProxyCommand nc %h %p\n  ProxyUseFdpass yes", "ProxyUseFdpass is not supported"),
        ("Host *\n  ProxyJump node1", "loop"),
        ("Host\n  nonsense", "cannot read"),
        ("Include config\n", "cannot read"),
    ],
)
def test_a_configuration_that_cannot_be_followed_is_bad_usage(config: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=says):
        target_of(Asked("node1"), tmp_path, config)


def test_the_command_lists_hosts_and_refuses_bad_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run_cli(["hosts", "list", "--inventory", str(EXAMPLE), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["hosts"]
    assert [host["name"] for host in listed][-2:] == ["spare1", "spare2"]
    (tmp_path / "bad.yaml").write_text("hosts:\n- name: a[\n")
    assert run_cli(["hosts", "check", "--inventory", str(tmp_path / "bad.yaml")]) == 2
    assert "bad.yaml:2: " in capsys.readouterr().err
    assert run_cli(["hosts", "list", "--inventory", "gone.yaml"]) == 2
    assert "no inventory 'gone.yaml': there is no such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spec", "first"),
    [
        ((), "h0  10.250.0.1  data: eth0 eth1 eth2 eth3  management: mgmt0"),
        (("--inventory", "lab:small"), "h0  10.250.0.1  data: eth0 eth1  management: mgmt0"),
        (("--inventory", "vm:2x3"), "h0  10.250.0.1  data: eth0 eth1 eth2  management: mgmt0"),
    ],
)
def test_the_command_lists_the_hosts_of_beds_that_are_built(
    spec: tuple[str, ...], first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["hosts", "list", *spec]) == 0
    assert capsys.readouterr().out.splitlines()[0] == first
    assert run_cli(["hosts", "list", *spec, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hosts"][0]["name"] == "h0"
