"""Faults: the exact commands, what counts as proof, and that each is undone whatever happens."""

from __future__ import annotations

import json
import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from chaos_double import Switch, experiment
from hypothesis import given
from hypothesis import strategies as st

from chaos.experiment.planned import PlannedFault
from chaos.faults.catalogue import catalogue, example
from chaos.faults.fault import Fault, by_host
from chaos.faults.kinds.drops import BlackHole
from chaos.faults.kinds.links import Flap, LinkDown
from chaos.faults.kinds.load import HELPER
from chaos.faults.kinds.ranks import clock_file
from chaos.faults.kinds.rate import Rate
from chaos.faults.parts.bucket import Bucket, slowed, ticks
from chaos.faults.registry import fault_of, kinds
from chaos.faults.spec import FaultSpec
from chaos.faults.steps import Command
from chaos.record.journal import Journal, read
from chaos.run.actors import Actors
from chaos.run.injector import Injector
from harness.errors import FaultError
from harness.hosts import LocalHost, Result
from harness.sites.site import PlannedNic

PORT = "h1-eth2"

NFT_HEAD = (
    "nft add table bridge r2cc_h1_eth2 ';' "
    "add chain bridge r2cc_h1_eth2 cut '{ type filter hook forward priority 0 ; }' ';' "
)
NFT_TAIL = {
    "revert": "nft add table bridge r2cc_h1_eth2 ';' delete table bridge r2cc_h1_eth2",
    "probe": "nft -j list tables",
}
IN = "add rule bridge r2cc_h1_eth2 cut oifname '\"h1-eth2\"'"
OUT = "add rule bridge r2cc_h1_eth2 cut iifname '\"h1-eth2\"'"
ONE_PERCENT = "numgen random mod 100000 '<' 1000"
LINK = {
    "inject": "ip link set dev h1-eth2 down",
    "revert": "ip link set dev h1-eth2 up",
    "probe": "ip -j link show dev h1-eth2",
}
TBF = (
    "tc -batch - <<< 'qdisc change dev h1-eth2 root tbf rate {0}bps burst {1}b limit 250000b' && "
    "tc -batch - <<< 'qdisc change dev eth2 root tbf rate {0}bps burst {1}b limit 250000b'"
)
SEGMENTS = (
    "ip -batch - <<< 'link set dev h1-eth2 gso_max_segs {0}' && ip -batch - <<< 'link set dev eth2 gso_max_segs {0}'"
)
PYTHON = f"python3 -IS {shlex.quote(str(HELPER))}"
GOLDEN = {
    "link_down": LINK,
    "flap": LINK,
    "rail_down": {
        "inject": "ip -batch - <<< 'link set dev h0-eth2 down\nlink set dev h1-eth2 down'",
        "revert": "ip -batch - <<< 'link set dev h0-eth2 up\nlink set dev h1-eth2 up'",
        "probe": "ip -j link show",
    },
    "address_removed": {
        "inject": "ip -batch - <<< 'addr del 10.3.0.2/24 dev eth2'",
        "revert": "ip -batch - <<< 'addr replace 10.3.0.2/24 dev eth2'",
        "probe": "ip -j addr show",
    },
    "black_hole": {"inject": f"{NFT_HEAD}{OUT} counter drop ';' {IN} counter drop", **NFT_TAIL},
    "one_way": {"inject": f"{NFT_HEAD}{IN} counter drop", **NFT_TAIL},
    "loss": {"inject": f"{NFT_HEAD}{OUT} {ONE_PERCENT} counter drop ';' {IN} {ONE_PERCENT} counter drop", **NFT_TAIL},
    "tcp_lost": {
        "inject": f"{NFT_HEAD}{OUT} meta l4proto tcp counter drop ';' {IN} meta l4proto tcp counter drop",
        **NFT_TAIL,
    },
    "udp_lost": {
        "inject": f"{NFT_HEAD}{OUT} meta l4proto udp counter drop ';' {IN} meta l4proto udp counter drop",
        **NFT_TAIL,
    },
    "big_packets_lost": {
        "inject": (
            f"{SEGMENTS.format(1)} && {NFT_HEAD}{OUT} meta length '>' 1500 counter drop && "
            "nft add table netdev r2cc_eth2 ';' add chain netdev r2cc_eth2 ingress0 "
            """'{ type filter hook ingress device "eth2" priority -400 ; }' ';' """
            "add rule netdev r2cc_eth2 ingress0 meta length '>' 1500 counter drop"
        ),
        "revert": (
            f"{NFT_TAIL['revert']} && nft add table netdev r2cc_eth2 ';' delete table netdev r2cc_eth2 && "
            f"{SEGMENTS.format(65535)}"
        ),
        "probe": "nft -j list tables && nft -j list tables",
    },
    "rate": {
        "inject": TBF.format(62500000, 66000),
        "revert": TBF.format(125000000, 131072),
        "probe": "tc -j -d -raw qdisc show && tc -j -d -raw qdisc show",
    },
    "queue_full": {
        "inject": f"{PYTHON} fill --from 10.3.0.2 --seconds 6 &",
        "revert": "kill f-0",
        "probe": "is f-0 running?",
    },
    "side_flood": {"inject": f"{PYTHON} flood --seconds 6 &", "revert": "kill f-0", "probe": "is f-0 running?"},
    "busy_cores": {
        "inject": f"{PYTHON} burn --seconds 6 & && {PYTHON} burn --seconds 6 &",
        "revert": "kill f-0 && kill f-1",
        "probe": "is f-0 running? && is f-1 running?",
    },
    "stop": {"inject": "kill -STOP RANK1", "revert": "kill -CONT RANK1", "probe": "cat /proc/RANK1/stat"},
    "kill": {"inject": "kill -KILL RANK1", "revert": "(nothing)", "probe": "cat /proc/RANK1/stat"},
    "late": {"inject": "(nothing)", "revert": "(nothing)", "probe": "(nothing)"},
    "clock_jump": {
        "inject": f"tee {clock_file(1)} <<< 3600",
        "revert": f"rm -f -- {clock_file(1)}",
        "probe": f"cat -- {clock_file(1)} && cat /proc/RANK1/maps",
    },
}

# Recorded: iproute2 6.1, nftables 1.0.6, Linux 6.18
IP_UP = (
    '[{"ifindex":3,"link_index":2,"ifname":"h1-eth2","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"mtu":9000,'
    '"qdisc":"tbf","master":"rail2","operstate":"UP","linkmode":"DEFAULT","group":"default","txqlen":1000}]'
)
IP_DOWN = (
    '[{"ifindex":3,"link_index":2,"ifname":"h1-eth2","flags":["BROADCAST","MULTICAST"],"mtu":9000,'
    '"qdisc":"tbf","master":"rail2","operstate":"DOWN","linkmode":"DEFAULT","group":"default","txqlen":1000}]'
)
NFT_NONE = (
    '{"nftables": [{"metainfo": {"version": "1.0.6", "release_name": "Lester Gooch #5", "json_schema_version": 1}}]}'
)
NFT_CUT = NFT_NONE[:-2] + ', {"table": {"family": "bridge", "name": "r2cc_h1_eth2", "handle": 1}}]}'
NFT_HOST = NFT_NONE[:-2] + ', {"table": {"family": "netdev", "name": "r2cc_eth2", "handle": 1}}]}'
NFT_UDP = NFT_NONE[:-2] + ', {"table": {"family": "inet", "name": "r2cc_udp", "handle": 1}}]}'
NFT_OTHER = NFT_CUT.replace('"bridge"', '"inet"')


TC = (
    '[{"kind":"noqueue","handle":"0:","dev":"lo","root":true,"refcnt":2,"options":{}},'
    '{"kind":"tbf","handle":"1:","dev":"%s","root":true,"refcnt":3,"options":{"rate":%d,"burst":"131000b/1","mpu":0,'
    '"burst_raw":"%x","lat":1,"limit":131072,"linklayer":"ethernet"}}]'
)
STAT = "4711 (r2cc) bench) %s 1 4711 4711 0 -1"


def said(*texts: str, exit_code: int = 0) -> list[Result]:
    return [Result((), exit_code, text) for text in texts]


def on_ports(kind: str, *nics: str) -> Any:
    """A kind on some of the NICs of hosts h0 and h1."""
    spec = example(kind).spec.model_copy(update={"host": "", "nic": "", "nics": nics})  # type: ignore[attr-defined]
    bed = [PlannedNic(f"h{h}", f"eth{n}", f"10.{n + 1}.0.{h + 1}", f"h{h}-eth{n}") for h in range(2) for n in range(4)]
    wanted = spec.targets(by_host(bed))
    return fault_of(spec, [nic for nic in bed if (nic.host, nic.name) in wanted], "h1")


def test_every_kind_has_golden_commands() -> None:
    """The others act inside hosts on every bed: tests/unit/test_faults_golden.py."""
    inside = {"delay", "corrupt", "nic_gone", "qp_error", "side_channel_lost", "side_channel_late", "controller_lost"}
    inside |= {"socket_error", "verbs_error", "lost_completion", "slow_qp", "async_event"}
    assert set(GOLDEN) | inside == set(kinds())


@pytest.mark.parametrize("kind", sorted(GOLDEN))
def test_golden_commands(kind: str) -> None:
    (entry,) = [entry for entry in catalogue() if entry.kind == kind]
    assert {name: getattr(entry, name) for name in ("inject", "revert", "probe")} == GOLDEN[kind]
    assert entry.requires or kind in ("stop", "kill", "late")


def test_several_nics_go_in_one_command() -> None:
    """One after the other they would not be gone at once: the first would be missed before the last is cut."""
    down, hole, slow = (on_ports(kind, "h0:*", "h1:eth3") for kind in ("link_down", "black_hole", "rate"))
    (command,) = down.inject()
    assert command.input.count("\n") == 5
    (command,) = hole.inject()
    assert command.argv.count("rule") == 10
    assert [step.on for step in slow.inject()] == ["switch", "h0", "h1"]
    assert [step.input.count("\n") for step in slow.inject()] == [5, 4, 1]


@pytest.mark.parametrize(
    ("fault", "texts", "active"),
    [
        (example("link_down"), [IP_UP], False),
        (example("link_down"), [IP_DOWN], True),
        (example("flap"), [IP_DOWN], True),
        (on_ports("link_down", "*:eth2"), [f"[{IP_DOWN[1:-1]},{IP_UP[1:-1].replace('h1', 'h0')}]"], None),
        (example("black_hole"), [NFT_NONE], False),
        (example("black_hole"), [NFT_CUT], True),
        (example("loss"), [NFT_CUT], True),
        (example("black_hole"), [NFT_OTHER], False),
        (example("tcp_lost"), [NFT_CUT], True),
        (example("big_packets_lost"), [NFT_CUT, NFT_HOST], True),
        (example("big_packets_lost"), [NFT_NONE, NFT_NONE], False),
        (example("big_packets_lost"), [NFT_CUT, NFT_NONE], None),
        (example("udp_lost", inside=True, management=True), [NFT_HOST, NFT_UDP], True),
        (example("udp_lost", inside=True, management=True), [NFT_HOST, NFT_NONE], None),
        (example("udp_lost", inside=True, management=True), [NFT_NONE, NFT_NONE], False),
        (on_ports("black_hole", "h0:eth2"), [NFT_CUT], False),
        (example("stop"), [STAT % "T"], True),
        (example("stop"), [STAT % "S"], False),
        (example("kill"), [STAT % "S"], False),
        (example("clock_jump"), ["3600\n", "7f00 /x/libr2cc_clock.so"], True),
        (example("clock_jump"), ["", "7f00 /x/libr2cc_clock.so"], False),
        (example("busy_cores"), ["running", "running"], True),
        (example("busy_cores"), ["running", ""], None),
        (example("busy_cores"), ["", ""], False),
    ],
)
def test_proof(fault: Fault, texts: list[str], active: bool | None) -> None:
    assert fault.is_active(said(*texts)) is active


@pytest.mark.parametrize(
    ("fault", "answers"),
    [
        (example("link_down"), said("", exit_code=1)),
        (example("link_down"), said("[]")),
        (example("link_down"), said("[{}]")),
        (example("rail_down"), said(IP_DOWN)),
        (example("black_hole"), said(NFT_CUT, exit_code=1)),
        (example("stop"), said("", exit_code=1)),
        (example("clock_jump"), said("3600", "7f00 /x/libc.so")),
        (example("rate"), said("[]", "[]")),
    ],
)
def test_a_probe_that_said_nothing_proves_nothing(fault: Fault, answers: list[Result]) -> None:
    with pytest.raises(ValueError, match=r"said nothing|failed|does not run|runs without|has no token bucket"):
        fault.is_active(answers)


def test_a_rank_that_is_gone_is_killed() -> None:
    assert example("kill").is_active(said("", exit_code=1)) is True


def test_a_rate_goes_back_to_exactly_what_it_was() -> None:
    """Recorded from the lab: bytes are rounded in what tc prints, only ticks are exact."""
    before = said(TC % ("h1-eth2", 62_500_000, 0x7FFD), TC % ("eth2", 62_500_000, 0x7FFD))
    fault = example("rate").knowing(before)
    assert isinstance(fault, Rate)
    assert all("rate 62500000bps burst 131060b limit 131072b" in step.text() for step in fault.revert())
    assert ticks(131060, 62_500_000) == 0x7FFD
    assert fault.is_active(before) is False
    slow = said(
        TC % ("h1-eth2", 31_250_000, ticks(66_000, 31_250_000)), TC % ("eth2", 31_250_000, ticks(66_000, 31_250_000))
    )
    assert fault.is_active(slow) is True
    assert fault.is_active([slow[0], before[1]]) is None
    assert fault.is_active(said(TC % ("h1-eth2", 62_500_000, 0x7000), before[1].stdout)) is None, "a smaller bucket"


@given(rate=st.integers(1_000_000, 4_000_000_000), burst=st.integers(131_072, 4_000_000))
def test_a_bucket_survives_being_told_to_tc_in_bytes(rate: int, burst: int) -> None:
    bucket = Bucket(rate, ticks(burst, rate), 250_000)
    told = Bucket(rate, ticks(bucket.burst_bytes, rate), 250_000)
    assert told.same_as(bucket)
    assert not slowed(bucket, 0.5).same_as(bucket)
    assert slowed(bucket, 0.001).burst_bytes >= 65_999, "a packet that waits must fit, or nothing ever passes"


def planned(spec: FaultSpec) -> PlannedFault:
    nic = PlannedNic("h1", "eth1", "10.2.0.2", "h1-eth1")
    return PlannedFault(spec, LinkDown(spec, (nic,), "h1"), (("h1", "eth1"),), "h1")


class Rig:
    """An injector with one armed fault, on a switch that remembers."""

    def __init__(self, folder: Path, kind: str = "link_down", times: str = "duration_s: 1") -> None:
        self.switch = Switch()
        self.path = folder / "journal.jsonl"
        self.journal = Journal(self.path)
        self.stack = ExitStack()
        actors = Actors(self.switch, {}, lambda rank: self.rank)
        self.injector = Injector(actors, self.journal, self.stack, lambda message: None)
        spec = experiment(kind=kind, times=times).faults[0]
        self.planned = planned(spec)

    @property
    def rank(self) -> Any:
        raise FaultError("no rank runs")

    def phases(self) -> list[str]:
        return [line["phase"] for line in read(self.path) if line["event"] == "fault"]


def test_every_phase_is_proved_and_journalled(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    with rig.stack:
        rig.injector.arm(rig.planned)
        issued_ns = rig.injector.strike("f0", 0)
        assert rig.switch.down
        rig.injector.heal("f0")
        rig.injector.heal("f0")
    assert not rig.switch.down
    assert rig.phases() == ["armed", "injected", "active", "reverted", "verified"]
    lines = list(read(rig.path))
    injected = next(line for line in lines if line.get("phase") == "injected")
    assert injected["before_ns"] == issued_ns <= injected["after_ns"] <= injected["t_ns"]
    assert [line["holds"] for line in lines if line["event"] == "probe"] == [True, True]
    assert [line["argv"][-1] for line in lines if line["event"] == "command"] == ["down", "up"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, SystemExit])
def test_undone_after_any_exception(tmp_path: Path, error: type[BaseException]) -> None:
    rig = Rig(tmp_path)
    with pytest.raises(error), rig.stack:
        rig.injector.arm(rig.planned)
        rig.injector.strike("f0", 0)
        raise error
    assert not rig.switch.down
    assert rig.phases()[-1] == "verified"


def test_undone_even_when_the_injection_itself_failed(tmp_path: Path) -> None:
    """A command that reports an error may have done half its work."""
    rig = Rig(tmp_path)
    with pytest.raises(FaultError, match="Operation not permitted"), rig.stack:
        rig.injector.arm(rig.planned)
        rig.switch.broken = "fails"
        rig.stack.callback(setattr, rig.switch, "broken", "")
        rig.injector.strike("f0", 0)
    assert ("ip", "link", "set", "dev", "h1-eth1", "up") in rig.switch.commands


def test_a_fault_that_did_not_take_is_an_error_not_a_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.run.injector.CONFIRM_S", 0.05)
    rig = Rig(tmp_path)
    with pytest.raises(FaultError, match="not active") as caught, rig.stack:
        rig.injector.arm(rig.planned)
        rig.switch.broken = "ignores"
        rig.injector.strike("f0", 0)
    assert caught.value.exit_code == 3
    assert "active" not in rig.phases()


def test_what_is_broken_beforehand_is_refused(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.switch.down = True
    with pytest.raises(FaultError, match="broken before the fault"):
        rig.injector.arm(rig.planned)


def test_a_switch_that_cannot_be_asked_names_what_is_needed(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.switch.broken = "gone"
    with pytest.raises(FaultError) as caught:
        rig.injector.arm(rig.planned)
    assert "the lab went away" in caught.value.message
    assert "ip" in str(caught.value.hint)


def test_two_faults_never_break_one_nic_at_a_time(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    second = planned(rig.planned.spec.model_copy(update={"id": "f1"}))
    with rig.stack:
        rig.injector.arm(rig.planned)
        rig.injector.arm(second)
        rig.injector.strike("f0", 0)
        with pytest.raises(FaultError, match="f1 would strike h1 eth1 while f0 still breaks it"):
            rig.injector.strike("f1", 0)


def test_a_flap_says_which_cycle_and_what_never_struck_is_missed(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "flap", "times: 2, down_s: 1.0, up_s: 1.0")
    with rig.stack:
        rig.injector.arm(rig.planned)
        assert rig.injector.miss() == ["f0"]
        for cycle in (0, 1):
            rig.injector.strike("f0", cycle)
            rig.injector.heal("f0")
    cycles = [(line["phase"], line["cycle"]) for line in read(rig.path) if line["event"] == "fault"]
    assert cycles[1] == ("missed", 0)
    assert cycles[-1] == ("verified", 1)


def test_the_commands_are_words_and_never_a_shell_line() -> None:
    """A port name with a shell's or nft's special characters stays one word, and no table name is made of them."""
    odd = 'x; rm -rf "$HOME"'
    nic = PlannedNic("h1", "eth2", "10.3.0.2", odd)
    for kind in ("link_down", "black_hole", "one_way", "loss"):
        fault = fault_of(example(kind).spec, [nic], "h1")  # type: ignore[attr-defined]
        for step in fault.inject():
            assert isinstance(step, Command)
            assert all(";" not in word or word in (";", odd, f'"{odd}"') or word.startswith("{ ") for word in step.argv)
    hole = fault_of(example("black_hole").spec, [nic], "h1")  # type: ignore[attr-defined]
    assert isinstance(hole, BlackHole)
    assert hole.table.replace("_", "").isalnum()
    (step,) = Flap(example("flap").spec, (nic,)).inject()  # type: ignore[attr-defined]
    assert isinstance(step, Command)
    echoed = LocalHost().run(["printf", "%s\n", *step.argv]).stdout.splitlines()
    assert odd in echoed
    assert json.loads(NFT_CUT)["nftables"]
