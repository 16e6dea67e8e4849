"""The pages that follow from the code are what the code says now."""

from __future__ import annotations

import importlib.util
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_it_is_not_stale(page: Path) -> None:
    assert page.read_text() == PAGES[page], "run `make docs`"
