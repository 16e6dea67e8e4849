"""`r2cc panic` over an inventory that is wrong about some of its hosts: the others are healed all the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.cli import run_cli
from harness.hosts import LocalHost
from harness.hosts.ssh.target import Target
from harness.sites.inventory_file import load_usable

INVENTORY = """\
schema: 1
defaults: {user: ops}
hosts:
  - {name: ant, key: ~/.ssh/gone}
  - name: bee[1-3]
  - {name: cat, port: many}
  - {name: dog}
  - {name: dog, address: dog2}
  - 7
"""
CONFIG = "Host bee2\n  ProxyJump bee2\n"


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(CONFIG)
    file = tmp_path / "cluster.yaml"
    file.write_text(INVENTORY)
    return file


def test_single_hosts_that_are_wrong(inventory: Path) -> None:
    usable, wrong = load_usable(inventory)
    assert [host.name for host in usable] == ["bee1", "bee3", "dog"]
    assert "loop via bee2" in wrong["bee2"].errors[0]
    assert f"{inventory}:4: there is no key ~/.ssh/gone" in wrong["ant"].errors
    assert wrong["cat"].errors[0].startswith(f"{inventory}:6: hosts.0.port")
    assert "the host of line 9" in wrong


def test_the_others_are_healed(
    inventory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    @contextmanager
    def here(targets: Iterable[Target]) -> Iterator[dict[str, LocalHost]]:
        names = [target.name for target in targets]
        asked.extend(names)
        yield {name: LocalHost(name) for name in names}

    monkeypatch.setattr("harness.hosts.ssh.hosts.ssh_hosts", here)
    assert run_cli(["panic", "--inventory", str(inventory), "--dry-run", "--json"]) == 3
    found = {host["name"]: host for host in json.loads(capsys.readouterr().out)["hosts"]}
    assert {"bee1", "bee3", "dog"} <= set(asked)
    assert all(found[name]["error"] is None for name in asked)
    assert "there is no key" in found["ant"]["error"] and "port" in found["cat"]["error"]
    assert run_cli(["panic", "--inventory", str(inventory), "--host", "bee1,dog", "--dry-run"]) == 0
    assert "2 of 2 hosts asked" in capsys.readouterr().out
    assert run_cli(["panic", "--inventory", f"{inventory}:ant,bee1", "--dry-run"]) == 3
    told = capsys.readouterr().out
    assert "ant  NOT REACHED" in told and "1 of 2 hosts asked" in told


def test_no_host_that_can_be_used(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory.write_text("hosts:\n  - {name: ant, key: ~/.ssh/gone}\n  - {nome: bee}\n")
    assert run_cli(["panic", "--inventory", str(inventory)]) == 2
    told = capsys.readouterr().err
    assert ":2: there is no key" in told and ":3: hosts.1.nome: unknown key" in told
    assert "try: ls ~/.ssh" in told
