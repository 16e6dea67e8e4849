"""Commands through keeper and agent, over the same frames as in a guest: what a Host promises, without a guest."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import words_of
from vm_double import Double, double
from waits import LIMIT_S, until

from chaos.faults.steps import SWITCH, Command
from chaos.run.actors import Actors
from harness.errors import CommandError, LabError
from harness.hosts import Host
from harness.hosts.base import spawn_held
from harness.vmlab.broker import LAST_WORDS_S
from harness.vmlab.inside.frames import MAX_BYTES, WINDOW, Kind, Parser, frame


@pytest.fixture
def vm(tmp_path: Path) -> Iterator[Double]:
    with double(tmp_path) as made:
        yield made


def test_a_guest_is_a_host(vm: Double) -> None:
    assert isinstance(vm.host, Host)


def test_output_errors_input_and_exit_code(vm: Double) -> None:
    done = vm.host.run(["sh", "-c", "cat; echo err >&2; exit 7"], input="in", check=False)
    assert (done.exit_code, done.stdout, done.stderr) == (7, "in", "err\n")
    assert vm.host.run(["sh", "-c", "kill -9 $$"], check=False).exit_code == -9


def test_only_the_given_environment_goes_in(vm: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    text = vm.host.run(["env"], env={"A": "b c"}).stdout
    assert "A=b c\n" in text
    assert "NCCL_DEBUG" not in text
    assert "HOME=/root\n" in text


def test_what_cannot_start_says_so(vm: Double) -> None:
    with pytest.raises(CommandError, match="h0: cannot start no-such-program: No such file"):
        vm.host.run(["no-such-program"])
    with pytest.raises(CommandError, match="exit code 3"):
        vm.host.run(["sh", "-c", "exit 3"])


def test_much_output_and_much_input_come_through_whole(vm: Double) -> None:
    text = "".join(f"{number}\n" for number in range(400_000))
    assert len(text) > 8 * WINDOW
    assert vm.host.run(["cat"], input=text, timeout_s=LIMIT_S).stdout == text


def test_a_reader_that_sleeps_holds_up_its_own_command_only(vm: Double) -> None:
    loud = vm.host.spawn(["sh", "-c", "yes | head -c 3000000; echo done >&2"])
    time.sleep(LAST_WORDS_S + 1.0)
    assert loud.poll() is None, "three megabytes cannot be under way: someone stores them"
    assert vm.host.run(["echo", "quick"], timeout_s=LIMIT_S).stdout == "quick\n"
    assert loud.stdout is not None
    assert len(loud.stdout.read()) == 3_000_000
    assert loud.wait(LIMIT_S) == 0
    assert loud.stderr_tail() == "done"
    loud.close()


def test_the_end_is_told_even_when_nobody_reads_the_output(vm: Double) -> None:
    process = vm.host.spawn(["sh", "-c", "yes | head -c 200000"])
    assert process.wait(LIMIT_S) == 0
    assert process.stdout is not None
    assert len(process.stdout.read()) == 200_000
    process.close()


def test_a_command_whose_child_lives_on_has_ended(vm: Double) -> None:
    done = vm.host.run(["sh", "-c", "sleep 600 & echo $!"], timeout_s=LIMIT_S)
    child = int(done.stdout)
    try:
        assert done.exit_code == 0
        until(lambda: words_of(child) == ["sleep", "600"], "it lives on")  # once it is more than a fork of the shell
    finally:
        os.kill(child, signal.SIGKILL)


def test_signals_reach_the_command(vm: Double) -> None:
    process = vm.host.spawn(["sh", "-c", "trap 'exit 5' USR1; echo ready; while :; do sleep 0.05; done"])
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGUSR1)
    assert process.wait(LIMIT_S) == 5
    process.close()


def test_a_command_ends_with_its_client_and_takes_its_group_along(vm: Double) -> None:
    process = vm.host.spawn(["sh", "-c", "sleep 100 & echo $!; wait"])
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.close()
    for pid in (child, process.pid):
        until(lambda pid=pid: not Path(f"/proc/{pid}").exists())  # type: ignore[misc]


def test_a_command_that_takes_too_long_is_ended(vm: Double) -> None:
    with pytest.raises(CommandError, match=r"still ran after 1\.2 s"):
        vm.host.run(["sleep", "100"], timeout_s=1.2 / vm.host.patience)


def test_input_that_nobody_reads_is_thrown_away(vm: Double) -> None:
    assert vm.host.run(["sh", "-c", "exec <&-; sleep 0.2; echo fine"], input="x" * 3_000_000).stdout == "fine\n"


def test_hundreds_of_commands_leave_nothing_behind(vm: Double) -> None:
    def open_files() -> tuple[int, int]:
        return len(os.listdir(f"/proc/{vm.agent.pid}/fd")), len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    vm.host.run(["true"])
    before = open_files()  # of which the last one's may still be some
    for _ in range(200):
        vm.host.run(["true"])
    until(lambda: all(now <= old for now, old in zip(open_files(), before, strict=True)), f"more than {before} files")


def test_files_go_in_and_out_with_their_mode(vm: Double, tmp_path: Path) -> None:
    source, remote, back = tmp_path / "a file", tmp_path / "new folder" / "b c", tmp_path / "back"
    source.write_bytes(bytes(range(256)) * 5000)
    source.chmod(0o751)
    vm.host.put(source, str(remote))
    assert remote.read_bytes() == source.read_bytes()
    assert remote.stat().st_mode & 0o777 == 0o751
    assert [path.name for path in remote.parent.iterdir()] == ["b c"]
    vm.host.get(str(remote), back)
    assert back.read_bytes() == source.read_bytes()
    assert vm.host.read_text("/proc/self/comm") == "cat\n"


def test_copies_that_fail_leave_nothing(vm: Double, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No such file"):
        vm.host.get("/no/such/file", tmp_path / "got")
    assert not list(tmp_path.glob("got*"))
    with pytest.raises(CommandError, match="cannot copy"):
        vm.host.put(tmp_path / "none", "/tmp/none")


def test_when_the_guest_dies_its_commands_have_ended(vm: Double) -> None:
    process = vm.host.spawn(["sleep", "100"])
    vm.agent.kill()
    assert process.wait(LIMIT_S) == -9
    os.kill(process.pid, signal.SIGKILL)
    process.close()
    with pytest.raises(CommandError, match="the guest is down"):
        vm.host.run(["true"])


def test_a_fault_that_is_prepared_at_the_last_moment_strikes_on_the_switch(vm: Double) -> None:
    """Soft-RoCE's first soaks on quick guests lost rounds: the switch ran a command that was to wait for its words, at
    once and without them, and its end was not there yet when the words came."""
    cut = Command(SWITCH, ("ip", "link", "set", "dev", "h0-eth0", "down"))
    actors = Actors(vm.switch, {}, lambda rank: pytest.fail("no rank runs"))
    for _ in range(20):
        actors.prepare([cut])
        (answer,) = actors.take([cut])
        assert (answer.exit_code, answer.stderr) == (0, "")
    assert vm.monitor.asked == [("set_link", "nic-eth0", False)] * 20
    with pytest.raises(CommandError, match="the switch waits for no pipe"):
        spawn_held(vm.switch, ["nft", "-f", "/proc/self/fd/0"])


def test_the_switch_answers_like_a_command(vm: Double) -> None:
    assert vm.switch.run(["link", "h0-eth0", "down"]).stdout == ""
    assert vm.switch.run(["link", "h0-eth0", "show"]).stdout == '[{"ifname": "h0-eth0", "flags": []}]\n'
    vm.switch.run(["link", "h0-eth0", "up"])
    assert '"UP"' in vm.switch.run(["link", "h0-eth0", "show"]).stdout
    vm.switch.run(["wire", "set", "h0-eth0", "both", "drop", "on"])
    vm.switch.run(["guest", "h0", "pause"])
    assert vm.monitor.asked == [("set_link", "nic-eth0", False), ("set_link", "nic-eth0", True), ("stop",)]
    assert vm.wire.asked == ["set h0-eth0 both drop on"]
    wrong = vm.switch.run(["link", "h9-eth0", "down"], check=False)
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "no port h9-eth0" in wrong.stderr
    assert vm.switch.run(["rm", "-rf", "/"], check=False).exit_code == 2


def test_a_host_that_is_not_there(vm: Double) -> None:
    from harness.vmlab.host import VmHost

    with pytest.raises((CommandError, LabError), match="no host h7"):
        VmHost("h7", vm.host.folder).run(["true"])


def test_streams_may_be_redirected_like_a_child_s(vm: Double, tmp_path: Path) -> None:
    path = tmp_path / "both"
    with path.open("wb") as target:
        process = vm.host.spawn(["sh", "-c", "echo one; echo two >&2"], stdout=target, stderr=subprocess.STDOUT)
        assert process.wait(LIMIT_S) == 0
    assert process.stdout is None
    assert sorted(path.read_text().split()) == ["one", "two"]
    process.close()


def test_frames_survive_any_cut() -> None:
    data = frame(Kind.STDOUT, 7, b"hello") + frame(Kind.EXIT, 2**32 - 1) + frame(Kind.STDERR, 1, b"x" * 70000)
    for size in (1, 3, 8, 9, 10, 4096, len(data)):
        parser = Parser()
        found = [f for at in range(0, len(data), size) for f in parser.feed(data[at : at + size])]
        assert [(kind, number, len(text)) for kind, number, text in found] == [
            (Kind.STDOUT, 7, 5),
            (Kind.EXIT, 2**32 - 1, 0),
            (Kind.STDERR, 1, 70000),
        ]


def test_a_frame_that_nobody_sends_is_refused() -> None:
    with pytest.raises(ValueError, match="bytes"):
        list(Parser().feed(frame(Kind.EXIT, 1)[:5] + (MAX_BYTES + 1).to_bytes(4, "little")))
    with pytest.raises(ValueError, match="99"):
        list(Parser().feed(b"\x63" + bytes(8)))
