"""The dead-man switch on this machine, as another user whose state is below HOME: real timers, real locks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from host_double import FakeHost
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import words_of
from waits import until

from chaos.deadman import leftovers
from chaos.deadman.about import about, rebuilt
from chaos.deadman.panic import exit_code, panic
from chaos.deadman.record import Undo, began_at, command, continue_step, parse_list
from chaos.deadman.switch import Armed, DeadMan, records
from chaos.experiment.planned import PlannedFault
from chaos.faults.example import ExampleNic
from chaos.faults.kinds.ranks import ClockJump
from chaos.faults.registry import spec_of
from chaos.faults.spec import FaultSpec
from chaos.faults.steps import SWITCH, Command, Signal, Stop
from chaos.record.journal import Journal, read
from chaos.run.actors import Actors
from chaos.run.injector import Injector
from harness.errors import FaultError, SshError
from harness.hosts import LocalHost, Result

PORTS = Result((), 0, "32768\t60999\n")


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs that stand before the machine's own: `id` says that we are not root."""
    tools = tmp_path / "bin"
    tools.mkdir()
    program(tools / "id", "echo 1000")
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    return tools


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def armed(steps: list[Command], ttl_s: float, told: dict[str, Any] | None = None) -> tuple[DeadMan, Armed]:
    deadman = DeadMan({"n1": LocalHost("n1")}, margin_s=ttl_s)
    record = deadman.prepare("f0", steps, 0.0)
    assert record is not None
    deadman.arm(record, steps, told or {})
    return deadman, record


def touch(path: Path) -> list[Command]:
    return [Command("n1", ("touch", str(path)))]


@given(words=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",))), max_size=4))
@settings(max_examples=40, deadline=None)
def test_words_of_a_step_are_never_more_than_words(words: list[str]) -> None:
    echo = Command("n1", ("printf", "%s\\n", *words))
    typed = Command("n1", ("cat",), "".join(words))
    script = Undo("f0", (echo, typed), {"x": "".join(words)}).script()
    steps = script.partition("undo() {")[2].partition("  return $bad")[0]
    done = subprocess.run(["sh", "-c", 'run() { shift; "$@"; }' + steps], capture_output=True, check=True)
    assert done.stdout.decode() == "".join(f"{word}\n" for word in words or [""]) + "".join(words)
    assert script.splitlines()[1].startswith("# about: {")


def test_a_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        Undo("f0", (Command("n1", ("echo", "a\0b")),)).script()


def test_it_fires_once_and_says_so(tmp_path: Path) -> None:
    out = tmp_path / "it's $HOME `x`"
    deadman, record = armed([Command("n1", ("tee", "-a", str(out)), "a 'b'\n;c")], 60.0)
    assert record.timers == {"n1": "shell"}
    (found,) = records(LocalHost("n1"))
    assert (found.state, found.timer, found.about["host"]) == ("armed", "shell", "n1")
    assert 0 < found.left_s <= 60.0
    record.margin_s = 0.0
    deadman.renew(record, 0.1)
    until(lambda: records(LocalHost("n1"))[0].state == "undone")
    assert out.read_text() == "a 'b'\n;c"
    notes = deadman.disarm(record)
    assert "was undone before the controller did it, by timer at 20" in notes[0]
    assert records(LocalHost("n1")) == []
    assert "removed by somebody else" in deadman.disarm(record)[0], "safe to repeat"


def test_disarmed_it_never_fires_and_its_timer_is_gone(tmp_path: Path) -> None:
    deadman, record = armed(touch(tmp_path / "fired"), 60.0)
    (folder,) = tmp_path.glob(".r2cc/run/*/*/armed/*")
    pid = int((folder / "pid").read_text())
    assert (folder.parent.stat().st_mode & 0o777, (folder / "undo.sh").stat().st_mode & 0o077) == (0o700, 0)
    assert deadman.disarm(record) == []
    assert not words_of(pid)
    assert not (tmp_path / "fired").exists()


def test_renewed_it_waits_longer(tmp_path: Path) -> None:
    deadman, record = armed(touch(tmp_path / "fired"), 60.0)
    record.margin_s = 0.0
    deadman.renew(record, 600.0)
    assert 60.0 < records(LocalHost("n1"))[0].left_s <= 600.0
    assert not (tmp_path / "fired").exists()
    deadman.renew(record, 0.1)
    until((tmp_path / "fired").exists)
    until(lambda: records(LocalHost("n1"))[0].state == "undone")
    with pytest.raises(FaultError, match="n1: fired"):
        deadman.renew(record, 1.0)


def test_it_tries_again_when_the_undo_fails(tmp_path: Path, apart: Path) -> None:
    program(
        apart / "mend", f'[ -e "{tmp_path}/ready" ] || {{ : >"{tmp_path}/ready"; exit 1; }}; : >"{tmp_path}/mended"'
    )
    armed([Command("n1", ("mend",))], 1.0)
    until((tmp_path / "mended").exists)
    assert (tmp_path / "ready").exists(), "the first try did not fail"
    until(lambda: records(LocalHost("n1"))[0].state == "undone")


def test_controller_and_timer_never_run_at_once(tmp_path: Path, apart: Path) -> None:
    """Both append where they begin and end; neither may begin between."""
    log = tmp_path / "log"
    program(apart / "slow", f'echo "$1 begins" >>"{log}"; sleep 0.3; echo "$1 ends" >>"{log}"')
    deadman, record = armed([Command("n1", ("slow", "timer"))], 1.0)
    step = deadman.locked(record, Command("n1", ("slow", "controller")), inject=False)
    time.sleep(0.1)
    LocalHost("n1").run(list(step.argv))
    until(lambda: "timer ends" in log.read_text())
    lines = log.read_text().split("\n")
    assert [line.split()[0] for line in lines[0:4:2]] == [line.split()[0] for line in lines[1:4:2]], lines


def test_nothing_is_injected_once_the_time_to_live_is_over(tmp_path: Path) -> None:
    deadman, record = armed(touch(tmp_path / "undone"), 1.0)
    until(lambda: records(LocalHost("n1"))[0].state == "undone")
    step = deadman.locked(record, Command("n1", ("touch", str(tmp_path / "broken"))), inject=True)
    late = LocalHost("n1").run(list(step.argv), check=False)
    assert (late.exit_code, late.stderr) == (1, "it is not armed any more\n")
    deadman.disarm(record)
    assert LocalHost("n1").run(list(step.argv), check=False).exit_code == 1
    assert not (tmp_path / "broken").exists()
    again = deadman.locked(record, touch(tmp_path / "healed")[0], inject=False)
    LocalHost("n1").run(list(again.argv))
    assert (tmp_path / "healed").exists(), "a revert needs no record"


def test_a_stopped_process_goes_on_and_another_one_with_its_number_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "30"], start_new_session=True) as sleeper:
        try:
            sleeper.send_signal(signal.SIGSTOP)
            stat = Path(f"/proc/{sleeper.pid}/stat")
            until(lambda: stat.read_text().split()[2] == "T")
            LocalHost("n1").run(list(continue_step("n1", sleeper.pid, "1").argv))
            assert stat.read_text().split()[2] == "T", "not the one that was meant"
            armed([continue_step("n1", sleeper.pid, began_at(stat.read_text()))], 1.0)
            until(lambda: stat.read_text().split()[2] == "S")
        finally:
            sleeper.kill()


def test_what_came_cut_short_is_not_armed(tmp_path: Path) -> None:
    script = Undo("f0", tuple(touch(tmp_path / "x"))).script()
    cut = LocalHost("n1").run(command("arm", "f0-1", "100"), input=script[:-20], check=False)
    assert (cut.exit_code, "cut short" in cut.stderr) == (1, True)
    assert records(LocalHost("n1")) == []


def test_one_host_that_cannot_be_armed_means_none_is(tmp_path: Path) -> None:
    hosts = {"n1": LocalHost("n1"), "n2": FakeHost("n2").answer("*", exit_code=1, stderr="read-only")}
    deadman = DeadMan(hosts)
    steps = [*touch(tmp_path / "x"), Command("n2", ("true",)), Command(SWITCH, ("true",))]
    record = deadman.prepare("f0", steps, 1.0)
    assert record is not None
    assert record.hosts == ("n1", "n2")
    with pytest.raises(FaultError, match="nothing was injected, for a host cannot be armed: n2: arm: read-only"):
        deadman.arm(record, steps, {})
    assert records(hosts["n1"]) == []
    assert deadman.prepare("f0", [Command(SWITCH, ("true",))], 1.0) is None


def test_systemd_where_it_runs(tmp_path: Path, apart: Path) -> None:
    """The exact command, from a machine whose systemd and root are doubles."""
    said = tmp_path / "said"
    program(apart / "systemd-run", f'printf "%s\\n" "$@" >"{said}"')
    program(apart / "systemctl", f'echo "$*" >>"{said}.ctl"; [ "$1" = stop ] || [ ! -e "{said}.stopped" ]')
    text = command("x")[2].replace("\nsystemd() {", "\nsystemd() { return 0; }\nreal() {")
    host = LocalHost("n1")
    script = Undo("f0", tuple(touch(tmp_path / "x"))).script()
    assert host.run(["sh", "-c", text, "r2cc", "arm", "f0-1", "250"], input=script).stdout == "armed systemd\n"
    (folder,) = tmp_path.glob(".r2cc/run/*/*/armed/f0-1")
    assert said.read_text().split("\n")[:-1] == [
        "--quiet", "--collect", "--unit=r2cc-undo-f0-1", "--on-active=2500ms", "--timer-property=AccuracySec=10ms",
        f"--setenv=PATH={os.environ['PATH']}:/usr/sbin:/sbin", "/bin/sh", str(folder / "undo.sh"), "watch",
    ]  # fmt: skip
    still = host.run(["sh", "-c", text, "r2cc", "disarm", "f0-1"], check=False)
    assert (still.exit_code, "the timer does not end" in still.stderr) == (1, True)
    Path(f"{said}.stopped").touch()
    assert host.run(["sh", "-c", text, "r2cc", "disarm", "f0-1"]).stdout == "disarmed\n"
    assert "stop r2cc-undo-f0-1.timer r2cc-undo-f0-1.service" in Path(f"{said}.ctl").read_text()
    assert not folder.exists()


def jump(folder: Path) -> tuple[FaultSpec, ClockJump]:
    """A fault whose commands are only on the host, with a file of our own."""

    class Here(ClockJump):
        @property
        def file(self) -> str:
            return str(folder / "clock")

        def probe(self) -> Any:
            return super().probe()[:1]

        def is_active(self, answers: Any) -> bool | None:
            return bool(answers[0].exit_code == 0)

    words = {"id": "f0", "kind": "clock_jump", "rank": 0, "jump_s": 5, "duration_s": 0.1, "at": {"iteration": 1}}
    spec = spec_of(words)
    return spec, Here(spec, (), "n1")


class Rig:
    """An injector with a dead-man switch over one host."""

    def __init__(self, folder: Path, margin_s: float) -> None:
        self.path = folder / "journal.jsonl"
        self.journal, self.stack = Journal(self.path), ExitStack()
        hosts = {"n1": LocalHost("n1")}
        self.deadman = DeadMan(hosts, margin_s)
        self.running = subprocess.Popen(["sleep", "30"])
        self.stack.callback(self.running.wait)
        self.stack.callback(self.running.kill)
        actors = Actors(None, hosts, lambda rank: self.running)  # type: ignore[arg-type,return-value]
        self.injector = Injector(actors, self.journal, self.stack, lambda line: None, self.deadman)
        spec, fault = jump(folder)
        self.injector.arm(PlannedFault(spec, fault, (), "n1"))

    def phases(self) -> list[str]:
        return [line["phase"] for line in read(self.path) if line["event"] == "fault"]

    def logs(self) -> list[str]:
        return [line["message"] for line in read(self.path) if line["event"] == "log"]


def test_the_injector_arms_before_it_strikes_and_disarms_what_is_proved(tmp_path: Path) -> None:
    rig = Rig(tmp_path, 60.0)
    with rig.stack:
        assert rig.phases() == [], "no timer runs yet"
        rig.injector.strike("f0", 0)
        (found,) = records(LocalHost("n1"))
        assert (found.state, found.about["fault"]["kind"]) == ("armed", "clock_jump")
        rig.injector.extend("f0", 100.0)
        assert records(LocalHost("n1"))[0].left_s > 100
        rig.injector.heal("f0")
    assert rig.phases() == ["armed", "injected", "active", "armed", "reverted", "verified"]
    assert rig.logs() == ["f0: disarmed on n1"]
    assert records(LocalHost("n1")) == []
    first = next(line for line in read(rig.path) if line["event"] == "fault")
    assert (first["ttl_s"], first["timers"]) == (60.1, {"n1": "shell"})


def test_a_revert_that_is_not_proved_leaves_it_armed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.run.injector.CONFIRM_S", 0.05)
    rig = Rig(tmp_path, 60.0)
    with pytest.raises(FaultError, match="not gone"), rig.stack:
        rig.injector.strike("f0", 0)
        monkeypatch.setattr(type(rig.injector.states["f0"].fault), "revert", lambda self: [])
    assert rig.phases()[-1] == "reverted"
    assert "f0: the revert is not proved; n1: armed, so that the undo runs there within 60 s" in rig.logs()[0]
    record = rig.injector.states["f0"].armed
    assert record is not None
    record.margin_s = 0.0
    rig.deadman.renew(record, 0.1)
    until(lambda: not (tmp_path / "clock").exists())


def test_what_a_rank_and_a_switch_need_is_told_apart() -> None:
    actors = Actors(None, {"n1": LocalHost("n1")}, lambda rank: pytest.fail(), lambda rank: None)
    steps = [Command(SWITCH, ("ip",)), Command("n1", ("tc",)), Stop("n1", "burn"), Signal(0, "SIGCONT")]
    assert actors.armable(steps) == [Command("n1", ("tc",))], "this machine's ranks end with us"


def test_a_fault_is_built_again_from_its_record() -> None:
    words = {"id": "f", "kind": "side_channel_lost", "host": "h1", "at": {"iteration": 3}, "duration_s": 1.0}
    told = about(spec_of(words), (ExampleNic("h1", "eth1", "10.2.0.2", ""),), "h1", [PORTS])
    fault = rebuilt(json.loads(json.dumps(told)))
    assert "32768-60999" in fault.inject()[0].text(), "what was found before is known again"
    assert [step.on for step in fault.revert() if isinstance(step, Command)] == ["h1"]
    for wrong in ({}, {**told, "schema": 2}, {**told, "nics": [{}]}, {**told, "fault": {"kind": "quake"}}):
        with pytest.raises(ValueError, match=r"another version|not understood"):
            rebuilt(wrong)


def test_panic_tells_what_it_could_not_undo_and_hides_nothing(tmp_path: Path) -> None:
    class Lost(FakeHost):
        def run(self, *args: Any, **kwargs: Any) -> Result:
            raise SshError("unreachable", "n0: did not answer")

    armed([Command("n1", ("false",))], 60)
    reports = panic({"n0": Lost("n0"), "n1": LocalHost("n1")}, dry_run=True)
    assert [report.clean for report in reports] == [False, True]
    assert exit_code(reports, dry_run=True) == 1
    reports = panic({"n0": Lost("n0"), "n1": LocalHost("n1")})
    assert (reports[0].reached, "undo" in reports[1].records[0].problem, exit_code(reports)) == (False, True, 1)
    assert records(LocalHost("n1"))[0].state == "armed", "it stays, and its timer tries"
    assert exit_code(reports[:1]) == 3
    (folder,) = tmp_path.glob(".r2cc/run/*/*/armed/*")
    os.killpg(int((folder / "pid").read_text()), signal.SIGKILL)


def test_leftovers_are_only_what_carries_our_name() -> None:
    tables = '{"nftables": [{"metainfo": {}}, {"table": {"family": "inet", "name": "r2cc_x", "handle": 1}}, '
    tables += '{"table": {"family": "ip", "name": "filter", "handle": 2}}]}'
    assert [found.remove for found in leftovers.tables(tables)] == [("nft", "delete", "table", "inet", "r2cc_x")]
    queues = '[{"kind": "netem", "handle": "7a7:", "dev": "eth1", "root": true, "options": {}}, '
    queues += '{"kind": "fq", "handle": "0:", "dev": "eth2", "root": true}]'
    (found,) = leftovers.qdiscs(queues)
    assert (found.what, found.remove[-3:]) == ("qdisc netem 7a7: of eth1", ("root", "handle", "7a7:"))
    assert leftovers.find(FakeHost("n1")) == []


@pytest.mark.parametrize(
    "text", ["", "record a armed 1 shell\n{}\nundone \n", "record a armed\n{}\nundone \nend", "x\nend"]
)
def test_a_list_that_is_cut_short_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse_list(text)


def test_commands_start_nothing_but_sh() -> None:
    assert command("list")[:2] == ["sh", "-c"]
    assert sys.getsizeof(command("list")[2]) < 16_000, "it travels with every command"
