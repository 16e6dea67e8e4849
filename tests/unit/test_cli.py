"""The command line's own promises: fast, complete, and one clear message for whatever goes wrong."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from harness import cli as cli_module
from harness import plugins
from harness.cli import COMMAND_GROUP, cli, run_cli
from harness.errors import CommandError, R2ccError, UsageError

COMMANDS = ["build", "chaos", "fork", "lab", "report"]


def raising(error: BaseException) -> click.Command:
    def callback() -> None:
        raise error

    return click.Command("raise", callback=callback)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Adds a command for one test."""

    def add(added: click.Command) -> None:
        monkeypatch.setitem(cli.commands, added.name or "", added)

    return add


def r2cc(*words: str) -> subprocess.CompletedProcess[str]:
    code = "from harness.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=60)


HEAVY = (
    *("pydantic", "pyroute2", "rich", "jinja2", "numpy", "yaml", "paramiko", "psutil"),
    *("jsonschema", "elftools", "sqlite3", "asyncio", "multiprocessing", "http.server", "xml.etree"),
)
"""What takes 10 ms or more to import."""


def test_help_loads_nothing_heavy_and_little_in_all() -> None:
    """Why `r2cc --help` is fast enough to explore with; how fast: benchmarks/tool_times.py."""
    code = (
        "import sys; before = len(sys.modules); from harness.cli import run_cli; run_cli(['--help']); "
        f"print([name for name in {HEAVY!r} if name in sys.modules]); print(len(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    *_, heavy, count = done.stdout.splitlines()
    assert heavy == "[]"
    assert int(count) < 200


def test_help_reads_the_installed_distributions_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(group: str) -> EntryPoints:
        read.append(group)
        return entry_points(group=group)

    monkeypatch.setattr(plugins, "entry_points", counted)
    plugins.entries.cache_clear()
    assert run_cli(["--help"]) == 0
    assert read == [COMMAND_GROUP]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_registered_command_loads_and_explains_itself(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert "cannot be loaded" not in result.output and "Usage:" in result.output


def test_help_lists_every_command() -> None:
    output = CliRunner().invoke(cli, ["--help"]).output
    assert [name for name in COMMANDS if f"\n  {name} " in output] == COMMANDS
    assert "cannot be loaded" not in output


@pytest.mark.parametrize("target", ["no_such_module:x", "harness.cli:no_such_name", "harness.cli:COMMAND_GROUP"])
def test_a_broken_command_breaks_only_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    broken = EntryPoint("broken", target, COMMAND_GROUP)
    monkeypatch.setattr(cli_module, "entries", lambda group: [broken])
    assert run_cli(["--help"]) == 0
    assert "cannot be loaded" in capsys.readouterr().out
    assert run_cli(["broken", "with", "--words"]) == 2
    assert target in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (UsageError("bad input", "mend it"), 2, ["bad input", "try: mend it"]),
        (CommandError("h0: failed"), 3, ["h0: failed"]),
        (R2ccError("lost"), 3, ["lost"]),
        (FileNotFoundError(2, "No such file", "/no/where"), 2, ["/no/where: No such file", "try: check the path"]),
        (
            PermissionError(13, "Permission denied", "a", None, "b"),
            2,
            ["a -> b: Permission denied", "try: see who may"],
        ),
        (OSError(28, "No space left on device"), 2, ["No space left", "make room"]),
        (ConnectionResetError(104, "Connection reset by peer"), 3, ["Connection reset"]),
        (TimeoutError("timed out"), 3, ["timed out"]),
        (RecursionError("maximum recursion depth exceeded"), 2, ["nested too deeply"]),
        (MemoryError(), 3, ["too little memory"]),
        (ZeroDivisionError("oops"), 70, ["internal error", "ZeroDivisionError: oops", "R2CC_DEBUG=1"]),
        (KeyboardInterrupt(), 130, ["interrupted"]),
        (click.UsageError("no such thing"), 2, ["no such thing"]),
        (click.BadParameter("must be positive"), 2, ["must be positive"]),
        (SystemExit(1), 1, []),
        (click.exceptions.Exit(1), 1, []),
    ],
)
def test_each_error_is_one_message_and_its_exit_code(  # type: ignore[no-untyped-def]
    command, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, words: list[str]
) -> None:
    command(raising(error))
    if isinstance(error, SystemExit):
        with pytest.raises(SystemExit) as caught:
            run_cli(["raise"])
        assert caught.value.code == code
    else:
        assert run_cli(["raise"]) == code
    captured = capsys.readouterr()
    assert all(word in captured.err for word in words)
    assert "Traceback" not in captured.err and captured.out == ""


def test_debug_shows_the_traceback(  # type: ignore[no-untyped-def]
    command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("R2CC_DEBUG", "1")
    command(raising(UsageError("bad input")))
    assert run_cli(["raise"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_commands_own_code_is_the_exit_code(command) -> None:  # type: ignore[no-untyped-def]
    command(click.Command("one", callback=lambda: 1))
    command(click.Command("none", callback=lambda: None))
    assert (run_cli(["one"]), run_cli(["none"])) == (1, 0)


@pytest.mark.parametrize("words", [["no-such-command"], ["fork", "no-such"], ["fork", "fetch", "--no-such-option"]])
def test_a_mistyped_command_line_is_exit_2_without_a_traceback(words: list[str]) -> None:
    done = r2cc(*words)
    assert done.returncode == 2
    assert done.stderr.startswith("r2cc: error: no such ") and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("chaos run", "missing argument 'FILE'\n  try: r2cc chaos run --help"),
        ("hosts check --jsn", "no such option"),
        ("metrics --listen 0", "invalid value for '--listen': 0 is not in the range 1<=x<=65535\n"),
        ("hosts list here", "got unexpected extra argument (here)\n  try: r2cc hosts list --help"),
        ("chaos run x.yaml --arms", "option '--arms' requires an argument\n  try: r2cc chaos run --help"),
        ("hosts list --inventory nowhere.yaml", "no inventory 'nowhere.yaml'"),
        ("chaos validate nowhere.yaml --set x", "no such option '--set'\n  try: r2cc chaos validate --help"),
    ],
)
def test_errors_have_one_style_whoever_found_them(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """click's own and ours: one message in lower case without a full stop, then what to try."""
    assert run_cli(line.split()) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"r2cc: error: {said}") and captured.out == ""
    assert "Usage:" not in captured.err and "Error:" not in captured.err
    first, _, hints = captured.err.partition("\n")
    assert not first.endswith(".") and hints.startswith("  try: ")


def test_a_group_alone_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["hosts"]) == 2
    assert capsys.readouterr().err.startswith("Usage: r2cc hosts ")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("calibrate", "r2cc plan calibrate"),
        ("lab calibrate", "r2cc plan calibrate"),
        ("chao", "r2cc chaos"),
        ("export", "r2cc runs export"),
        ("zzz", "r2cc --help"),
        ("lab zzz", "r2cc lab --help"),
    ],
)
def test_a_command_in_the_wrong_place_is_named(line: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(line.split()) == 2
    name = line.rsplit(maxsplit=1)[-1]
    assert capsys.readouterr().err == f"r2cc: error: no such command '{name}'\n  try: {hint}\n"


def test_a_reader_that_goes_away_ends_it_in_silence(repository: Path) -> None:
    """`r2cc ... | head -1`, with more output than a pipe holds."""
    code = (
        "import click; from harness.cli import cli, main; "
        "flood = lambda: [click.echo('x' * 999) for _ in range(999)] and None; "
        "cli.add_command(click.Command('flood', callback=flood)); "
        "main(['flood'])"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], cwd=repository, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stderr is not None
    with child:
        child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == ""
    assert child.returncode == 141
