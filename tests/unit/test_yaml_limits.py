"""YAML of a user under limits: whatever the text, the answer is a value or messages with a line, short and soon."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from chaos.campaign.load import load as load_campaign
from chaos.experiment.file import load as load_experiment
from chaos.simulate.cluster.topology_files import load as load_sim_topology
from chaos.simulate.run.experiment import load as load_simulation
from ci.policy import load as load_policy
from harness.cli import run_cli
from harness.config import documents, yaml_text
from harness.config.files import MOST_INPUT_BYTES, input_of
from harness.config.words import in_order, listed, shown
from harness.config.yaml_text import MOST_DEPTH
from harness.errors import InputErrors, UsageError
from harness.lab.topology import Topology
from harness.sites.inventory_file import load as load_inventory

LOADERS: dict[str, Callable[[Path], object]] = {
    "experiment": load_experiment,
    "campaign": load_campaign,
    "simulation": load_simulation,
    "simulated topology": load_sim_topology,
    "policy": load_policy,
    "inventory": load_inventory,
    "lab": Topology.load,
}


def bomb(width: int = 9, levels: int = 9) -> str:
    lines = ["l0: &l0 [boo, boo]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


HOSTILE = {
    "brackets": "[" * 3000,
    "braces": "{" * 3000,
    "dashes": "- " * 3000,
    "keys": "? " * 3000,
    "indents": "".join(f"{' ' * n}a:\n" for n in range(200)),
    "bomb": bomb(),
    "merges": "a: &a {k: 1}\n" + "".join(f"x{n}: &x{n} {{<<: [{', '.join(['*a'] * 9)}]}}\n" for n in range(3)) + bomb(),
    "itself": "&a [*a]",
    "itself as a key": "&a {*a : 1}",
    "itself, merged": "&a {<<: *a}",
    "a chain": "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 400)),
    "a long number": f"name: {'9' * 5000}",
    "no such day": "name: 2026-13-45",
    "an empty number": '!!int ""',
    "neither true nor false": "!!bool maybe",
    "no time": "!!timestamp soon",
    "a key that is a list": "{[a]: 1}",
    "an object": "!!python/object/apply:os.system [x]",
    "two documents": "a: 1\n---\nb: 2\n",
    "a NUL": "a: \0",
    "too long": "# " + "x" * (MOST_INPUT_BYTES + 1),
    "nothing": "",
    "a tab": "a:\n\t- 1",
    "an open text": '"abc',
    "an unknown alias": "*b",
    "twice": "name: a\nname: b\n",
}


@pytest.fixture(autouse=True, params=["libyaml", "Python alone"])
def _either_parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "Python alone":
        monkeypatch.setattr(yaml_text, "LOADER", yaml_text.PythonLoader)


@pytest.mark.parametrize(("kind", "case"), [*product(LOADERS, HOSTILE)])
def test_hostile_files_end_in_short_messages(tmp_path: Path, kind: str, case: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(HOSTILE[case])
    with pytest.raises(UsageError) as caught:
        LOADERS[kind](file)
    assert "x.yaml" in str(caught.value)
    assert len(str(caught.value)) < 20_000


def test_what_a_command_says_of_an_alias_bomb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(bomb())
    assert run_cli(["chaos", "validate", str(file)]) == 2
    said = capsys.readouterr().err
    assert f"{file}:7: not valid YAML: more than 400000 values with its aliases" in said and len(said) < 500


BITS = (
    "[ ] { } -_ ?_ :_ &a_ *a <<:_ \\n _ x 1 !!int_ \" ' # | > % --- ... , !!set_ !!omap_ !!binary_ é ~ 0x 1:2 !!float_"
)
YAML_BITS = st.lists(st.sampled_from([bit.replace("_", " ").replace("\\n", "\n") for bit in BITS.split()]), max_size=40)


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(YAML_BITS.map("".join), st.text(max_size=60)))
@example("&a [*a]")
@example("&a {*a: 1}")
@example("!!omap [&a {b: *a}]")
@example("!!pairs [{a: 1, b: 2}]")
def test_any_text_is_read_or_refused(text: str) -> None:
    document = documents.parse(text, "x")
    assert document.errors == [] or all(error.startswith("x:") for error in document.errors)
    document.line(("a", 0, "b"))


def test_what_is_allowed_is_read_with_its_lines() -> None:
    text = "usual: &usual\n  rate: 1\n  nic: eth0\nlist:\n  - {<<: *usual, host: a}\n  - <<: *usual\n    nic: eth1\n"
    document = documents.parse(text, "x")
    assert document.errors == []
    assert document.value["list"] == [
        {"rate": 1, "nic": "eth0", "host": "a"},
        {"rate": 1, "nic": "eth1"},
    ]
    lines = [document.line(("list", *place), key=True) for place in ((0, "host"), (1, "nic"), (1, "rate"), (0, "no"))]
    assert lines == [5, 7, 2, 5]
    nested = "[" * MOST_DEPTH + "]" * MOST_DEPTH
    assert documents.parse(nested, "x").errors == []
    assert "levels deep" in documents.parse(f"[{nested}]", "x").errors[0]


def test_a_part_of_a_file_keeps_its_lines() -> None:
    document = documents.parse("a: 1\nb:\n  c: [1, 2]\nhosts:\n- name: x\n- name: y\n", "f")
    assert document.part("b").message(("c",), "no") == "f:3: no"
    alone = document.with_one("hosts", 1, {"name": "z"})
    assert alone.value["hosts"] == [{"name": "z"}] and alone.line(("hosts", 0)) == 6


def test_an_inline_topology_may_come_from_elsewhere_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text(
        "name: a\nworkload: {iterations: 3}\narms: {stock: {expect: any}}\n"
        "topology: &t\n  hosts: 2\n  nics: &n 2\n  rate_gbit: 0\nseed: *n\n"
    )
    with pytest.raises(InputErrors) as caught:
        load_experiment(file)
    assert caught.value.errors == [f"{file}:7: rate_gbit: input should be greater than 0, not 0"]


def test_errors_of_two_files_stay_apart(tmp_path: Path) -> None:
    file, other = tmp_path / "e.yaml", tmp_path / "t.yaml"
    other.write_text("hosts: 0\n\n\n\n\nnics: 0\n")
    file.write_text("name: A\ntopology: t.yaml\n\nworkload: {iterations: 0}\narms: {stock: {expect: no}}\n")
    with pytest.raises(InputErrors) as caught:
        load_experiment(file)
    assert [error.split(": ")[0] for error in caught.value.errors] == [
        f"{file}:1", f"{file}:4", f"{file}:5", f"{other}:1", f"{other}:6"]  # fmt: skip
    assert in_order(["b:1: x", "a:9: y", "a:10: z", "a:9: y", "b:0: w", "no place"], "a") == [
        "a:9: y", "a:10: z", "b:0: w", "b:1: x", "no place"]  # fmt: skip


def test_a_simulation_and_its_topology_stay_apart(tmp_path: Path) -> None:
    file, other = tmp_path / "s.yaml", tmp_path / "t.yaml"
    other.write_text("\n\n\n\n\n\nhosts: 1\n")
    file.write_text("schema: 1\nname: A b\ntopology: t.yaml\narms: [stock]\nworkload: {kind: collective}\n\n\n\nx: 1\n")
    with pytest.raises(InputErrors) as caught:
        load_simulation(file)
    files = [error.split(":")[0] for error in caught.value.errors]
    assert files == sorted(files) and set(files) == {str(file), str(other)}


def test_words_are_short() -> None:
    assert len(shown("a" * 1000)) <= 64
    assert len(shown([[["x" * 100] * 100] * 100] * 100)) < 400
    assert shown("eth0") == "'eth0'" and shown(3) == "3"
    assert listed(range(25)).endswith("18, 19 and 5 more") and listed(["a", "b"]) == "a, b"


@pytest.mark.parametrize("name", [".", "gone", "x/y"])
def test_files_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(UsageError, match="cannot read the thing"):
        input_of(tmp_path / name, "the thing", "do something")


def test_a_file_without_end_is_too_large() -> None:
    with pytest.raises(UsageError, match="larger than 2 MiB"):
        input_of(Path("/dev/zero"), "the thing", "")
    assert input_of(Path("/dev/null"), "the thing", "") == ""
