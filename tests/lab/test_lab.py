"""A lab that is up is what its topology says, and does to commands, links and packets what a real rack would."""

from __future__ import annotations

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from netcases.waited import Waited
from waits import LIMIT_S, until

from harness.errors import CommandError, LabError, UsageError
from harness.hosts import Host, Process
from harness.lab import wire
from harness.lab.host import NamespaceHost
from harness.lab.lab import Lab, Nic
from harness.lab.topology import Topology
from harness.sites.inventory import parse

pytestmark = pytest.mark.lab

TRAFFIC = str(Path(__file__).with_name("traffic.py"))


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.up(Topology(hosts=2, nics=2, rate_gbit=0.5)) as made:
        yield made


def next_line(process: Process) -> dict[str, object]:
    assert process.stdout is not None
    line: dict[str, object] = json.loads(process.stdout.readline())
    return line


def carrier(host: Host, nic: str) -> bool:
    return host.read_text(f"/sys/class/net/{nic}/carrier").strip() == "1"


def test_names_addresses_and_rates_are_the_contracts(lab: Lab) -> None:
    assert list(lab.hosts) == ["h0", "h1"]
    assert lab.nics[3] == Nic("h1", "eth1", 1, "10.2.0.2", 0.5, "h1-eth1")
    assert lab.warnings == []
    found = json.loads(lab.hosts["h1"].run(["ip", "-j", "addr"]).stdout)
    up = {link["ifname"]: link["addr_info"][0]["local"] for link in found if "LOWER_UP" in link["flags"]}
    assert up == {"lo": "127.0.0.1", "eth0": "10.1.0.2", "eth1": "10.2.0.2", "mgmt0": "10.250.0.2"}
    assert {link["mtu"] for link in found if link["ifname"] != "lo"} == {9000}
    ports = json.loads(lab.switch.run(["ip", "-j", "link"]).stdout)
    masters = {port["ifname"]: port.get("master") for port in ports}
    assert masters["h1-eth1"] == "rail1"
    assert masters["h0-mgmt0"] == "mgmt"
    assert {"rail0", "rail1"} <= set(masters)


@pytest.mark.parametrize(("host", "nic"), [("h0", "eth1"), ("switch", "h0-eth1")])
def test_both_ends_of_a_cable_are_shaped(lab: Lab, host: str, nic: str) -> None:
    """So that the rate holds in both directions, and when several senders meet at one port."""
    target = {**lab.hosts, "switch": lab.switch}[host]
    qdisc = next(q for q in json.loads(target.run(["tc", "-j", "qdisc", "show", "dev", nic]).stdout) if q.get("root"))
    assert (qdisc["kind"], qdisc["options"]["rate"]) == ("tbf", 0.5e9 / 8)


def test_an_address_that_is_not_answered_is_asked_for_again_soon(lab: Lab) -> None:
    """A NIC whose cable is back must not wait for the rest of a second in which nobody asks."""
    found = lab.hosts["h1"].run(["ip", "ntable", "show", "name", "arp_cache", "dev", "eth1"]).stdout
    assert " retrans 100 " in found


def test_names_of_hosts_resolve_inside(lab: Lab) -> None:
    # As gloo does: my own name, and the others', become addresses that they can be reached at.
    asks = "import socket; print(*(socket.gethostbyname(n) for n in (socket.gethostname(), 'h0', 'h1', 'localhost')))"
    for number, host in enumerate(lab.hosts.values(), 1):
        told = host.run([sys.executable, "-c", asks]).stdout.split()
        assert told == [f"10.250.0.{number}", "10.250.0.1", "10.250.0.2", "127.0.0.1"]
    assert not [line for line in Path("/etc/hosts").read_text().splitlines() if "10.250.0." in line]


def test_files_of_names_are_not_left_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of its own: other tests' labs come up meanwhile."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Lab.up(Topology(hosts=2, nics=1)) as made:
        assert "10.250.0.2" in made.hosts["h0"].read_text("/etc/hosts")
        assert list(tmp_path.iterdir()) == []


def test_each_host_sees_only_itself(lab: Lab) -> None:
    host = lab.hosts["h0"]
    assert host.run(["hostname"]).stdout == "h0\n"
    assert sorted(host.run(["ls", "/sys/class/net"]).stdout.split()) == ["eth0", "eth1", "lo", "mgmt0"]
    assert "eth1:" in host.read_text("/proc/net/dev")
    processes = host.run(["ls", "/proc"]).stdout.split()
    assert str(os.getpid()) not in processes or os.getpid() < 20
    assert "1" in processes


def test_results_environment_input_and_folder(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FROM_US", "1")
    result = lab.hosts["h0"].run(
        ["sh", "-c", "pwd; echo $FROM_US$ADDED; cat; echo err >&2; exit 3"], env={"ADDED": "2"}, input="in", check=False
    )
    assert (result.exit_code, result.stdout, result.stderr) == (3, f"{tmp_path}\n12\nin", "err\n")
    assert lab.hosts["h0"].run(["sh", "-c", "kill -9 $$"], check=False).exit_code == -signal.SIGKILL


def test_failures_name_the_host(lab: Lab) -> None:
    with pytest.raises(CommandError, match="h1: command failed with exit code 1: ip link set nothing down") as caught:
        lab.hosts["h1"].run(["ip", "link", "set", "nothing", "down"])
    assert "Cannot find device" in str(caught.value)
    with pytest.raises(CommandError, match="h1: cannot start no-such-program"):
        lab.hosts["h1"].run(["no-such-program"])
    with pytest.raises(CommandError, match="h1: an empty command"):
        lab.hosts["h1"].run([])


def test_a_bad_request_does_not_end_the_lab(lab: Lab) -> None:
    with pytest.raises(CommandError, match="embedded null byte"):
        lab.hosts["h0"].run(["true", "a\0b"])
    with pytest.raises(CommandError, match="cannot start true"):
        NamespaceHost("h99", lab.folder).run(["true"])
    assert lab.hosts["h0"].run(["true"]).exit_code == 0


def test_a_command_may_end_before_its_client_looks(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the agent has run the command, answered and closed before the client goes on."""
    send = wire.send

    def slow_send(*arguments: Any) -> None:
        real = socket.send_fds

        def late(*inner: Any) -> int:
            sent = real(*inner)
            time.sleep(0.1)
            return sent

        with monkeypatch.context() as patch:
            patch.setattr(socket, "send_fds", late)
            send(*arguments)

    monkeypatch.setattr(wire, "send", slow_send)
    assert lab.hosts["h0"].run(["hostname"]).stdout == "h0\n"


def test_a_timeout_ends_the_command_and_its_children(lab: Lab) -> None:
    host = lab.hosts["h0"]
    with pytest.raises(CommandError, match=r"h0: command still ran after 5 s") as caught:
        host.run(["sh", "-c", "echo waiting >&2; sleep 4321 & wait"], timeout_s=5)  # it has that long to begin
    assert "| waiting" in str(caught.value)
    until(lambda: "4321" not in host.run(["ps", "ax"]).stdout)


def test_large_outputs_do_not_block(lab: Lab) -> None:
    result = lab.hosts["h0"].run(["sh", "-c", "seq 1 300000; seq 1 300000 >&2"], timeout_s=20)
    assert result.stdout.endswith("300000\n")
    assert result.stderr == result.stdout
    assert lab.hosts["h0"].run(["wc", "-c"], input="x" * 2_000_000).stdout == "2000000\n"


def test_spawn_streams_signals_and_waits(lab: Lab) -> None:
    process = lab.hosts["h0"].spawn(["sh", "-c", "echo why >&2; echo one; exec sleep 100"])
    assert process.stdout is not None
    assert process.stdout.readline() == b"one\n"
    assert process.poll() is None
    assert Path(f"/proc/{process.pid}/comm").read_text().strip() in {"sh", "sleep"}  # the pid is ours to use
    with pytest.raises(CommandError, match="still runs"):
        process.wait(0.05)
    process.send_signal(signal.SIGSTOP)
    until(lambda: " T " in Path(f"/proc/{process.pid}/stat").read_text())
    process.send_signal(signal.SIGCONT)
    process.terminate()
    assert process.wait(LIMIT_S) == process.poll() == -signal.SIGTERM
    assert process.stderr_tail() == "why"
    process.kill()  # ended already: nothing happens
    process.close()


def test_spawn_redirects(lab: Lab, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        process = lab.hosts["h0"].spawn(["sh", "-c", "echo a; echo b >&2"], stdout=out, stderr=subprocess.STDOUT)
        assert process.wait(LIMIT_S) == 0
        process.close()
        quiet = lab.hosts["h0"].spawn(["sh", "-c", "echo b >&2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert (quiet.wait(LIMIT_S), quiet.stdout, quiet.stderr_tail()) == (0, None, "")
        quiet.close()
    assert (tmp_path / "out").read_text() == "a\nb\n"


def test_events_can_be_written_to_the_own_stdout_by_path(lab: Lab) -> None:
    """How the net library and the bench share one stream (docs/reference/contracts.md)."""
    process = lab.hosts["h0"].spawn(["sh", "-c", "echo a; echo b > /proc/self/fd/1"])
    assert process.stdout is not None
    assert process.stdout.read() == b"a\nb\n"
    assert process.wait(LIMIT_S) == 0
    process.close()


def test_closing_a_process_ends_it_with_its_group(lab: Lab) -> None:
    process = lab.hosts["h0"].spawn(["sh", "-c", "sleep 5432 & echo started; wait"])
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    process.close()
    until(lambda: "5432" not in lab.hosts["h0"].run(["ps", "ax"]).stdout)


def test_many_commands_at_once(lab: Lab) -> None:
    results: list[str] = []

    def work(number: int) -> None:
        for _ in range(10):
            results.append(lab.hosts[f"h{number % 2}"].run(["hostname"], timeout_s=20).stdout)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(results) == ["h0\n"] * 30 + ["h1\n"] * 30


@pytest.mark.alone
def test_a_command_takes_a_few_milliseconds(lab: Lab) -> None:
    times_ms = [lab.switch.run(["ip", "link", "set", "h1-eth1", "up"]).elapsed_s * 1000 for _ in range(20)]
    assert statistics.median(times_ms) < 10


def test_a_cut_cable_is_seen_by_the_host_within_milliseconds(lab: Lab) -> None:
    """By the time the command has ended, about; what who watches waits for a core does not count."""
    watcher = lab.hosts["h1"].spawn([sys.executable, TRAFFIC, "watch"])
    next_line(watcher)
    waited = Waited(watcher.pid)
    index = int(lab.hosts["h1"].read_text("/sys/class/net/eth1/ifindex"))
    for action, expected in (("down", False), ("up", True)):
        waited.look()
        waited_before_ms = waited.ms
        lab.switch.run(["ip", "link", "set", "h1-eth1", action])
        after_ns = time.monotonic_ns()
        event = next_line(watcher)
        while (event["index"], event["carrier"]) != (index, expected):
            event = next_line(watcher)
        assert isinstance(event["t_ns"], int)
        waited.look()
        assert (event["t_ns"] - after_ns) / 1e6 < 100 + waited.ms - waited_before_ms
        assert carrier(lab.hosts["h1"], "eth1") is expected
        assert carrier(lab.hosts["h0"], "eth1")  # the peer's own cable is whole: it must find out by other means
    watcher.close()


@pytest.fixture(scope="module")
def echoes(lab: Lab) -> Iterator[None]:
    echo = lab.hosts["h1"].spawn([sys.executable, TRAFFIC, "echo", "0.0.0.0", "5001"])
    next_line(echo)
    yield
    echo.close()


def reaches(host: NamespaceHost, device: str, address: str, *, wanted: bool = True) -> bool:
    """An answer that is wanted may be late; one that is not must not come soon."""
    limit_s = LIMIT_S if wanted else 0.5
    argv = [sys.executable, TRAFFIC, "reach", device, address, "5001", str(limit_s)]
    process = host.run(argv, timeout_s=limit_s + LIMIT_S)
    return bool(json.loads(process.stdout)["answered"])


@pytest.mark.parametrize("device", ["eth0", "eth1", "mgmt0"])
@pytest.mark.usefixtures("echoes")
def test_a_nic_reaches_its_own_rail_only(lab: Lab, device: str) -> None:
    addresses = {"eth0": "10.1.0.2", "eth1": "10.2.0.2", "mgmt0": "10.250.0.2"}
    host = lab.hosts["h0"]
    reached = {nic for nic, address in addresses.items() if reaches(host, device, address, wanted=nic == device)}
    assert reached == {device}


@pytest.mark.usefixtures("echoes")
def test_the_lab_is_cut_off_from_the_machine(lab: Lab) -> None:
    assert lab.hosts["h0"].run(["ip", "route", "show", "default"]).stdout == ""
    assert not reaches(lab.hosts["h0"], "lo", "10.1.0.2", wanted=False)


@pytest.mark.usefixtures("echoes")
@pytest.mark.parametrize(
    "rules",
    [
        'table netdev t { chain c { type filter hook ingress device "h1-eth0" priority 0; drop; }; }',
        'table bridge t { chain c { type filter hook forward priority 0; oifname "h1-eth0" drop; }; }',
    ],
    ids=["netdev", "bridge"],
)
def test_nft_black_holes_a_port_without_carrier_loss(lab: Lab, rules: str) -> None:
    family = rules.split()[1]
    lab.switch.run(["nft", "-f", "-"], input=rules)
    try:
        assert not reaches(lab.hosts["h0"], "eth0", "10.1.0.2", wanted=False)
        assert reaches(lab.hosts["h0"], "eth1", "10.2.0.2")
        assert carrier(lab.hosts["h1"], "eth0")
    finally:
        lab.switch.run(["nft", "delete", "table", family, "t"])
    assert reaches(lab.hosts["h0"], "eth0", "10.1.0.2")


def test_two_labs_do_not_meet(lab: Lab) -> None:
    with Lab.up(Topology(hosts=1, nics=1)) as other:
        assert other.folder != lab.folder
        assert other.hosts["h0"].run(["hostname"]).stdout == "h0\n"
        assert not reaches(other.hosts["h0"], "eth0", "10.1.0.2", wanted=False)
    assert lab.hosts["h0"].run(["true"]).exit_code == 0


def test_names_are_taken_once(lab: Lab) -> None:
    with pytest.raises(UsageError, match=f"a lab named '{lab.name}' is already up"):
        Lab.up(Topology(hosts=1, nics=1), name=lab.name)


def test_a_lab_that_is_gone_says_so() -> None:
    with Lab.up(Topology(hosts=1, nics=1)) as gone:
        host = gone.hosts["h0"]
    with pytest.raises(LabError, match="h0: its lab is not up") as caught:
        host.run(["true"])
    assert caught.value.exit_code == 3


def test_the_inventory_opens_a_lab(tmp_path: Path) -> None:
    file = tmp_path / "my topology.yaml"
    file.write_text("hosts: 2\nnics: 1\nmtu: 1500\n")
    site = parse(f"lab:{file}")
    assert site.bed == "lab"
    with site.open() as bed:
        assert (list(bed.hosts), [nic.name for nic in bed.nics]) == (["h0", "h1"], ["eth0", "eth0"])
        assert bed.switch is not None
        assert bed.hosts["h0"].read_text("/sys/class/net/eth0/mtu") == "1500\n"


def test_four_hosts_with_four_nics_come_up() -> None:
    """How fast: benchmarks/tool_times.py."""
    with Lab.up(Topology.load("default")) as made:
        assert len(made.nics) == 16
