"""docs/reference/faults.md: its tables are made from the classes, and the tests that it names are there."""

from __future__ import annotations

import re
from pathlib import Path

from chaos.faults.catalogue import example
from chaos.faults.page import markdown
from chaos.faults.registry import kinds

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "faults.md").read_text()
MADE = re.search(r"<!-- made by `make docs` -->\n\n(.*?)\n<!-- end -->", TEXT, re.DOTALL)


def test_the_tables_are_those_of_the_classes() -> None:
    assert MADE is not None
    assert MADE[1] == markdown(), "make docs"


def test_only_what_cuts_the_controller_off_needs_the_dead_man_switch() -> None:
    assert [kind for kind in kinds() if example(kind).needs_deadman] == ["controller_lost"]
    assert "Never without a dead-man switch" in TEXT


def test_the_tests_that_it_names_are_there() -> None:
    root = Path(__file__).resolve().parents[2]
    named = re.findall(r"`(tests/[^`]+)`", TEXT)
    assert len(named) >= 4
    assert all((root / name).exists() for name in named)
