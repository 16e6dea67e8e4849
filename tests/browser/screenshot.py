"""Takes the pictures of a report for docs/img: `python tests/browser/screenshot.py REPORT.html docs/img`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from chromium import Chromium

VIEWS = {"report.png": ("light", 1120, 1900, False), "report-phone.png": ("dark", 390, 844, True)}


def take(page: Path, target: Path) -> None:
    """The top of the page on a desktop, and a phone in the dark theme."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile, Chromium(Path(profile)) as browser:
        for name, (scheme, width, height, mobile) in VIEWS.items():
            browser.prefer(scheme)
            browser.resize(width, height, mobile=mobile)
            browser.open(page.resolve().as_uri())
            print(browser.screenshot(target / name, whole=False))


if __name__ == "__main__":
    take(Path(sys.argv[1]), Path(sys.argv[2]))
