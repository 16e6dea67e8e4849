"""docs/reference/faults.md: what it says by hand (tests/unit/test_docs_generated.py has its tables)."""

from __future__ import annotations

import re
from pathlib import Path

from chaos.faults.catalogue import example
from chaos.faults.registry import kinds

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "faults.md").read_text()


def test_only_what_cuts_the_controller_off_needs_the_dead_man_switch() -> None:
    assert [kind for kind in kinds() if example(kind).needs_deadman] == ["controller_lost"]
    assert "Never without a dead-man switch" in TEXT


def test_the_tests_that_it_names_are_there() -> None:
    root = Path(__file__).resolve().parents[2]
    named = re.findall(r"`(tests/[^`]+)`", TEXT)
    assert len(named) >= 4
    assert all((root / name).exists() for name in named)
