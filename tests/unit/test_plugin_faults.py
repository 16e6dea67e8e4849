"""Faults of other packages: the one of docs/howto/add-a-fault.md works everywhere; a broken one costs one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from plugin_package import installed_by_pip, of_page, on_path, written

from chaos.experiment.file import dump, json_schema, load, loads
from chaos.faults.registry import kinds
from chaos.soak.draw import round_of
from harness.cli import cli
from harness.errors import InputErrors
from harness.plugins import UsageError
from harness.plugins import kinds as plugin_kinds
from reports.words import names

EXPERIMENT = """\
name: small
topology: {hosts: 2, nics: 2}
workload: {iterations: 10, bytes: 1048576}
faults:
  - {id: small, kind: small_mtu, host: h1, nic: eth1, mtu: 4000, at: {iteration: 5}, duration_s: 0.5}
arms: {migrate: {expect: any}}
"""


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, words, catch_exceptions=True)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed_by_pip(of_page("add-a-fault.md"), tmp_path_factory.mktemp("lab-extras"))


def test_a_fault_of_another_package_is_like_ours(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(EXPERIMENT)
    with on_path(monkeypatch, package):
        entries = {entry["kind"]: entry for entry in json.loads(call("chaos", "faults", "--json").stdout)["faults"]}
        assert entries["small_mtu"]["inject"] == "ip link set dev eth2 mtu 4000"
        assert "small_mtu" in call("chaos", "faults").stdout
        assert json_schema()["$defs"]["fault_small_mtu"]["properties"]["mtu"]["maximum"] == 9000
        assert loads(dump(load(path)), path) == load(path)
        shown = call("chaos", "run", str(path), "--dry-run")
        assert shown.exit_code == 0
        assert "ip link set dev eth1 mtu 4000" in shown.stdout
        assert names.fault("small_mtu") == "small MTU"
        with pytest.raises(InputErrors, match=r"x.yaml:5: faults.0.mtu: input should be greater than or equal to 1280"):
            loads(EXPERIMENT.replace("4000", "4"), Path("x.yaml"))
    with pytest.raises(InputErrors, match=r"faults.0.kind: there is no fault small_mtu; there are address_removed, "):
        load(path)


GOOD = of_page("add-a-fault.md")["lab_extras.py"]


def test_the_soak_draws_a_fault_of_another_package_that_says_how_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = GOOD.replace('    kind = "small_mtu"', '    kind = "small_mtu"\n    drawn = 40\n    drawn_s = (0.25,)')
    entry = "small_mtu = often_extras:SmallMtu"
    folder = written(tmp_path, "often-extras", "r2cc.faults", entry, module="often_extras", code=code)
    with on_path(monkeypatch, folder):
        drawn = [fault for fault in round_of(1, 0, arm="migrate", seconds=20).faults if fault.kind == "small_mtu"]
        assert len(drawn) > 5
        assert {(fault.duration_s, fault.model_dump()["mtu"]) for fault in drawn} == {(0.25, 4000)}


@pytest.mark.parametrize(
    ("entry", "code", "said"),
    [
        ("small_mtu = nowhere:SmallMtu", "", "ModuleNotFoundError: No module named 'nowhere'"),
        ("small_mtu = bad_extras:Nothing", GOOD, "AttributeError: module 'bad_extras' has no attribute 'Nothing'"),
        ("small_mtu = bad_extras:SmallMtu", "raise SystemExit(3)", "SystemExit: 3"),
        ("small_mtu = bad_extras:SmallMtu", "def f(:", "SyntaxError: "),
        ("small_mtu = bad_extras:json", GOOD, "is no class derived from chaos.faults.fault.Fault"),
        ("small_mtu = bad_extras:SmallMtu", GOOD.replace("def probe", "def prove"), "SmallMtu lacks probe"),
        ("other = bad_extras:SmallMtu", GOOD, "its kind is 'small_mtu', its entry point's name 'other'"),
        ("small_mtu = bad_extras:SmallMtu", GOOD.replace("    noun =", "    verb ="), "SmallMtu does not say noun"),
        ("small_mtu = bad_extras:SmallMtu", GOOD.replace('{"mtu": 4000}', "{}"),
         "its example is no entry of a timeline: mtu: Field required"),
        ("small_mtu = bad_extras:SmallMtu", GOOD.replace("    kind =", "    drawn_s = (-1.0,)\n    kind ="),
         "what it draws for the soak is no entry of a timeline: duration_s: "),
        ("small_mtu = bad_extras:SmallMtu", GOOD.replace('("ip",)', '("ip",)\n    features = ("wings",)'),
         "unknown feature wings"),
        ("small_mtu = bad_extras:SmallMtu", GOOD.replace("return self._set([", "return str(["),
         "facts, inject, revert and probe are lists of chaos.faults.steps.Step"),
        ("link_down = bad_extras:SmallMtu", GOOD, "the name is taken by r2cc 0.1.0"),
    ],
)  # fmt: skip
def test_a_broken_one_is_named_in_one_line_and_left_out(
    entry: str,
    code: str,
    said: str,
    tmp_path: Path,
    *,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ours = list(kinds())
    folder = written(tmp_path, "bad-extras", "r2cc.faults", entry, module="bad_extras", code=code)
    with on_path(monkeypatch, folder):
        assert list(kinds()) == ours
        assert list(kinds()) == ours, "and is not said again"
        (line,) = capsys.readouterr().err.splitlines()
        name = entry.split(" ", maxsplit=1)[0]
        assert line.startswith(f"r2cc: warning: fault {name} of bad-extras 1.0 is left out: ")
        assert said in line
        if name == "small_mtu":
            with pytest.raises(InputErrors, match=r"fault small_mtu of bad-extras 1\.0 is left out: "):
                loads(EXPERIMENT, Path("x.yaml"))


def test_of_two_with_one_name_the_first_distribution_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = "small_mtu = {0}_extras:SmallMtu"
    folders = [
        written(
            tmp_path / name, f"{name}-extras", "r2cc.faults", entry.format(name), module=f"{name}_extras", code=GOOD
        )
        for name in ("b", "a")
    ]
    with on_path(monkeypatch, *folders):
        assert kinds()["small_mtu"].__module__ == "a_extras"
    said = "r2cc: warning: fault small_mtu of b-extras 1.0 is left out: the name is taken by a-extras 1.0\n"
    assert capsys.readouterr().err == said


def test_entry_points_that_cannot_be_read_cost_their_own_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = list(kinds())
    monkeypatch.setenv("PYDANTIC_DISABLE_PLUGINS", "")
    with on_path(monkeypatch, written(tmp_path, "bad-extras", "r2cc.faults", "a line without a sign")):
        assert list(kinds()) == ours
        assert call("chaos", "faults", "kill").exit_code == 0
    said = "r2cc: warning: the entry points of bad-extras 1.0 cannot be read: all of it is left out\n"
    assert capsys.readouterr().err == said


def test_a_shell_that_completes_gets_no_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_R2CC_COMPLETE", "bash_complete")
    with on_path(monkeypatch, written(tmp_path, "bad-extras", "r2cc.faults", "x = nowhere:X")):
        assert "x" not in kinds()
    assert capsys.readouterr().err == ""


def test_a_checkout_that_is_not_installed_anew_is_told_so() -> None:
    with pytest.raises(UsageError, match="not installed"):
        plugin_kinds("r2cc.nothing", "nothing", lambda name, found: found)
