"""The pages that follow from the code are what the code says now."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def generated() -> dict[Path, str]:
    spec = importlib.util.spec_from_file_location("r2cc_docs", ROOT / "scripts" / "docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.pages())


PAGES = generated()
NOT_READ = {"R2CC_COMPLETE", "R2CC_CI_STARTED"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_it_is_not_stale(page: Path) -> None:
    assert page.read_text() == PAGES[page], "run `make docs`"


def test_every_variable_that_is_read_is_explained() -> None:
    found: set[str] = set()
    for folder in ("r2cc_patches", "r2cc", "harness", "chaos", "reports", "ci"):
        for file in (ROOT / folder).glob("**/*"):
            if file.suffix in (".cc", ".h", ".inc", ".py"):
                found |= set(re.findall(r'"(R2CC_[A-Z_]+)"', file.read_text()))
    text = (ROOT / "docs/reference/environment.md").read_text()
    assert sorted(name for name in found - NOT_READ if f"`{name}`" not in text) == []
