"""Bad usage and bad input of many commands: exit code 2, one clear message with what to do, nothing begun."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from json_page import PRINTED

from chaos.simulate.validate import checking
from chaos.simulate.validate.checks import Check
from harness.cli import run_cli
from harness.errors import UsageError
from harness.schemas import load as schema

ROOT = Path(__file__).parents[2]
EXPERIMENT = str(ROOT / "experiments" / "nic_down.yaml")
FOLDER = str(ROOT / "experiments" / "false_positives")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"report {shlex.quote(EXPERIMENT)}", ["nic_down.yaml is a file, and a run is a folder"]),
        ("hosts list --inventory gone.yaml", ["no inventory 'gone.yaml': there is no such file"]),
        ("hosts check --inventory gone/x", ["no inventory 'gone/x': there is no such file"]),
        ("panic --inventory gone.yaml", ["no inventory 'gone.yaml': there is no such file"]),
        ("deploy --inventory gone.yaml", ["no inventory 'gone.yaml': there is no such file"]),
        ("deploy --inventory lab", ["'lab' is no inventory file: a lab has all that is built here"]),
        ("doctor --inventory local --pid 4194304", ["no process 4194304"]),
        ("run ddp --set foo=1 --dry-run", ["--set foo: ddp has no such setting; it has layers"]),
        ("run decode --set layers=many --dry-run", ["--set layers: input should be a valid integer, not 'many'"]),
        ("run megatron --set tp=0 --dry-run", ["--set tp: input should be greater than 0, not 0"]),
        ("run collectives --set dtypes=[1] --dry-run", ["--set dtypes.0: input should be"]),
        ("run bench --corrupt abc --dry-run", ["'abc' is no RANK:ITERATION"]),
        ("run bench --env =x --dry-run", ["'' is no name of a variable"]),
        ("run bench --bytes 5 --dry-run", ["5 is no multiple of 4"]),
        ("run bench --root= --dry-run", ["it is empty"]),
        ("chaos run . --dry-run", ["no experiment (*.yaml) in ."]),
        ("chaos validate .", ["no experiment (*.yaml) in ."]),
        (f"chaos run {shlex.quote(EXPERIMENT)} --out /proc/x", ["cannot make the run directory /proc/x"]),
        (f"chaos run {shlex.quote(FOLDER)} --out /dev/null", ["cannot make the run directory /dev/null"]),
        ("chaos soak --minutes 1 --out /proc/x", ["cannot make the run directory /proc/x"]),
        ("sim run . --dry-run", ["Is a directory"]),
        ("sim run x.yaml --set a=[[[[", ["--set a=[[[["]),
        ("ci gate x --policy .", ["is a directory"]),
        ("ci report big.json", ["nested too deeply"]),
    ],
)
def test_one_clear_message(
    line: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "big.json").write_text("[" * 100_000)
    before = sorted(tmp_path.iterdir())
    assert run_cli(shlex.split(line)) == 2
    said = capsys.readouterr().err
    assert all(word in said for word in words), said
    assert "Traceback" not in said and "internal error" not in said and len(said) < 3000
    assert sorted(tmp_path.iterdir()) == before


def test_a_report_that_cannot_be_written_names_the_path(capsys: pytest.CaptureFixture[str]) -> None:
    run = sorted((ROOT / "tests" / "data" / "runs").glob("*/journal.jsonl"))
    if not run:
        pytest.skip("no run among the test data")
    assert run_cli(["report", str(run[0].parent), "--format", "md,html", "--out", "/proc/x"]) == 2
    assert "/proc/x" in capsys.readouterr().err


def test_a_folder_is_shown_and_checked_as_help_says(capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted(Path(FOLDER).glob("*.yaml"))
    assert run_cli(["chaos", "validate", FOLDER]) == 0
    assert capsys.readouterr().out.count(": ok (") == len(files)
    assert run_cli(["chaos", "run", FOLDER, "--dry-run", "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert {run["experiment"] for run in runs} == {file.stem for file in files}
    assert run_cli(["chaos", "run", FOLDER, "--dry-run"]) == 0
    assert capsys.readouterr().out.count("nothing was started") == len(files)


def test_every_file_of_a_folder_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text("[")
    (tmp_path / "b.yaml").symlink_to("nowhere")
    (tmp_path / "c.yaml").mkdir()
    for words in (["chaos", "run", str(tmp_path)], ["chaos", "validate", str(tmp_path)]):
        assert run_cli(words) == 2
        said = capsys.readouterr().err
        assert all(f"{tmp_path}/{name}.yaml" in said for name in "abc"), said


@pytest.mark.parametrize("name", sorted({name for names in PRINTED.values() for name in names}))
def test_every_json_is_an_object_that_names_its_schema(name: str) -> None:
    form = schema(name)
    forms = [form["$defs"][each["$ref"].rpartition("/")[2]] for each in form.get("anyOf", ())] or [form]
    assert all("schema" in each["required"] and each.get("type", "object") == "object" for each in forms)


def test_quiet_is_what_deviates() -> None:
    made = [
        Check("lab a", 1.0, 1.0, 0.1, "x", "s", "holds"),
        Check("lab b", 1.0, 1.0, 0.1, "x", "s", "known"),
        Check("lab c", 1.0, 1.0, 0.1, "x", "s", "deviated"),
    ]
    assert checking.text(made[:2], quiet=True) == ""
    assert checking.text(made, quiet=True).splitlines() == ["deviated    lab c: 1 (x)"]
    assert "1 miss and why is known" in checking.text(made, quiet=False)


def test_validate_says_which_misses_it_forgives(capsys: pytest.CaptureFixture[str]) -> None:
    """A few that nobody can explain are written down; one more is a no, and also a quiet one shows them all."""
    misses = [Check(f"lab {n}", 1.0, 1.0, 0.1, "x", "s", "unexplained") for n in range(checking.MOST_UNEXPLAINED + 1)]
    assert checking.good(misses[1:]) and not checking.good(misses)
    assert checking.text(misses[1:], quiet=True) == ""
    assert len(checking.text(misses, quiet=True).splitlines()) == len(misses)
    assert "8 miss and why is not known (8 may)" in checking.text(misses[1:], quiet=False)
    assert run_cli(["sim", "validate", "--help"]) == 0
    assert checking.MOST_UNEXPLAINED == 8, "what the aim allows"
    assert "at most eight without one" in " ".join(capsys.readouterr().out.split())


def test_published_figures_are_of_the_file_as_it_is(tmp_path: Path) -> None:
    from chaos.simulate.run.experiment import load

    file = ROOT / "experiments" / "sim" / "collective_k_sweep.yaml"
    assert all(each.within is not None for each in load(file).references)
    changed = load(file, {"topology.hosts": 8})
    assert all(each.within is None for each in changed.references)
    assert changed.references[0].note == "of the file without --set topology.hosts: not checked"
    assert all(each.within is not None for each in load(file, {"seed": 3, "title": "x"}).references)
    again = tmp_path / "again.yaml"
    again.write_text(changed.dump())
    assert load(again).references == changed.references


def test_a_missing_inventory_is_a_usage_error_of_every_reader() -> None:
    from harness.sites.cluster import of_a_file
    from harness.sites.inventory import parse

    with pytest.raises(UsageError, match="'vm' is no inventory file: why"):
        of_a_file(parse("vm"), "why", "hint")
    with pytest.raises(UsageError, match=r"no inventory 'x\.yml:n1': there is no such file"):
        parse("x.yml:n1")
