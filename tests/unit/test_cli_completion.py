"""The command line as a whole: help in groups, completion by real shells, JSON from every command with data."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from harness.cli import SECTIONS, cli, run_cli
from harness.commands.completion import SHELLS

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]


def test_help_has_groups_and_examples_and_loses_no_command() -> None:
    output = CliRunner().invoke(cli, ["--help"]).output
    titles = [line[:-1] for line in output.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Options", *SECTIONS, "Other"]
    shown = [line.split()[0] for line in output.splitlines() if line.startswith("  ") and "  " in line.strip()]
    known = cli.list_commands(click.Context(cli))
    assert sorted(name for name in shown if name in known) == sorted(known), "each once"
    assert "Examples:" in output and "\n  completion  " in output[output.index("Other:") :]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Experiments, campaigns, inventories and other YAML, some folders down."""
    files = {
        "cluster.yaml": "schema: 1\nhosts:\n- name: a\n",
        "topology.yaml": "hosts: 4\nnics: 4\n",
        "mine.yaml": "name: x\nworkload: {}\n",
        "experiments/one.yaml": "name: x\nworkload: {}\n",
        "experiments/deep/two.yaml": "workload: {}\n",
        "experiments/all.yaml": "name: x\ncells: []\n",
        "experiments/with space.yaml": "workload: {}\n",
        "experiments/notes.txt": "workload: {}\n",
        ".hidden/three.yaml": "workload: {}\n",
        "runs/x/experiment.yaml": "workload: {}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def environment(**more: str) -> dict[str, str]:
    if not (BIN / "r2cc").exists():
        pytest.skip("r2cc is not installed beside this Python")
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **more}


def shell(name: str, program: str) -> list[str]:
    """What it prints, by lines; the script for the shell is $script."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    script = subprocess.run(["r2cc", "completion", name], capture_output=True, text=True, env=environment(), check=True)
    done = subprocess.run([name, "-c", program], capture_output=True, text=True, env=environment(script=script.stdout))
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


COMPLETED = {
    "r2cc ch": ["chaos"],
    "r2cc chaos run experiments/": ["experiments/deep/two.yaml", "experiments/one.yaml"],
    "r2cc chaos campaign experiments/a": ["experiments/all.yaml"],
    "r2cc hosts list --inventory c": ["cluster.yaml"],
    "r2cc chaos run x --inventory l": ["lab"],
    "r2cc completion z": ["zsh"],
}


@pytest.mark.usefixtures("folder")
def test_bash_completes() -> None:
    asked = "\n".join(f"ask {words}" for words in COMPLETED)
    program = f"""
eval "$script"
ask() {{ COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=(); _r2cc_completion r2cc; echo "${{COMPREPLY[*]}}"; }}
[[ $(complete -p r2cc) == *_r2cc_completion* ]] || echo not registered
{asked}
"""
    assert shell("bash", program) == [" ".join(words) for words in COMPLETED.values()]


@pytest.mark.usefixtures("folder")
def test_zsh_completes() -> None:
    """Its completion builtins work only inside its line editor: stand-ins print what they are given."""
    asked = "\n".join(f"words=({words}) CURRENT=${{#words}}; _r2cc_completion; echo" for words in COMPLETED)
    program = f"""
compdef() {{ [[ "$*" == "_r2cc_completion r2cc" ]] || echo not registered }}
compadd() {{ print -n -- "${{completions[*]}}" }}
_describe() {{ print -n -- "${{completions_with_descriptions[*]%%:*}}" }}
eval "$script"
{asked}
"""
    assert shell("zsh", program) == [" ".join(words) for words in COMPLETED.values()]


@pytest.mark.usefixtures("folder")
def test_fish_completes() -> None:
    asked = "\n".join(f"complete -C '{words}' | string replace -r '\\t.*' ''; echo" for words in COMPLETED)
    shown = "\n".join(shell("fish", f'eval "$script" 2>/dev/null; or echo $script | source\n{asked}'))
    assert [block.split() for block in shown.split("\n\n")][: len(COMPLETED)] == list(COMPLETED.values())


def completed(words: str) -> list[str]:
    """As bash is answered: type,value."""
    env = environment(_R2CC_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(len(words.split(" ")) - 1))
    done = subprocess.run(["r2cc"], capture_output=True, text=True, env=env, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.usefixtures("folder")
def test_where_nothing_fits_the_shell_completes_files() -> None:
    assert completed("r2cc chaos validate nothing") == ["file,nothing"]
    assert completed("r2cc chaos run ") == [
        "plain,experiments/deep/two.yaml",
        "plain,experiments/one.yaml",
        "plain,mine.yaml",
    ], "no topology, no campaign, no run directory, nothing hidden or with a space"
    assert completed("r2cc hosts check --inventory lab:de") == ["plain,lab:default"]


def test_validate_prints_json_of_good_and_bad_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = ROOT / "experiments" / "flap.yaml", folder / "mine.yaml"
    assert run_cli(["chaos", "validate", "--json", str(good), str(bad)]) == 2
    first, second = json.loads(capsys.readouterr().out)["files"]
    assert first == {"file": str(good), "errors": [], "name": "flap", "faults": 1, "arms": ["stock", "migrate"]}
    assert second["file"] == str(bad) and any("arms is required" in error for error in second["errors"])


def test_an_unknown_shell_is_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["completion", "tcsh"]) == 2
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err.replace('"', "'")
    assert SHELLS == ("bash", "zsh", "fish")
