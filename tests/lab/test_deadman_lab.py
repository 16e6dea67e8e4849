"""Hosts over SSH heal by themselves: the controller is killed, loses its network, or its machine goes away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import ssh_lab

from chaos.record.journal import read
from harness.hosts import Process
from harness.lab.lab import Lab
from harness.lab.topology import Topology

pytestmark = ssh_lab.NEEDS

REPO = Path(__file__).parents[2]
CONTROLLER = Path(__file__).parent / "deadman_controller.py"
TTL_S = 12.0
"""All that is broken must be seen before it is over, by a loaded machine, too."""
LATE_S = 30.0
"""How late a loaded machine may be; an idle one is at once."""
LIMIT_S = 60.0
CONTROLLERS = {"h1": "h4", "h2": "h5", "h3": "h6"}
"""By the host they break: each has a machine of its own, so that each can be lost in its own way."""
DEAF = "add table inet someone_else; add chain inet someone_else i { type filter hook input priority 0; }; " + (
    "add rule inet someone_else i tcp dport 22 reject with tcp reset"
)
CUT = """
name: cut
topology: {hosts: 4, nics: 3}
workload: {}
faults:
  - {id: f0, kind: link_down, host: h1, nic: eth1, at: {iteration: 1}, duration_s: 1.0}
  - {id: f1, kind: link_down, nics: ["*:eth0"], at: {iteration: 3}, duration_s: 1.0}
arms: {migrate: {expect: holds}}
"""
FAULTS = "address,rate,link,stop"


def facts(lab: Lab, host: str) -> dict[str, Any]:
    """What a host is like, seen from outside: nothing of it through SSH."""
    run = lab.hosts[host].run
    queues = json.loads(run(["tc", "-j", "-d", "-raw", "qdisc", "show"]).stdout)
    for queue in queues:
        queue["options"]["lat"] = None  # which tc computes from rounded numbers
    return {
        "addresses": run(["ip", "-j", "addr", "show"]).stdout,
        "routes": sorted(run(["ip", "route"]).stdout.splitlines()),
        "queues": queues,
        "tables": run(["nft", "list", "tables"]).stdout,
    }


def state_path(lab: Lab, host: str) -> str:
    return "/run/r2cc/" + lab.hosts[host].run(["readlink", "/proc/self/ns/net"]).stdout.strip()[5:-1]


def state_dir(lab: Lab, host: str, folder: str) -> list[str]:
    """What is in a host's folder of ours."""
    return lab.hosts[host].run(["ls", f"{state_path(lab, host)}/{folder}"]).stdout.split()


def state_of(lab: Lab, host: str, pid: int) -> str:
    return lab.hosts[host].read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[0]


@dataclass
class Site:
    """Hosts h1, h2, h3 over SSH, and machines for their controllers."""

    lab: Lab
    inventory: Path
    before: Mapping[str, Mapping[str, Any]]
    running: list[Process] = field(default_factory=list)

    def python(self, on: str, *argv: str, stdin: Any = None) -> Process:
        env = {"PYTHONPATH": str(REPO), "HOME": "/nonexistent", "SSH_AUTH_SOCK": ""}
        made = self.lab.hosts[on].spawn([sys.executable, *argv], env=env, stdin=stdin, stderr=subprocess.STDOUT)
        self.running.append(made)
        return made

    def controller(self, on: str, host: str, ttl_s: float, faults: str, stdin: Any = None) -> Process:
        return self.python(on, str(CONTROLLER), str(self.inventory), host, f"{ttl_s:g}", faults, stdin=stdin)

    def r2cc(self, on: str, *words: str) -> tuple[int, str]:
        process = self.python(on, "-c", "from harness.cli import main; main()", *words)
        out = said(process)
        return process.wait(LIMIT_S), out

    def wrong(self, host: str, pid: int) -> list[str]:
        """What is not as it was before."""
        now = facts(self.lab, host)
        lines = [f"{self.before[host][key]}-> {now[key]}" for key in now if now[key] != self.before[host][key]]
        return lines + (["the rank is stopped"] if state_of(self.lab, host, pid) == "T" else [])


def said(process: Process) -> str:
    assert process.stdout is not None
    return process.stdout.read().decode()


def active(process: Process) -> int:
    """The pid of the rank that is stopped."""
    assert process.stdout is not None
    while (line := process.stdout.readline().decode()) and "what an earlier run left" in line:
        pass
    assert line.startswith("active "), line + said(process)
    return int(line.split()[1])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("deadman")
    with (
        Lab.up(Topology.load("hosts: 7\nnics: 3\nrate_gbit: 0.2\n")) as lab,
        ssh_lab.served(lab, folder, [*CONTROLLERS]) as inventory,
    ):
        made = Site(lab, inventory, {host: facts(lab, host) for host in CONTROLLERS})
        yield made
        for host in CONTROLLERS:
            lab.hosts[host].run(["rm", "-rf", state_path(lab, host)])


@pytest.fixture(autouse=True)
def nobody_holds_a_host_any_more(site: Site) -> Iterator[None]:
    """Of a test that failed, too: the next one needs the same hosts."""
    yield
    while site.running:
        site.running.pop().close()


def test_every_host_heals_whatever_becomes_of_its_controller(site: Site) -> None:
    lab = site.lab
    controllers = {host: site.controller(on, host, TTL_S, FAULTS) for host, on in CONTROLLERS.items()}
    pids = {host: active(process) for host, process in controllers.items()}
    armed = time.monotonic()
    for host, pid in pids.items():
        now = facts(lab, host)
        assert now["addresses"] != site.before[host]["addresses"], "the fault is there"
        assert now["queues"] != site.before[host]["queues"]
        assert state_of(lab, host, pid) == "T"

    os.kill(controllers["h1"].pid, signal.SIGKILL)
    lab.hosts["h5"].run(["ip", "link", "set", "mgmt0", "down"])  # h2's controller lives, and reaches nobody
    lab.hosts["h6"].run(["ip", "link", "set", "mgmt0", "down"])  # h3's goes down with its machine: no host is told
    os.kill(controllers["h3"].pid, signal.SIGKILL)
    assert all(len(site.wrong(host, pid)) == 4 for host, pid in pids.items()), "addresses, routes, queues, rank"

    waiting = dict(pids)
    while waiting:
        assert time.monotonic() - armed < TTL_S + LATE_S, [line for h in waiting for line in site.wrong(h, pids[h])]
        waiting = {host: pid for host, pid in waiting.items() if site.wrong(host, pid)}
        time.sleep(0.05)
    for name in ("h5", "h6"):
        lab.hosts[name].run(["ip", "link", "set", "mgmt0", "up"])
    for host, pid in pids.items():
        lab.hosts[host].run(["kill", "-9", str(pid)])
        left = sorted(name.partition("-")[0] for name in state_dir(lab, host, "armed"))
        assert left == ["address", "link", "rate", "stop"], "it waits to be told"


def test_panic_undoes_what_a_living_controller_broke_from_another_machine(site: Site) -> None:
    controller = site.controller("h4", "h1", 60, "address")
    active(controller)
    second = site.controller("h5", "h1", 60, "address")
    refused = said(second)
    assert second.wait(LIMIT_S) == 3
    assert "h1 is used by root@" in refused, refused
    assert f"runs `deadman_controller.py {site.inventory} h1 60 address`" in refused

    code, out = site.r2cc("h6", "panic", "--inventory", f"{site.inventory}", "--json", "--dry-run")
    assert code == 1, out
    h1, h2, _ = json.loads(out)["hosts"]
    assert {record["was"] for record in h1["records"]} == {"armed"}
    assert h1["holder"]["command"].startswith("deadman_controller.py")
    assert {record["was"] for record in h2["records"]} == {"undone"}, "by its timer, in the test before"
    assert facts(site.lab, "h1") != site.before["h1"], "--dry-run changes nothing"

    site.lab.hosts["h2"].run(["nft", "add", "table", "inet", "r2cc_left"])
    site.lab.hosts["h3"].run(["nft", "-f", "-"], input=DEAF)
    code, out = site.r2cc("h6", "panic", "--inventory", str(site.inventory))
    assert code == 3, out
    assert "h1: in use by root@" in out
    assert "h1  undone  address_removed of eth1 (address-" in out
    assert "h2  removed  nft table inet r2cc_left" in out
    assert "h3  NOT REACHED" in out, "and hides nothing of the others"
    assert facts(site.lab, "h1") == site.before["h1"]
    site.lab.hosts["h3"].run(["nft", "delete", "table", "inet", "someone_else"])
    assert state_dir(site.lab, "h1", "armed") == state_dir(site.lab, "h2", "armed") == []
    controller.close()


def test_a_run_clears_what_the_last_one_left_then_disarms_what_it_healed(site: Site) -> None:
    first = site.controller("h4", "h1", 60, "address")
    active(first)
    first.close()
    read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
    again = site.controller("h4", "h1", 60, "rate", stdin=read_fd)
    os.close(read_fd)
    assert again.stdout is not None
    assert b"what an earlier run left (address_removed of eth1) is undone" in again.stdout.readline()
    active(again)
    os.write(write_fd, b"heal\n")
    os.close(write_fd)
    assert again.wait(LIMIT_S) == 0, said(again)
    assert facts(site.lab, "h1") == site.before["h1"]
    assert state_dir(site.lab, "h1", "armed") == []
    journals = [list(read(path)) for path in site.inventory.parent.glob("journal-h1-*.jsonl")]
    (lines,) = [lines for lines in journals if lines and lines[-1]["event"] == "log"]
    assert [line["phase"] for line in lines if line["event"] == "fault"] == [
        "armed", "injected", "active", "reverted", "verified",
    ]  # fmt: skip
    assert [line["message"] for line in lines if line["event"] == "log"] == ["rate: disarmed on h1"]
    assert next(line["argv"][0] for line in lines if line["event"] == "command") == "tc", "as one would type it"


def test_an_experiment_that_would_cut_the_controller_off_is_refused(site: Site) -> None:
    experiment = site.inventory.parent / "cut.yaml"
    experiment.write_text(CUT)
    inventory = json.loads(site.inventory.read_text())
    inventory["defaults"]["nics"] = {"data": "eth0,mgmt0,eth2"}
    wrong = site.inventory.with_name("wrong.yaml")
    wrong.write_text(json.dumps(inventory))
    code, out = site.r2cc("h4", "chaos", "run", str(experiment), "--inventory", str(wrong), "--out", "/nonexistent")
    assert code == 2, out
    assert "fault f0: h1 mgmt0 carries the controller's connection" in out
    assert "fault f1: 3 of 3 hosts at once are more than 2 (say limits: {hosts: 3})" in out
