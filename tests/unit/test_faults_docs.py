"""docs/reference/faults.md against the code: every kind, what it needs on a cluster, whether RDMA notices."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chaos.experiment.fault_spec import METHODS
from chaos.faults.catalogue import KINDS, example

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "faults.md").read_text()
ROWS = {
    cells[0].strip("` "): cells
    for line in TEXT.splitlines()
    if line.startswith("| `") and len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 6
}


def test_every_kind_has_a_row() -> None:
    assert set(ROWS) == set(KINDS)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_row_says_what_the_code_says(kind: str) -> None:
    fault = example(kind, inside=True)
    _, _, cluster, needs, _, notices = ROWS[kind]
    assert needs == ", ".join([*fault.requires, fault.privilege, *fault.features])
    assert notices == ("no" if fault.kernel_path_only else "yes")
    for method in METHODS.get(kind, ())[1:]:
        assert kind in ("flap", "rail_down") or f"method: {method}" in cluster


def test_only_what_cuts_the_controller_off_needs_the_dead_man_switch() -> None:
    assert [kind for kind in KINDS if example(kind).needs_deadman] == ["controller_lost"]
    assert "Never without a dead-man switch" in TEXT


def test_the_tests_that_it_names_are_there() -> None:
    root = Path(__file__).resolve().parents[2]
    named = re.findall(r"`(tests/[^`]+)`", TEXT)
    assert len(named) >= 4
    assert all((root / name).exists() for name in named)
