"""What every host promises, on this machine and on the recording one."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest
from host_double import FakeHost
from waits import LIMIT_S

from harness.errors import CommandError
from harness.hosts import Host, LocalHost, Result
from harness.hosts.commands import command_error, search_path


def test_local_run_returns_what_the_command_left() -> None:
    began_s = time.monotonic()
    result = LocalHost().run(["sh", "-c", "cat; echo err >&2; exit 3"], input="in", check=False)
    assert 0 < result.elapsed_s <= time.monotonic() - began_s
    assert (result.exit_code, result.stdout, result.stderr) == (3, "in", "err\n")
    assert result.argv[0] == "sh"


def test_env_is_added_to_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_US", "1")
    assert LocalHost().run(["sh", "-c", "echo $FROM_US$ADDED"], env={"ADDED": "2"}).stdout == "12\n"


def test_arguments_never_meet_a_shell(tmp_path: Path) -> None:
    nasty = f"$(touch {tmp_path}/owned); `id`"
    assert LocalHost().run(["printf", "%s", nasty]).stdout == nasty
    assert not list(tmp_path.iterdir())


def test_a_failed_command_names_everything() -> None:
    with pytest.raises(CommandError) as caught:
        LocalHost("n7").run(["sh", "-c", "seq 1 20 >&2; exit 4"])
    text = str(caught.value)
    assert "n7: command failed with exit code 4: sh -c 'seq 1 20 >&2; exit 4'" in text
    assert "| 20" in text
    assert "| 13" in text
    assert "| 12" not in text  # the last eight lines only
    assert caught.value.hint


SCRIPT = "\n# Counts to $1.\nseq $1 >&2\nsleep $2\nexit 4\n"


@pytest.mark.parametrize(("seconds", "limit_s"), [("0", None), ("60", 0.5)])
def test_of_a_script_the_error_shows_one_line(seconds: str, limit_s: float | None) -> None:
    with pytest.raises(CommandError) as caught:
        LocalHost("n7").run(["sh", "-c", SCRIPT, "two words", "2", seconds], timeout_s=limit_s)
    first, *rest = str(caught.value).splitlines()
    assert first.endswith(f": sh -c '# Counts to $1. ... (3 more lines)' 'two words' 2 {seconds}")
    assert rest[:2] == ["  | 1", "  | 2"]


@pytest.mark.parametrize(
    ("result", "hint"),
    [
        (Result(("x",), 2, stderr="RTNETLINK answers: Operation not permitted"), "root"),
        (Result(("x",), -9), "SIGKILL"),
        (Result(("x",), 1, stderr="boom"), "by hand"),
    ],
)
def test_the_hint_fits_the_failure(result: Result, hint: str) -> None:
    assert hint in str(command_error("h0", result).hint)


def test_a_missing_program_says_which_package_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot start no-such-program-here"):
        LocalHost().run(["no-such-program-here"])
    with pytest.raises(CommandError) as caught:
        LocalHost().run([f"{tmp_path}/nft"])
    assert caught.value.hint == "sudo apt-get install nftables"


def test_an_empty_command_is_an_error() -> None:
    with pytest.raises(CommandError, match="empty command"):
        LocalHost().run([])


def test_a_command_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    """One that were waited for would outlast the test's own limit."""
    told = tmp_path / "pid"
    with pytest.raises(CommandError, match=r"still ran after 5 s"):
        LocalHost().run(["sh", "-c", f"echo $$ >{shlex.quote(str(told))}; exec sleep 600"], timeout_s=5)
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


def test_spawn_streams_and_keeps_stderr() -> None:
    process = LocalHost().spawn(["sh", "-c", "echo why >&2; echo one; read x < /dev/null; exec sleep 30"])
    assert process.stdout is not None
    assert process.stdout.readline() == b"one\n"
    assert process.poll() is None
    with pytest.raises(CommandError, match="still runs"):
        process.wait(0.05)
    process.terminate()
    assert process.wait(LIMIT_S) == -signal.SIGTERM
    assert process.stderr_tail() == "why"
    process.close()


def test_spawn_redirects(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        process = LocalHost().spawn(["sh", "-c", "echo a; echo b >&2"], stdout=out, stderr=subprocess.STDOUT)
        assert process.wait(LIMIT_S) == 0
    assert process.stdout is None
    process.close()
    assert (tmp_path / "out").read_text() == "a\nb\n"


def test_put_and_get_replace_whole_files_and_keep_the_mode(tmp_path: Path) -> None:
    source = tmp_path / "tool"
    source.write_text("#!/bin/sh\necho ran\n")
    source.chmod(0o755)
    host = LocalHost()
    host.put(source, f"{tmp_path}/new folder/tool")
    assert host.run([f"{tmp_path}/new folder/tool"]).stdout == "ran\n"
    host.get(f"{tmp_path}/new folder/tool", tmp_path / "back")
    assert (tmp_path / "back").read_text() == source.read_text()
    assert sorted(p.name for p in (tmp_path / "new folder").iterdir()) == ["tool"]
    with pytest.raises(CommandError, match="cannot copy"):
        host.put(tmp_path / "absent", f"{tmp_path}/x")
    with pytest.raises(CommandError, match="cannot read"):
        host.read_text(f"{tmp_path}/absent")


def test_a_plain_users_path_gains_the_administrators_folders() -> None:
    assert search_path({"PATH": "/usr/bin:/bin"}) == "/usr/bin:/bin:/usr/sbin:/sbin"
    assert search_path({"PATH": "/sbin:/usr/sbin:/bin"}) == "/sbin:/usr/sbin:/bin"


def test_the_fake_host_records_and_answers_in_order() -> None:
    host = FakeHost("h1").answer("ip -j link*", '[{"ifname": "eth0"}]').answer("ip *", exit_code=2, stderr="no")
    assert host.run(["ip", "-j", "link", "show"]).stdout == '[{"ifname": "eth0"}]'
    with pytest.raises(CommandError, match="h1: command failed with exit code 2: ip link set x down"):
        host.run(["ip", "link", "set", "x", "down"], env={"A": "1"}, input="text")
    assert host.run(["true"]).exit_code == 0
    assert host.commands == [("ip", "-j", "link", "show"), ("ip", "link", "set", "x", "down"), ("true",)]
    assert host.inputs[1] == "text"
    assert host.environments[1] == {"A": "1"}


def test_the_fake_host_answers_by_function_and_can_be_strict() -> None:
    host = FakeHost(strict=True)
    host.answers["count *"] = lambda argv: Result(argv, 0, str(len(argv)))
    assert host.run(["count", "a", "b"]).stdout == "3"
    with pytest.raises(AssertionError, match="no answer scripted"):
        host.run(["other"])


def test_fake_processes_and_files(tmp_path: Path) -> None:
    host = FakeHost().answer("bench*", "line 1\nline 2\n", exit_code=3, stderr="dead peer\n")
    process = host.spawn(["bench", "--rank", "0"])
    assert process.stdout is not None
    assert list(process.stdout) == [b"line 1\n", b"line 2\n"]
    process.kill()
    assert (process.wait(), process.signals, process.stderr_tail()) == (3, [signal.SIGKILL], "dead peer")
    (tmp_path / "a").write_text("A")
    host.put(tmp_path / "a", "/r/a")
    host.get("/r/a", tmp_path / "b")
    assert (tmp_path / "b").read_text() == "A"
    with pytest.raises(CommandError):
        host.read_text("/r/none")


def test_every_host_is_a_host() -> None:
    assert isinstance(LocalHost(), Host)
    assert isinstance(FakeHost(), Host)
