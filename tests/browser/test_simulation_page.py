"""A simulation's report as a browser sees it: nothing loaded, everything named, readable, and it fits a phone."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "unit")]

import sim_files  # noqa: E402
from chromium import CONTRAST, Chromium, binary  # noqa: E402

from reports.simulation import model, write  # noqa: E402

pytestmark = [pytest.mark.browser, pytest.mark.skipif(binary() is None, reason="needs Chromium (apt install chromium)")]

HOSTILE = "</script><img src=x onerror=\"window.pwned=1\"><svg onload='window.pwned=1'>"


@pytest.fixture(scope="module", params=["job", "serving"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    value = sim_files.simulation() if request.param == "job" else sim_files.serving()
    return report(tmp_path_factory.mktemp("a simulation"), value)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("profile")) as chromium:
        yield chromium


@pytest.fixture(autouse=True)
def _desktop(browser: Chromium) -> None:
    browser.resize(1200, 900)
    browser.prefer("light")


def report(folder: Path, value: dict[str, object]) -> Path:
    return write.write(model.load(sim_files.run_dir(folder, value)), "html", folder)


def test_the_page_asks_for_nothing_and_nothing_complains(browser: Chromium, page: Path) -> None:
    browser.open(page.as_uri())
    assert [url for url in browser.requests() if url != page.as_uri() and not url.startswith("data:")] == []
    assert browser.complaints() == []
    assert browser.evaluate("getComputedStyle(document.querySelector('.tiles')).display") == "grid"
    assert browser.evaluate("document.querySelectorAll('[style], script, iframe, link[rel=stylesheet]').length") == 0


def test_every_figure_has_a_name_a_description_and_labelled_axes(browser: Chromium, page: Path) -> None:
    browser.open(page.as_uri())
    unnamed = """[...document.querySelectorAll('figure, [role=img], [role=region], section')].filter(e => {
      const ids = (e.getAttribute('aria-labelledby') || '').split(' ').filter(Boolean);
      const words = ids.map(i => document.getElementById(i)?.textContent || '').join('');
      return !(e.getAttribute('aria-label') || words).trim() || ids.some(i => !document.getElementById(i));
    }).map(e => e.outerHTML.slice(0, 120))"""
    assert browser.evaluate(unnamed) == []
    images = "[...document.querySelectorAll('figure svg[role=img]')]"
    assert browser.evaluate(f"{images}.length") >= 2
    assert browser.evaluate(f"{images}.every(s => s.querySelector('desc').textContent.length > 40)") is True
    assert browser.evaluate(f"{images}.every(s => s.getBBox().width > 200)") is True
    assert browser.evaluate(f"{images}.every(s => s.querySelectorAll('text').length >= 6)") is True
    ids = browser.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids)) > 10
    tables = "[...document.querySelectorAll('table')]"
    assert browser.evaluate(f"{tables}.every(t => t.caption && t.caption.textContent.trim())")
    assert browser.evaluate("[...document.querySelectorAll('th')].every(t => t.scope)")


def test_the_marks_of_a_line_have_its_colour(browser: Chromium, tmp_path: Path) -> None:
    """Colours are set by classes alone: a class that the style sheet lacks would leave everything black."""
    browser.open(report(tmp_path, sim_files.simulation()).as_uri())
    colours = "new Set([...document.querySelectorAll('.chart .line')].map(e => getComputedStyle(e).stroke)).size"
    assert browser.evaluate(colours) == len(sim_files.simulation()["arms"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_themes(browser: Chromium, page: Path, scheme: str) -> None:
    browser.prefer(scheme)
    browser.open(page.as_uri())
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.evaluate(CONTRAST) == []


@pytest.mark.parametrize("width", [320, 390, 768])
def test_nothing_overflows_a_small_screen(browser: Chromium, page: Path, width: int) -> None:
    browser.resize(width, 740, mobile=True)
    browser.open(page.as_uri())
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    outside = f"""[...document.querySelectorAll('body *')]
      .filter(e => !e.closest('.scroll, .skip, .sr') && e.getBoundingClientRect().right > {width} + 0.5)
      .map(e => e.outerHTML.slice(0, 100))"""
    assert browser.evaluate(outside) == []


def test_it_prints(browser: Chromium, page: Path) -> None:
    browser.open(page.as_uri())
    pdf = browser.pdf()
    assert pdf.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 8


def test_hostile_names_stay_text(browser: Chromium, tmp_path: Path) -> None:
    hostile = sim_files.simulation(title=HOSTILE, name="x", params=[])
    hostile["references"][0]["source"] = HOSTILE
    hostile["coverage"][0]["kind"] = HOSTILE
    browser.open(report(tmp_path, hostile).as_uri())
    assert browser.evaluate("typeof window.pwned") == "undefined"
    assert browser.evaluate("document.querySelectorAll('img, svg[onload], script').length") == 0
    assert browser.evaluate("document.body.textContent.includes('onerror=')") is True
    assert browser.complaints() == []
