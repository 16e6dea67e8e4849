"""`r2cc serve` in a real browser: search, tick, compare; nothing loaded from elsewhere, nothing complained about."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from chromium import Chromium, binary

from reports.serve.server import serving

pytestmark = [pytest.mark.browser, pytest.mark.skipif(binary() is None, reason="needs Chromium (apt install chromium)")]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    for name, factor in (("20260101T000000Z-a", 1.0), ("20260102T000000Z-b", 1.3)):
        runs = [{"run": n, "healthy_ms": {"median": (100 + n) * factor}, "faults": [], "metrics": []} for n in range(6)]
        summary = {"experiment": "nic_down", "verdict": "holds", "bed": "lab", "hardware": {"fingerprint": "f"}}
        (tmp_path / name).mkdir()
        arms = [{"name": "migrate", "runs": runs}]
        (tmp_path / name / "summary.json").write_text(json.dumps({**summary, "arms": arms}))
    with serving(tmp_path) as where:
        yield where


def _clean(browser: Chromium, address: str) -> None:
    assert [url for url in browser.requests() if not url.startswith((address, "data:"))] == []
    assert [text for text in browser.complaints() if "favicon" not in text] == []


def _submit(browser: Chromium, script: str) -> None:
    """Runs a script that leaves the page, and waits for the next one."""
    browser.evaluate(f"window.old = true; {script}; true")
    for _ in range(200):
        with suppress(RuntimeError):  # the old page has gone while it was asked
            if browser.evaluate("!window.old && document.readyState === 'complete'"):
                return
    raise AssertionError("the page stays")


def test_search_tick_and_compare(browser: Chromium, address: str) -> None:
    browser.open(address)
    assert browser.evaluate("document.querySelectorAll('tbody tr').length") == 2
    assert browser.evaluate("getComputedStyle(document.querySelector('form.search')).display") == "flex"
    _clean(browser, address)
    _submit(browser, "document.querySelector('[name=experiment]').value = 'flap'; document.forms[0].submit()")
    assert "No run is like that" in browser.evaluate("document.body.textContent")
    browser.open(address)
    tick = "document.querySelectorAll('input[type=checkbox]').forEach(box => { box.checked = true })"
    _submit(browser, f"{tick}; document.forms[1].submit()")
    assert browser.evaluate("document.querySelector('strong').textContent") in ("worse", "better")
    _clean(browser, address)


def test_every_page_is_readable_on_a_phone_and_named(browser: Chromium, address: str) -> None:
    browser.resize(390, 800, mobile=True)
    for path in ("", "run/20260101T000000Z-a", "compare?run=20260101T000000Z-a&run=20260102T000000Z-b", "nothing"):
        browser.open(address + path)
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth + 1"), path
        assert browser.evaluate("document.title").endswith("R2CC")
        unnamed = "[...document.querySelectorAll('input')].filter(e => !e.labels.length && !e.ariaLabel).length"
        assert browser.evaluate(unnamed) == 0
