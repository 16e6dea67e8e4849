"""The HTML report as a browser sees it: nothing loaded, nothing complained about, everything named, fits a phone."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "data" / "runs")]

import synthetic_run  # noqa: E402
from chromium import CONTRAST, Chromium, binary  # noqa: E402
from nccl_text import nccl_tests  # noqa: E402

from reports.formats import write  # noqa: E402
from reports.reading import rundir  # noqa: E402
from reports.store.imports import About, Degraded, bring_in  # noqa: E402

pytestmark = [pytest.mark.browser, pytest.mark.skipif(binary() is None, reason="needs Chromium (apt install chromium)")]

HOSTILE = "</script><img src=x onerror=\"window.pwned=1\"><svg onload='window.pwned=1'>"
FIGURES = [
    *("fig-bandwidth", "fig-iterations", "fig-waits", "fig-failover"),
    *("fig-stalls", "fig-heat", "fig-nic-bytes", "fig-history"),
]
UNNAMED = """[...document.querySelectorAll('figure, [role=img], [role=region], section')].filter(e => {
  const ids = (e.getAttribute('aria-labelledby') || '').split(' ').filter(Boolean);
  const words = ids.map(i => document.getElementById(i)?.textContent || '').join('');
  const label = e.getAttribute('aria-label') || words;
  return !label.trim() || ids.some(i => !document.getElementById(i));
}).map(e => e.outerHTML.slice(0, 120))"""
DESCRIBED = """[...document.querySelectorAll('figure svg[role=img]')]
  .every(s => s.querySelector('desc').textContent.length > 20)"""
CELLS = r"""(() => {
  const parts = c => c.match(/[\d.]+/g).map(Number);
  const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const lum = c => c.slice(0, 3).map(v => linear(v / 255)).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  return [...document.querySelectorAll('#fig-heat .panels rect.heat')].map(cell => {
    const style = getComputedStyle(cell), fill = parts(style.fill), share = Number(style.fillOpacity);
    const panel = parts(getComputedStyle(cell.closest('.panel')).backgroundColor);
    const ground = fill.slice(0, 3).map((v, i) => v * share + panel[i] * (1 - share));
    let text = cell.nextElementSibling;
    while (text.tagName !== 'text') text = text.nextElementSibling;
    const [a, b] = [lum(parts(getComputedStyle(text).fill)), lum(ground)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  });
})()"""
"""JavaScript: the contrast of the number in each cell of the heat map to the cell."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a whole run with an earlier one next to it."""
    store = tmp_path_factory.mktemp("whole runs")
    run = synthetic_run.make(store / "20260102T000000Z-nic_down", synthetic_run.Options(repeats=2, iterations=20))
    (store / "20260101T000000Z-nic_down").mkdir()
    shutil.copy(run / "summary.json", store / "20260101T000000Z-nic_down")
    return write.write(rundir.load(run), "html", run)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the later of two measurements with nccl-tests, with a degraded one."""
    folder = tmp_path_factory.mktemp("imported")
    for day, factor in enumerate((1.0, 1.1), 1):
        file = folder / f"all_reduce-{day}.txt"
        file.write_text(nccl_tests(factor))
        os.utime(file, (day * 86400, day * 86400))
    (folder / "cut.txt").write_text(nccl_tests(0.7))
    store, about, cut = folder / "store", About("all_reduce"), Degraded(folder / "cut.txt", 0.75)
    runs = [*bring_in(store, [folder / "all_reduce-1.txt"], about)]
    runs += bring_in(store, [folder / "all_reduce-2.txt"], about, degraded=cut)
    return write.write(rundir.load(runs[-1]), "html", runs[-1])


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """One browser for all tests, with a profile of its own."""
    with Chromium(tmp_path_factory.mktemp("profile")) as chromium:
        yield chromium


@pytest.fixture(autouse=True)
def _desktop(browser: Chromium) -> None:
    browser.resize(1200, 900)
    browser.prefer("light")


def report(path: Path, options: synthetic_run.Options) -> Path:
    run = rundir.load(synthetic_run.make(path / "run", options))
    return write.write(run, "html", run.path)


def test_the_page_asks_for_nothing_and_nothing_complains(browser: Chromium, page: Path) -> None:
    browser.open(page.as_uri())
    assert [url for url in browser.requests() if url != page.as_uri() and not url.startswith("data:")] == []
    assert browser.complaints() == []


def test_the_recorder_sees_a_request_and_the_policy_stops_it(browser: Chromium, page: Path, tmp_path: Path) -> None:
    """Without this the test above would pass with a recorder that records nothing."""
    spoiled = tmp_path / "spoiled.html"
    image = '<img src="http://127.0.0.1:9/pixel.png">'
    text = page.read_text(encoding="utf-8").replace("</main>", f"{image}</main>")
    spoiled.write_text(text, encoding="utf-8")
    browser.open(spoiled.as_uri())
    assert any("Content Security Policy" in text for text in browser.complaints())
    spoiled.write_text(re.sub(r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>", "", text), encoding="utf-8")
    browser.open(spoiled.as_uri())
    assert "http://127.0.0.1:9/pixel.png" in browser.requests()


def test_the_style_sheet_passes_the_policy(browser: Chromium, page: Path) -> None:
    browser.open(page.as_uri())
    assert browser.evaluate("getComputedStyle(document.querySelector('.tiles')).display") == "grid"


def test_every_figure_is_there_and_has_a_name(browser: Chromium, page: Path) -> None:
    browser.open(page.as_uri())
    assert browser.evaluate("[...document.querySelectorAll('figure')].map(f => f.id)") == FIGURES
    assert browser.evaluate(UNNAMED) == []
    assert browser.evaluate(DESCRIBED) is True
    assert browser.evaluate("document.querySelectorAll('figure svg[role=img]').length") >= 20
    assert page.stat().st_size < 1_000_000
    drawn = "[...document.querySelectorAll('figure > .panels svg[role=img]')].every(s => s.getBBox().width > 200)"
    assert browser.evaluate(drawn) is True


def test_landmarks_headings_tables_and_ids(browser: Chromium, page: Path) -> None:
    browser.open(page.as_uri())
    count = "document.querySelectorAll({!r}).length"
    for selector, wanted in {"main": 1, "header": 1, "footer": 1, "h1": 1}.items():
        assert browser.evaluate(count.format(selector)) == wanted, selector
    assert browser.evaluate(
        "[...document.querySelectorAll('table')].every(t => t.caption && t.caption.textContent.trim())"
    )
    assert browser.evaluate("[...document.querySelectorAll('th')].every(t => t.scope)")
    ids = browser.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids)) > 20
    assert (
        browser.evaluate(
            "document.querySelectorAll('[style], script, [onclick], iframe, object, link[rel=stylesheet]').length"
        )
        == 0
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_themes(browser: Chromium, page: Path, scheme: str, tmp_path: Path) -> None:
    browser.prefer(scheme)
    browser.open(page.as_uri())
    light = browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert light == (scheme == "light")
    assert browser.evaluate(CONTRAST) == []
    assert min(browser.evaluate(CELLS)) >= 4.5
    browser.screenshot(tmp_path / f"{scheme}.png")


@pytest.mark.parametrize("width", [320, 360, 768])
def test_nothing_overflows_a_small_screen(browser: Chromium, page: Path, width: int, tmp_path: Path) -> None:
    browser.resize(width, 740, mobile=True)
    browser.open(page.as_uri())
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    outside = f"""[...document.querySelectorAll('body *')]
      .filter(e => !e.closest('.scroll, .skip, .sr') && e.getBoundingClientRect().right > {width} + 0.5)
      .map(e => e.outerHTML.slice(0, 100))"""
    assert browser.evaluate(outside) == []
    assert browser.screenshot(tmp_path / "phone.png").stat().st_size > 20_000


def test_text_of_figures_is_large_enough_on_a_phone(browser: Chromium, page: Path) -> None:
    browser.resize(360, 740, mobile=True)
    browser.open(page.as_uri())
    heights = "[...document.querySelectorAll('figure > .panels svg text')].map(t => t.getBoundingClientRect().height)"
    assert min(browser.evaluate(heights)) >= 8


def test_scrolling_parts_can_be_reached_by_keyboard(browser: Chromium, page: Path) -> None:
    browser.resize(360, 740, mobile=True)
    browser.open(page.as_uri())
    unreachable = (
        "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth && e.tabIndex < 0).length"
    )
    assert browser.evaluate(unreachable) == 0


def test_it_prints(browser: Chromium, page: Path) -> None:
    browser.open(page.as_uri())
    pdf = browser.pdf()
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert pdf.startswith(b"%PDF") and 2 <= pages <= 12


def test_curves_over_sizes_of_an_imported_run(browser: Chromium, imported: Path) -> None:
    browser.open(imported.as_uri())
    assert [url for url in browser.requests() if url != imported.as_uri() and not url.startswith("data:")] == []
    assert browser.complaints() == []
    assert browser.evaluate("[...document.querySelectorAll('figure')].map(f => f.id)") == ["fig-sizes", "fig-history"]
    assert browser.evaluate(UNNAMED) == [] and browser.evaluate(DESCRIBED) is True
    dashes = "[...document.querySelectorAll('#fig-sizes path.line')].map(p => getComputedStyle(p).strokeDasharray)"
    assert len(set(browser.evaluate(dashes))) == 3
    assert browser.evaluate("document.querySelectorAll('#fig-sizes path.bound').length") == 1
    assert browser.evaluate(CONTRAST) == []
    browser.resize(320, 740, mobile=True)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 320


def test_hostile_names_stay_text(browser: Chromium, tmp_path: Path) -> None:
    hostile = report(tmp_path, synthetic_run.Options(hostile=HOSTILE, iterations=12))
    browser.open(hostile.as_uri())
    assert browser.evaluate("typeof window.pwned") == "undefined"
    assert browser.evaluate("document.querySelectorAll('img, svg[onload], script').length") == 0
    assert browser.evaluate("document.body.textContent.includes('onerror=')") is True
    assert browser.complaints() == []


def test_half_a_run_still_makes_a_page(browser: Chromium, tmp_path: Path) -> None:
    half = report(tmp_path, synthetic_run.Options(abort_at=11))
    browser.open(half.as_uri())
    assert browser.complaints() == []
    assert browser.evaluate("[...document.querySelectorAll('figure')].map(f => f.id)")[:3] == FIGURES[:3]
    assert "did not end" in browser.evaluate("document.querySelector('.notes').textContent")
