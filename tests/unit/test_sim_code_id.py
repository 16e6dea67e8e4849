"""The id of the code that computes cells: it changes with whatever a figure comes from, and with nothing else."""

from __future__ import annotations

from pathlib import Path

import grimp
import pytest

from chaos.simulate.run import cell
from chaos.simulate.workloads.kinds import KINDS

READS = ("harness.config", "harness.errors", "harness.repo", "harness.schemas")
"""Reads the experiment, which a cell's key covers, or gives words their form, or says what went wrong."""


@pytest.fixture
def fresh() -> None:
    cell.code_id.cache_clear()


def module_of(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def test_all_that_a_cell_imports_is_covered() -> None:
    graph = grimp.build_graph("chaos", "harness")
    needed = {"chaos.simulate.run.cell", *(f"chaos.simulate.workloads.{kind}" for kind in KINDS)}
    needed |= {module for start in list(needed) for module in graph.find_upstream_modules(start)}
    assert len(needed) > 40, "the imports are not followed"
    computing = {module for module in needed if not module.startswith(READS)}
    assert computing <= {module_of(name) for name in cell.code_files()}


def test_its_numbers_are_covered_and_commands_are_not() -> None:
    names = cell.code_files().keys()
    data = {path.relative_to(path.parents[3]).as_posix() for path in Path(cell.__file__).parents[1].rglob("*.yaml")}
    assert {name for name in names if name.endswith(".yaml")} == data
    assert {module_of(name) for name in names} & {
        "chaos.simulate.commands", "chaos.simulate.forms", "chaos.simulate.run.display", "chaos.simulate.run.sweep",
        "chaos.simulate.validate.checks",
    } == set()  # fmt: skip


@pytest.mark.usefixtures("fresh")
def test_a_change_of_a_file_or_of_its_name_is_another_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "solver.py"
    ids = set()
    for name, text in (("a/solver.py", "x = 1"), ("a/solver.py", "x = 2"), ("b/solver.py", "x = 2")):
        file.write_text(text)
        monkeypatch.setattr(cell, "code_files", lambda name=name: {name: file})
        cell.code_id.cache_clear()
        ids.add(cell.code_id())
    cell.code_id.cache_clear()
    assert len(ids) == 3
