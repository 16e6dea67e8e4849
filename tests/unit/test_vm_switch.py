"""Faults as experiments inject them, against the vm lab's switch: the same commands as on a Linux switch."""

from __future__ import annotations

import copy
import json
from typing import cast

import pytest
from vm_double import FakeMonitor, FakeWire

from chaos.faults.fault import Fault
from chaos.faults.kinds.rate import Rate
from chaos.faults.registry import spec_of
from chaos.faults.steps import Command, Step
from harness.hosts import Result
from harness.sites.vm import VmSite
from harness.vmlab.linux_words import Tables
from harness.vmlab.monitor import Monitor
from harness.vmlab.shape import Shape
from harness.vmlab.switch import Switch
from harness.vmlab.wire import WireControl

WAYS = ("from", "to")


class Rig:
    def __init__(self) -> None:
        self.wire, self.monitor = FakeWire(), FakeMonitor()
        monitors = {host: cast(Monitor, self.monitor) for host in ("h0", "h1")}
        self.switch = Switch(Shape(hosts=2, nics=2), cast(WireControl, self.wire), monitors, {})

    def ok(self, *argv: str, stdin: str = "") -> str:
        code, stdout, stderr = self.switch.run(argv, stdin)
        assert (code, stderr) == (0, "")
        return stdout

    def refused(self, *argv: str, stdin: str = "") -> str:
        code, stdout, stderr = self.switch.run(argv, stdin)
        assert (code, stdout) == (2, "")
        return stderr


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_link_goes_down_and_up_as_on_linux(rig: Rig) -> None:
    show = ("ip", "-j", "link", "show", "dev", "h1-eth1")
    assert json.loads(rig.ok(*show)) == [{"ifname": "h1-eth1", "flags": ["UP"]}]
    rig.ok("ip", "link", "set", "dev", "h1-eth1", "down")
    assert json.loads(rig.ok(*show)) == [{"ifname": "h1-eth1", "flags": []}]
    rig.ok("ip", "link", "set", "dev", "h1-eth1", "up")
    assert json.loads(rig.ok(*show)) == [{"ifname": "h1-eth1", "flags": ["UP"]}]
    assert rig.monitor.asked == [("set_link", "nic-eth1", False), ("set_link", "nic-eth1", True)]


def test_the_network_to_our_own_sshd_is_cut_only_where_there_is_one(rig: Rig) -> None:
    assert "no port h1-ssh0" in rig.refused("link", "h1-ssh0", "down")
    rig.switch.shape = Shape(hosts=2, nics=2, ssh=True)
    rig.ok("link", "h1-ssh0", "down")
    assert rig.monitor.asked == [("set_link", "nic-ssh0", False)]
    assert "no port h2-ssh0" in rig.refused("link", "h2-ssh0", "down")
    assert "no port h1-ssh0" in rig.refused("nft", *black_hole("t", "h1-ssh0")[1:])


def test_a_batch_takes_a_whole_rail(rig: Rig) -> None:
    rig.ok("ip", "-batch", "-", stdin="link set dev h0-eth1 down\nlink set dev h1-eth1 down\n")
    assert rig.switch.links_down == {"h0-eth1", "h1-eth1"}
    assert '{"ifname": "h0-eth0", "flags": ["UP"]}' in rig.ok("ip", "-j", "link", "show")


def black_hole(table: str, port: str) -> list[str]:
    """The transaction that an experiment's black hole is."""
    chain = ["add", "chain", "bridge", table, "cut", "{ type filter hook forward priority 0 ; }"]
    words = ["nft", "add", "table", "bridge", table, ";", *chain]
    for way in ("iifname", "oifname"):
        words += [";", "add", "rule", "bridge", table, "cut", way, f'"{port}"', "counter", "drop"]
    return words


def test_a_black_hole_is_told_to_the_wire_and_undone(rig: Rig) -> None:
    revert = ["nft", "add", "table", "bridge", "t", ";", "delete", "table", "bridge", "t"]
    rig.ok(*revert)
    assert rig.wire.asked == []
    rig.ok(*black_hole("t", "h1-eth1"))
    tables = json.loads(rig.ok("nft", "-j", "list", "tables"))
    assert tables == {"nftables": [{"table": {"family": "bridge", "name": "t"}}]}
    assert [line for line in rig.wire.asked if "drop" in line] == [f"set h1-eth1 {way} drop on" for way in WAYS]
    rig.wire.asked.clear()
    rig.ok(*revert)
    assert json.loads(rig.ok("nft", "-j", "list", "tables")) == {"nftables": []}
    assert [line for line in rig.wire.asked if "drop" in line] == [f"set h1-eth1 {way} drop off" for way in WAYS]


def loss(table: str, port: str, way: str, lost: int) -> list[str]:
    rule = ["add", "rule", "bridge", table, "cut", way, f'"{port}"', "numgen", "random", "mod", "100", "<", str(lost)]
    return ["nft", "add", "table", "bridge", table, ";", *rule, "counter", "drop"]


def test_two_losses_in_a_row_add_up_as_they_would(rig: Rig) -> None:
    rig.ok(*loss("a", "h0-eth0", "iifname", 50))
    rig.ok(*loss("b", "h0-eth0", "iifname", 20))
    assert rig.wire.asked[-1] == "set h0-eth0 from loss 0.6"
    rig.ok("nft", "delete", "table", "bridge", "a")
    assert rig.wire.asked[-1] == "set h0-eth0 from loss 0.2"


@pytest.mark.parametrize(
    ("match", "told"),
    [
        ("meta l4proto tcp", {"tcp on", "udp off", "above 0"}),
        ("meta l4proto udp", {"tcp off", "udp on", "above 0"}),
        ("meta length > 1500", {"tcp off", "udp off", "above 1500"}),
    ],
)
def test_what_is_lost_by_protocol_or_length_is_told_to_the_wire_and_undone(
    rig: Rig, match: str, told: set[str]
) -> None:
    rule = ["add", "rule", "bridge", "t", "cut", "iifname", '"h1-eth1"', *match.split(), "counter", "drop"]
    rig.ok("nft", "add", "table", "bridge", "t", ";", *rule)
    everything = {*told, "drop off", "loss 0"}
    assert set(rig.wire.asked) == {f"set h1-eth1 from {each}" for each in everything}
    rig.wire.asked.clear()
    rig.ok("nft", "add", "table", "bridge", "t", ";", "delete", "table", "bridge", "t")
    nothing = {"tcp off", "udp off", "above 0", "drop off", "loss 0"}
    assert set(rig.wire.asked) == {f"set h1-eth1 from {each}" for each in nothing}


def test_the_wires_frames_are_packets_already(rig: Rig) -> None:
    """What a Linux switch is told so that it cuts what TCP handed over changes nothing here."""
    rig.ok("ip", "-batch", "-", stdin="link set dev h0-eth1 gso_max_segs 1\nlink set dev h1-eth1 gso_max_segs 1\n")
    assert "no port h9-eth1" in rig.refused("ip", "-batch", "-", stdin="link set dev h9-eth1 gso_max_segs 1\n")
    assert (rig.wire.asked, rig.monitor.asked) == ([], [])
    assert {"ifname": "h1-eth1", "flags": ["UP"]} in json.loads(rig.ok("ip", "-j", "-d", "link", "show"))


@pytest.mark.parametrize(
    "argv",
    [
        ["nft", "flush", "ruleset"],
        ["nft", "add", "rule", "bridge", "none", "cut", "iifname", '"h0-eth0"', "counter", "drop"],
        ["ip", "link", "set", "dev", "h0-eth0", "mtu", "1500"],
        ["ip", "addr", "show"],
        ["ip", "link", "set", "dev", "h9-eth0", "down"],
        ["tc", "-j", "qdisc", "show"],
        ["tc", "qdisc", "del", "dev", "h0-eth0", "root"],
    ],
    ids=" ".join,
)
def test_everything_else_is_refused(rig: Rig, argv: list[str]) -> None:
    assert rig.refused(*argv)
    assert (rig.wire.asked, rig.monitor.asked) == ([], [])


def test_half_a_transaction_is_none() -> None:
    tables = Tables()
    with pytest.raises(ValueError, match="flush"):
        tables.apply([*loss("a", "h0-eth0", "iifname", 50), ";", "flush", "ruleset"])
    assert tables.rules == {}


class Stages(FakeWire):
    """A wire that keeps what it is told of rates, as r2cc_wire does."""

    def __init__(self, ports: list[str], rate_bps: int) -> None:
        super().__init__()
        self.state = {
            port: {way: {"rate_bps": rate_bps, "burst": 131072, "limit": 262144} for way in WAYS} for port in ports
        }

    def ask(self, request: str) -> str:
        _, port, way, name, value = request.split()
        self.state[port][way][{"rate": "rate_bps"}.get(name, name)] = int(value)
        return super().ask(request)

    def show(self) -> dict[str, dict[str, dict[str, int]]]:
        return self.state


def slowed(rig: Rig, rate_bps: int) -> Fault:
    """A rate fault of h1's eth1 that has asked the switch, and the guest, which has no bucket."""
    rig.switch.wire = cast(WireControl, Stages(["h1-eth0", "h1-eth1"], rate_bps))
    nic = next(nic for nic in VmSite("vm", rig.switch.shape).planned().nics if nic.switch_port == "h1-eth1")
    words = {"id": "f", "kind": "rate", "host": "h1", "nic": "eth1", "at": {"iteration": 3}, "duration_s": 1.0}
    fault = Rate(cast(Rate.Settings, spec_of({**words, "fraction": 0.25})), (nic,), "h1")
    return fault.knowing(answers(rig, fault.facts()))


def answers(rig: Rig, steps: list[Step]) -> list[Result]:
    found = []
    for step in steps:
        assert isinstance(step, Command)
        found.append(
            Result(step.argv, 0, rig.ok(*step.argv, stdin=step.input) if step.on == "switch" else "[]", "", 0.0)
        )
    return found


def test_a_slow_nic_is_slow_both_ways_and_goes_back_exactly(rig: Rig) -> None:
    """The switch holds a guest's NIC to its rate in both directions; the guest itself has nothing to change."""
    fault = slowed(rig, 20_000_000)
    slow, other = (rig.switch.wire.show()[port] for port in ("h1-eth1", "h1-eth0"))
    before = copy.deepcopy(slow)
    assert fault.is_active(answers(rig, fault.probe())) is False
    answers(rig, fault.inject())
    assert [slow[way]["rate_bps"] for way in WAYS] == [5_000_000, 5_000_000]
    assert other == before
    assert fault.is_active(answers(rig, fault.probe())) is True
    rig.ok("tc", "-batch", "-", stdin="qdisc change dev h1-eth1 root tbf rate 2500000bps burst 131072b limit 262144b\n")
    assert fault.is_active(answers(rig, fault.probe())) is None, "one direction is as it was"
    answers(rig, fault.revert())
    assert fault.is_active(answers(rig, fault.probe())) is False
    assert slow == before


def test_a_nic_without_a_rate_cannot_be_slower(rig: Rig) -> None:
    with pytest.raises(ValueError, match="switch h1-eth1 has no token bucket to change: its topology gives no rate"):
        slowed(rig, 0)


def test_a_batch_of_buckets_is_taken_whole_or_not_at_all(rig: Rig) -> None:
    line = "qdisc change dev {} root tbf rate 100bps burst 9000b limit 1b\n"
    assert "no port h9-eth1" in rig.refused(
        "tc", "-batch", "-", stdin=line.format("h1-eth1") + line.format("h9-eth1-from")
    )
    assert "not understood" in rig.refused(
        "tc", "-batch", "-", stdin=line.format("h1-eth1") + "qdisc del dev h1-eth1 root\n"
    )
    assert rig.wire.asked == []
