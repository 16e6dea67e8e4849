"""What tests of campaigns share: an experiment and a campaign of two cells, in a directory of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos_double import EXPERIMENT

VALUES = {"iterations": 8, "kind": "link_down", "times": "duration_s: 0.1", "repeats": 1}
ARMS = "{stock: {expect: any}, migrate: {expect: holds}}"
TWO = """
name: two
description: for tests
cells:
  - {experiment: e.yaml, name: first, arms: [migrate]}
  - {experiment: e.yaml, name: second, arms: [migrate], set: {workload.iterations: 7}}
"""


def prepare(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Writes both, and works there."""
    (folder / "e.yaml").write_text(EXPERIMENT % {**VALUES, "arms": ARMS})
    (folder / "c.yaml").write_text(TWO)
    monkeypatch.chdir(folder)
    return folder
