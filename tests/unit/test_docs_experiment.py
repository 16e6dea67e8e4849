"""What docs/reference/experiment.md says of keys and of the rate is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chaos.experiment.model import Hypothesis
from chaos.faults.spec import At
from chaos.run.fitting import BUSY_MOST
from harness.workloads.kinds.registry import kinds

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "experiment.md").read_text()
KEYS = [*Hypothesis.model_fields, *At.model_fields, *kinds()]


@pytest.mark.parametrize("key", KEYS)
def test_every_key_is_explained(key: str) -> None:
    assert re.search(rf"`{key}\b", PAGE), f"{key} has no row"


def test_how_busy_a_fitted_machine_is() -> None:
    assert f"at most {BUSY_MOST:.0%}".replace("%", " %") in PAGE
