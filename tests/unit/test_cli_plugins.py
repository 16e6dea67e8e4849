"""Reporters are called with every finished run, and none can cost another its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import plugins
from harness.plugins import ReporterError, after_run


class Entry:
    """An entry point whose function is at hand."""

    def __init__(self, name: str, function: Any) -> None:
        self.name, self.function = name, function

    def load(self) -> Any:
        return self.function


def register(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> None:
    entries = [Entry(name, function) for name, function in functions.items()]
    monkeypatch.setattr(plugins, "entries", lambda group: entries if group == "r2cc.reporters" else [])


def test_every_reporter_gets_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[tuple[str, Path, bool]] = []
    register(
        monkeypatch,
        b=lambda run_dir, *, quiet: seen.append(("b", run_dir, quiet)),
        a=lambda run_dir, *, quiet: seen.append(("a", run_dir, quiet)),
    )
    after_run(tmp_path, quiet=True)
    assert seen == [("a", tmp_path, True), ("b", tmp_path, True)]


def test_one_that_fails_is_told_after_all_were_called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[str] = []

    def fail(_run_dir: Path, *, quiet: bool) -> None:
        raise RuntimeError(f"no paper, quiet={quiet}")

    register(monkeypatch, a=fail, b=lambda _run_dir, *, quiet: seen.append("b"))
    with pytest.raises(ReporterError, match="a: RuntimeError: no paper") as caught:
        after_run(tmp_path, quiet=False)
    assert seen == ["b"]
    assert f"r2cc report {tmp_path}" in str(caught.value) and caught.value.exit_code == 3


def test_the_html_report_is_registered_and_loads() -> None:
    from importlib.metadata import entry_points

    (html,) = [entry for entry in entry_points(group=plugins.REPORTER_GROUP) if entry.name == "html"]
    assert callable(html.load())
