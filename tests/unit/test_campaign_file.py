"""The file of a campaign: the cells it comes to, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from campaign_double import prepare

from chaos.campaign.load import load
from chaos.campaign.settings import combinations
from harness.config.dotted import applied
from harness.errors import InputErrors, UsageError

pytestmark = pytest.mark.timeout(100)
SHIPPED = sorted((Path(__file__).parents[2] / "experiments" / "campaigns").glob("*.yaml"))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return prepare(tmp_path, monkeypatch)


def errors_of(text: str) -> list[str]:
    Path("c.yaml").write_text(text)
    with pytest.raises(InputErrors) as caught:
        load(Path("c.yaml"))
    return caught.value.errors


def test_cells_are_experiments_with_their_changes() -> None:
    text = """
name: x
cells:
  - {experiment: e.yaml, repeats: 3, seed: 9, minutes: 2.5}
  - {experiment: e.yaml, name: more, arms: [stock], set: {topology.hosts: 4, faults.0.at.iteration: 5}}
"""
    Path("c.yaml").write_text(text)
    plain, more = load(Path("c.yaml")).cells
    assert (plain.name, plain.minutes, plain.experiment.repeats, plain.experiment.seed) == ("e", 2.5, 3, 9)
    assert list(plain.arms) == ["stock", "migrate"]
    assert (more.topology["hosts"], more.experiment.faults[0].at.iteration) == (4, 5)
    assert list(more.arms) == ["stock"]


def test_a_matrix_has_a_cell_for_each_combination() -> None:
    text = """
name: x
cells:
  - experiment: e.yaml
    set: {seed: 3}
    matrix: {workload.bytes: [1024, 2048], topology.hosts: [2, 3, 4], faults.0.kind: [link_down]}
"""
    Path("c.yaml").write_text(text)
    cells = load(Path("c.yaml")).cells
    assert [cell.name for cell in cells][:2] == ["e-bytes1024-hosts2-kindlink_down", "e-bytes1024-hosts3-kindlink_down"]
    assert len({cell.fingerprint for cell in cells}) == 6
    assert {cell.experiment.seed for cell in cells} == {3}


def test_every_error_is_told_at_once_with_its_line() -> None:
    Path("bad.yaml").write_text(
        "name: bad\ntopology: {hosts: 2, nics: 1, rate_gbit: 0}\nworkload: {op: dance}\narms: {}\n"
    )
    text = """name: no spaces here
colour: red
cells:
  - {experiment: nowhere.yaml}
  - {experiment: e.yaml, name: a, arms: [nope], minute: 3}
  - {experiment: e.yaml, name: b, arms: [nope]}
  - experiment: e.yaml
    name: c
    set:
      workload.bytes: much
      topology.nics.deep: 1
  - experiment: e.yaml
    name: d
    matrix:
      workload.op: [dance, jump]
      topology.rate_gbit: [-1]
  - {experiment: bad.yaml, name: e}
  - {experiment: e.yaml, name: b}
  - {experiment: e.yaml, name: f, inventory: "lab:small"}
  - {experiment: e.yaml, name: g, inventory: "vm:9x9", repeats: 0}
  - {experiment: e.yaml, name: h, set: {workload.slots: 3}, matrix: {workload.slots: [1]}}
"""
    found = errors_of(text)
    wanted = [
        r"c\.yaml:1: name: ",
        r"c\.yaml:2: colour: unknown key",
        r"c\.yaml:4: cells\.0\.experiment: cannot read the experiment nowhere\.yaml",
        r"c\.yaml:5: cells\.1\.minute: unknown key",
        r"c\.yaml:6: cell b: no arm 'nope': e\.yaml has stock, migrate",
        r"c\.yaml:10: cell c: workload\.bytes: 'much' is no size",
        r"c\.yaml:11: cell c: topology\.nics\.deep: topology\.nics is no mapping in which 'deep' could be set",
        r"c\.yaml:15: cell d-opdance-rate_gbit-1: workload\.op: .*not 'dance'",
        r"c\.yaml:15: cell d-opjump-rate_gbit-1: workload\.op: .*not 'jump'",
        r"c\.yaml:16: cell d-opdance-rate_gbit-1, d-opjump-rate_gbit-1: .*rate_gbit",
        r"c\.yaml:17: cell e: bad\.yaml:2: rate_gbit",
        r"c\.yaml:17: cell e: bad\.yaml:3: workload\.op",
        r"c\.yaml:17: cell e: bad\.yaml:4: arms",
        r"c\.yaml:18: cell b: a cell of this name is there already, of line 6",
        r"c\.yaml:20: cells\.8\.repeats: .*not 0",
        r"c\.yaml:21: cells\.9\.matrix\.workload\.slots: the entry's `set` has the same key",
    ]
    for pattern in wanted:
        assert any(re.search(pattern, error) for error in found), (pattern, found)
    assert [int(error.split(":")[1]) for error in found] == sorted(int(error.split(":")[1]) for error in found)


def test_what_a_set_makes_wrong_is_told_at_its_key() -> None:
    (error,) = errors_of("name: x\ncells:\n  - experiment: e.yaml\n    set:\n      seed: 1\n      workload.bytes: 3\n")
    assert error.startswith("c.yaml:6: cell e: workload.bytes: ")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("name: [\n", "c.yaml:2: not valid YAML"),
        ("- 1\n", "c.yaml:1: "),
        ("name: x\n", "c.yaml:1: cells: this is required"),
        ("name: x\ncells: []\n", "c.yaml:2: cells: "),
        ("name: x\ncells: [1]\n", "c.yaml:2: cells.0: "),
        ("name: x\nname: y\ncells: [{experiment: e.yaml}]\n", "c.yaml:2: duplicate key"),
        ("name: x\ncells: [{experiment: e.yaml, matrix: {seed: []}}]\n", "c.yaml:2: cells.0.matrix.seed: "),
        ("name: x\ncells: [{experiment: e.yaml, inventory: nowhere.yaml}]\n", "c.yaml:2: cell e: "),
    ],
)
def test_files_that_are_no_campaigns(text: str, wanted: str) -> None:
    assert any(error.startswith(wanted) for error in errors_of(text)), errors_of(text)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"cannot read the campaign no\.yaml"):
        load(Path("no.yaml"))


def test_dotted_keys() -> None:
    value = {"a": [{"b": 1}], "c": None}
    assert applied(value, {"a.0.b": 2, "d.e": [1]}) == ({"a": [{"b": 2}], "c": None, "d": {"e": [1]}}, {})
    assert value == {"a": [{"b": 1}], "c": None}, "a copy"
    for key in ("a.1.b", "a.x", "a.0.b.c", "c.d", ""):
        assert applied(value, {key: 1, "c": 2})[1].keys() >= {key}, "told"
        assert applied(value, {"a.1.b": 1, "d": 2})[0] == {**value, "d": 2}, "the others are in it"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_campaigns_say_how_long_they_take(path: Path) -> None:
    found = load(path)
    assert found.name == path.stem
    assert [cell.name for cell in found.cells if cell.minutes is None or not cell.arms] == []


def test_names_of_combinations_are_names_of_files() -> None:
    matrix = {"x.y": ["a/b", 0.5, {"k": [1, 2]}, "..", None], "arms.2": [True]}
    names = [name for name, _ in combinations("n", matrix)]
    assert names == [f"n-y{word}-armstrue" for word in ("a_b", "0.5", "k_=_1_2", "..", "null")]


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (lambda text: text.replace("name: scripted", "name: scripted\ndescription: in other words"), True),
        (lambda text: text.replace("warmup: 1", "warmup: 1, op: stream").replace("op: stream, ", "", 1), True),
        (lambda text: text.replace("warmup: 1", "warmup: 1, timeout_s: 120.0"), True),
        (lambda text: text.replace("warmup: 1", "warmup: 0"), False),
        (lambda text: text.replace("hosts: 2", "hosts: 3"), False),
        (lambda text: text.replace("30.0", "31.0"), False),
    ],
)
def test_another_fingerprint_means_other_results(change: Callable[[str], str], same: bool) -> None:
    before = [cell.fingerprint for cell in load(Path("c.yaml")).cells]
    Path("e.yaml").write_text(change(Path("e.yaml").read_text()))
    assert ([cell.fingerprint for cell in load(Path("c.yaml")).cells] == before) is same


def test_a_topology_in_a_file_of_its_own_counts_too() -> None:
    Path("t.yaml").write_text("{hosts: 2, nics: 2}\n")
    Path("e.yaml").write_text(Path("e.yaml").read_text().replace("{hosts: 2, nics: 2, rate_gbit: 1.0}", "t.yaml"))
    before = load(Path("c.yaml")).cells[0].fingerprint
    Path("t.yaml").write_text("{hosts: 2, nics: 2, rate_gbit: 2.0}\n")
    assert load(Path("c.yaml")).cells[0].fingerprint != before
