"""Faults: the exact commands, what counts as proof, and that each is undone whatever happens."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from chaos_double import Switch, experiment

from chaos.faults import KINDS, BlackHole, Fault, Flap, LinkDown, catalogue
from chaos.injector import Injector
from chaos.journal import Journal, read
from chaos.launch import PlannedFault
from harness.errors import FaultError
from harness.hosts import LocalHost

PORT = "h1-eth2"

GOLDEN = {
    "link_down": {
        "inject": "ip link set dev h1-eth2 down",
        "revert": "ip link set dev h1-eth2 up",
        "probe": "ip -j link show dev h1-eth2",
    },
    "black_hole": {
        "inject": "nft add table bridge r2cc_h1_eth2 ';' "
        "add chain bridge r2cc_h1_eth2 cut '{ type filter hook forward priority 0 ; }' ';' "
        "add rule bridge r2cc_h1_eth2 cut iifname '\"h1-eth2\"' counter drop ';' "
        "add rule bridge r2cc_h1_eth2 cut oifname '\"h1-eth2\"' counter drop",
        "revert": "nft add table bridge r2cc_h1_eth2 ';' delete table bridge r2cc_h1_eth2",
        "probe": "nft -j list tables",
    },
    "flap": {
        "inject": "ip link set dev h1-eth2 down",
        "revert": "ip link set dev h1-eth2 up",
        "probe": "ip -j link show dev h1-eth2",
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
NFT_OTHER = NFT_CUT.replace('"bridge"', '"inet"')


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_golden_commands(kind: str) -> None:
    (entry,) = [entry for entry in catalogue() if entry["kind"] == kind]
    (port_of_example,) = {"h1-eth2"}
    assert port_of_example == PORT
    assert {name: entry[name] for name in ("inject", "revert", "probe")} == GOLDEN[kind]
    assert entry["requires"] == [str(entry["inject"]).split(maxsplit=1)[0]]


@pytest.mark.parametrize(
    ("fault", "stdout", "active"),
    [
        (LinkDown(PORT), IP_UP, False),
        (LinkDown(PORT), IP_DOWN, True),
        (Flap(PORT), IP_DOWN, True),
        (BlackHole(PORT), NFT_NONE, False),
        (BlackHole(PORT), NFT_CUT, True),
        (BlackHole(PORT), NFT_OTHER, False),
        (BlackHole("h0-eth2"), NFT_CUT, False),
    ],
)
def test_proof(fault: Fault, stdout: str, active: bool) -> None:
    assert fault.is_active(0, stdout) is active


@pytest.mark.parametrize(
    ("fault", "exit_code", "stdout"),
    [(LinkDown(PORT), 1, ""), (LinkDown(PORT), 0, "[]"), (LinkDown(PORT), 0, "[{}]"), (BlackHole(PORT), 1, NFT_CUT)],
)
def test_a_probe_that_said_nothing_proves_nothing(fault: Fault, exit_code: int, stdout: str) -> None:
    with pytest.raises(ValueError, match=r"said nothing|failed"):
        fault.is_active(exit_code, stdout)


class Rig:
    """An injector with one armed fault, on a switch that remembers."""

    def __init__(self, folder: Path, kind: str = "link_down", times: str = "duration_s: 1") -> None:
        self.switch = Switch()
        self.path = folder / "journal.jsonl"
        self.journal = Journal(self.path)
        self.stack = ExitStack()
        self.injector = Injector(self.switch, self.journal, self.stack, lambda message: None)
        spec = experiment(kind=kind, times=times).faults[0]
        self.planned = PlannedFault(spec, LinkDown("h1-eth1"))

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
    monkeypatch.setattr("chaos.injector.CONFIRM_S", 0.05)
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
    second = PlannedFault(rig.planned.spec.model_copy(update={"id": "f1"}), rig.planned.fault)
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
    for kind in KINDS.values():
        fault = kind(odd)
        assert all(
            ";" not in word or word in (";", odd, f'"{odd}"') or word.startswith("{ ") for word in fault.inject()
        )
    assert BlackHole(odd).table.replace("_", "").isalnum()
    echoed = LocalHost().run(["printf", "%s\n", *LinkDown(odd).inject()]).stdout.splitlines()
    assert odd in echoed
    assert json.loads(NFT_CUT)["nftables"]
