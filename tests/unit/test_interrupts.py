"""Ctrl-C at any moment: one line and exit code 130. Moments are counted in imports, so that no clock decides."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import cycle
from pathlib import Path

import click
import pytest

from harness.cli import cli, run_cli
from harness.errors import SshError

ROOT = Path(__file__).parents[2]
R2CC = Path(sys.executable).with_name("r2cc")
NUMBERS = ("SIGINT", "SIGTERM", "SIGHUP")
AT_IMPORT = """
import os, signal, sys
NUMBER = getattr(signal, sys.argv.pop(1))
class Counting:
    left, seen = int(sys.argv.pop(1)), 0
    def find_spec(self, name, path=None, target=None):
        self.seen += "click" in sys.modules
        if self.seen == self.left:
            os.kill(os.getpid(), NUMBER)
sys.meta_path.insert(0, counting := Counting())
from harness.cli import main
try:
    main()
finally:
    print("imports:", counting.seen, file=sys.stderr)
"""
COMMANDS = (
    ("--help",),
    ("chaos", "validate", "experiments/nic_down.yaml"),
    ("sim", "run", "experiments/sim/overhead.yaml", "--dry-run"),
    ("hosts", "list"),
)


def run(code: str, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", code, *words]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, **options)  # type: ignore[call-overload, no-any-return]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_while_modules_are_imported(words: tuple[str, ...]) -> None:
    whole = run(AT_IMPORT, "SIGINT", "-1", *words)
    assert whole.returncode == 0
    total = int(whole.stderr.rsplit("imports: ", 1)[1])
    assert total > 20
    moments = sorted({1, 2, *range(5, total, total // 5), total})
    for moment, number in zip(moments, cycle(NUMBERS), strict=False):
        done = run(AT_IMPORT, number, str(moment), *words)
        said = done.stderr.split("imports:")[0]
        assert (done.returncode, said) == (130, "r2cc: interrupted\n"), f"{number} at import {moment} of {total}"


def held_back() -> None:
    """As scripts/r2cc leaves it: Ctrl-C came while Python was starting."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.kill(os.getpid(), signal.SIGINT)


def test_before_python_has_started() -> None:
    done = run("from harness.cli import main; main()", "--version", preexec_fn=held_back)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "r2cc: interrupted\n")


def installed(folder: Path, python: Path) -> Path:
    """The script, with a link to a Python beside it."""
    folder.mkdir()
    script = folder / "r2cc"
    script.write_text((ROOT / "scripts" / "r2cc").read_text())
    script.chmod(0o755)
    script.with_name("python").symlink_to(python)
    return script


def test_a_python_that_this_user_may_not_run_is_one_error(tmp_path: Path) -> None:
    script = installed(tmp_path / "a b", tmp_path / "of another user" / "python3")
    done = subprocess.run([str(script), "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith(
        f"r2cc: error: {script.with_name('python')} leads to {tmp_path}/of another user/python3"
    )
    assert "try: make setup" in done.stderr


def test_the_command_itself_holds_it_back(tmp_path: Path) -> None:
    """The script, found through a link, with a Python beside it and an r2cc that tells what it was given."""
    script = installed(tmp_path / "a b", Path(sys.executable))
    (tmp_path / "link").symlink_to(script)
    (tmp_path / "harness").mkdir()
    told = "import signal, sys\ndef main(): print([*signal.pthread_sigmask(signal.SIG_BLOCK, [])], sys.argv)\n"
    (tmp_path / "harness" / "cli.py").write_text(told)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    words = [str(tmp_path / "link"), "a b", "'"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    knows = subprocess.run(["env", "--block-signal=INT", "true"], capture_output=True, check=False).returncode == 0
    assert done.stdout == f"{[signal.SIGINT] if knows else []} {['r2cc', 'a b', chr(39)]}\n"


@pytest.mark.parametrize("number", NUMBERS)
def test_who_ignores_it_goes_on_ignoring_it(number: str) -> None:
    """As nohup does with SIGHUP, and a shell that runs no jobs with SIGINT of what it starts with `&`."""
    code = f"import signal; signal.signal(signal.{number}, signal.SIG_IGN); "
    done = run(code + AT_IMPORT, number, "5", "--version")
    assert done.returncode == 0 and done.stdout.startswith("r2cc, version")


@pytest.mark.parametrize("ignored", ["SIGINT", "SIGHUP"])
def test_who_ignores_one_hears_another(ignored: str) -> None:
    code = f"""
import click, os, signal
signal.signal(signal.{ignored}, signal.SIG_IGN)
from harness.cli import cli, main
def work():
    try:
        os.kill(os.getpid(), signal.{ignored})
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        print("healed")
cli.add_command(click.Command("work", callback=work))
main(["work"])
"""
    done = run(code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "healed\n", "r2cc: interrupted\n")


def test_when_all_is_done_it_changes_nothing() -> None:
    code = "import atexit, os, signal; atexit.register(os.kill, os.getpid(), signal.SIGINT); "
    done = run(code + "from harness.cli import main; main(['no-such'])")
    assert done.returncode == 2 and "Traceback" not in done.stderr and "interrupted" not in done.stderr


def test_while_python_takes_itself_down_it_changes_nothing() -> None:
    """A module's last object goes after all else."""
    code = """
import os, signal, sys
class Last:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGINT):
        kill(pid, number)
sys.modules["last"] = Last()
from harness.cli import main
main(["no-such"])
"""
    done = run(code)
    assert done.returncode == 2 and "Traceback" not in done.stderr


@pytest.mark.parametrize("when", ["once", "once more, while the first is dropped"])
def test_where_python_drops_errors_it_comes_again(when: str) -> None:
    code = """
import click, os, signal, sys, time
from harness.cli import cli, main
def profile(frame, event, _):
    if frame.f_code.co_name == "_raise_again":
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)
class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000): pass
def work():
    sys.setprofile(profile if sys.argv[1] != "once" else None)
    Dropped()
    time.sleep(60)
cli.add_command(click.Command("work", callback=work))
main(["work"])
"""
    done = run(code, when)
    assert (done.returncode, done.stderr) == (130, "r2cc: interrupted\n")


def test_what_timeout_sends_twice_is_one_interrupt() -> None:
    """To the process, and to its group. A person's second Ctrl-C is another one."""
    code = """
import click, os, signal, sys
from harness.cli import cli, main
def work():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
        print("healed")
cli.add_command(click.Command("work", callback=work))
main(["work"])
"""
    for number, healed in (("SIGTERM", "healed\n"), ("SIGHUP", "healed\n"), ("SIGINT", "")):
        done = run(code, number)
        assert (done.returncode, done.stdout, done.stderr) == (130, healed, "r2cc: interrupted\n"), number


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise SshError("lost", "n1: the connection was lost", "r2cc panic")

    def end() -> None:
        raise EOFError("early")

    for name, callback in (("lose", lose), ("end", end)):
        monkeypatch.setitem(cli.commands, name, click.Command(name, callback=callback))


@pytest.mark.usefixtures("command")
def test_what_fails_meanwhile_is_told_and_is_not_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    assert run_cli(["lose"]) == 130
    assert signal.getsignal(signal.SIGINT) is before, "only a process of our own is ours to change"
    assert capsys.readouterr().err == (
        "r2cc: interrupted; then: n1: the connection was lost\n  try: r2cc panic\n"
    )  # fmt: skip


@pytest.mark.usefixtures("command")
def test_an_end_of_file_is_no_interrupt(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["end"]) == 70
    assert "internal error" in capsys.readouterr().err


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_the_installed_command(words: tuple[str, ...]) -> None:
    """At whatever moment this machine has come to: it may have ended already."""
    for pause in (0, 1, 2, 4, 8):
        code = f"import os, subprocess, sys, time; p = subprocess.Popen(sys.argv[1:]); time.sleep({pause} / 50); " + (
            "p.send_signal(2); sys.exit(p.wait() % 256)"
        )
        done = run(code, str(R2CC), *words)
        assert done.returncode in (0, 130, 254), done.stderr
        assert done.stderr in ("", "r2cc: interrupted\n")
