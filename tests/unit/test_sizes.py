"""The limits of CONTRIBUTING.md: no function over 60 lines, no file over 400. clang-tidy says the first of C++."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_OF_A_FUNCTION, MOST_OF_A_FILE = 60, 400
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def sources(*patterns: str) -> list[Path]:
    """What git keeps, or would."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *patterns]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def long_functions(path: Path) -> list[str]:
    """Each with its signature and docstring."""
    functions = [each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, FUNCTION)]
    lines = [(each.name, (each.end_lineno or each.lineno) - each.lineno + 1) for each in functions]
    return [f"{path.name}: {name}, {count} lines" for name, count in lines if count > MOST_OF_A_FUNCTION]


def test_functions_of_python_are_short() -> None:
    found = sources("*.py")
    assert len(found) > 100
    assert [line for path in found for line in long_functions(path)] == []


def test_files_are_short() -> None:
    found = sources("*.py", "*.cc", "*.h", "*.inc", "*.cpp")
    lines = {path: len(path.read_bytes().splitlines()) for path in found}
    assert [f"{path.name}: {count} lines" for path, count in lines.items() if count > MOST_OF_A_FILE] == []


def test_a_long_function_is_found(tmp_path: Path) -> None:
    file = tmp_path / "long.py"
    file.write_text("def short():\n    pass\n\n\ndef long():\n" + "    pass\n" * MOST_OF_A_FUNCTION)
    assert long_functions(file) == ["long.py: long, 61 lines"]
