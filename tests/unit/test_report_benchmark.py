"""benchmarks/demo_figures.py: what holds, misses and is void, and the exit code that follows."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "data" / "runs"))

import synthetic_run
from synthetic_run import Options

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    """The script as a module; it is no package, because it is not installed."""
    spec = importlib.util.spec_from_file_location("demo_figures", ROOT / "benchmarks" / "demo_figures.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["demo_figures"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("options", "code", "line"),
    [
        (Options(), 0, "stall, link_down"),
        (Options(stall_ms=45.0), 1, "MISSES"),
        (Options(stall_ms=45.0, kind="black_hole"), 0, "stall, black_hole"),
        (Options(stall_ms=140.0, kind="black_hole"), 1, "MISSES"),
        (Options(cpu_busy=0.97), 3, "void"),
        (Options(cpu_busy=0.97, stall_ms=45.0), 3, "void"),
        (Options(abort_at=9), 1, "MISSES"),
    ],
)
def test_exit_codes(demo: ModuleType, tmp_path: Path, options: Options, code: int, line: str) -> None:
    done = CliRunner().invoke(demo.main, [str(synthetic_run.make(tmp_path / "run", options))])
    assert done.exit_code == code, done.output
    assert line in done.output


def test_every_figure_of_the_issue_is_printed(demo: ModuleType, tmp_path: Path) -> None:
    one = synthetic_run.make(tmp_path / "one")
    two = synthetic_run.make(tmp_path / "two", Options(kind="black_hole", stall_ms=20.0, repeats=2, iterations=24))
    output = CliRunner().invoke(demo.main, [str(one), str(two)]).output
    for name in (
        "wrong elements, all iterations",
        "stall, link_down",
        "stall, black_hole",
        "failover iteration / bound, link_down",
        "healthy iteration / stock",
        "memory of a rank over stock",
    ):
        assert name in output
    assert "two #2" in output and "/10.0 ms" in output and "/8.0 MiB" in output


def test_what_was_not_measured_misses(demo: ModuleType) -> None:
    assert demo.judge(None, 10.0, void=False) == demo.MISSES
    assert demo.judge(None, 10.0, void=True) == demo.VOID
    assert demo.judge(10.0, 10.0, void=False) == demo.HOLDS
    assert demo.exit_code([]) == 1


def test_a_directory_without_a_journal_is_bad_input(demo: ModuleType, tmp_path: Path) -> None:
    done = CliRunner().invoke(demo.main, [str(tmp_path)])
    assert done.exit_code == 2 and "not a run directory" in done.output
