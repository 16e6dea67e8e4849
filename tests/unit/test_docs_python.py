"""What docs/howto/python.md shows runs, block after block, and prints what it says; pytest.md can be collected."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pandas  # noqa: F401 - pytester forgets what is first imported in a test, and numpy cannot be imported twice
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```)?", flags=re.S | re.M)

pytest_plugins = "pytester"


def blocks(page: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / "docs" / "howto" / page).read_text())


def stripped(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def test_the_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    shown = blocks("python.md")
    for code, wanted in shown:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(code, "python.md", "exec"), names)
        assert stripped(said.getvalue()) == stripped(wanted), code
    assert len(shown) >= 5


def test_arms_that_are_asked_for_are_those_of_the_experiment() -> None:
    """In calls of Python and in commands, of pages, docstrings and examples of commands."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "r2cc").glob("*.py")]
    text = "\n".join(page.read_text() for page in pages)
    calls = re.findall(r'\brun\(\s*"(experiments/[^"]+)", arms=\[([^\]]+)\]', text.replace("r2cc_run(", "run("))
    commands = re.findall(r"chaos run (experiments/\S+\.yaml)[^\n`#]* --arms ([\w,]+)", text)
    assert len(calls) >= 4 and commands
    for file, arms in calls + commands:
        known = yaml.safe_load((ROOT / file).read_text())["arms"]
        assert set(re.findall(r"\w+", arms)) <= set(known), (file, arms)


def test_columns_are_those_of_the_page() -> None:
    import r2cc

    run = r2cc.open(ROOT / "tests" / "data" / "runs" / "recorded")
    page = (ROOT / "docs" / "howto" / "python.md").read_text()
    for table in (run.iterations(), run.samples(), run.samples("gpu")):
        assert f"`{' '.join(table.columns)}`" in page
    for table in (run.faults(), run.summary()):
        (words,) = re.findall(rf"`({table.columns[0]} repeat {table.columns[2]} .*?)`", page)
        assert list(table.columns[: len(words.split())]) == words.split()


def test_the_tests_of_the_page_can_be_collected(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("\n".join(code for code, _ in blocks("pytest.md")))
    result = pytester.runpytest("-p", "no:cacheprovider", "--collect-only", "-q", "--strict-markers")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*2 tests collected*"])
