"""No test that cannot fail: each asserts something, itself or through what it calls."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
JUDGES = ("raises", "warns", "fail", "fnmatch_lines")
"""Of pytest."""
Judging = dict[str, set[Path]]
"""By name the files whose function of that name asserts something."""


class Suite:
    """The functions of some files. One that a file has itself goes before others of its name."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.functions = [
            (path, node)
            for path in paths
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.FunctionDef)
        ]
        self._homes: dict[str, set[Path]] = {}
        for path, node in self.functions:
            self._homes.setdefault(node.name, set()).add(path)

    def tests(self) -> list[tuple[Path, ast.FunctionDef]]:
        return [(path, node) for path, node in self.functions if node.name.startswith("test_")]

    def without(self) -> list[str]:
        """Tests that assert nothing."""
        known: Judging = {}
        while True:
            judging: Judging = {}
            for path, node in self.functions:
                if self._asserts(path, node, known):
                    judging.setdefault(node.name, set()).add(path)
            if judging == known:
                return [
                    f"{path.name}: {node.name}"
                    for path, node in self.tests()
                    if path not in known.get(node.name, set())
                ]
            known = judging

    def _asserts(self, path: Path, node: ast.FunctionDef, known: Judging) -> bool:
        return any(isinstance(each, ast.Assert) for each in ast.walk(node)) or any(
            name in JUDGES or self._judges(path, name, known) for name in called(node)
        )

    def _judges(self, path: Path, name: str, known: Judging) -> bool:
        homes = self._homes.get(name, set())
        return bool((({path} & homes) or homes) & known.get(name, set()))


def called(node: ast.AST) -> set[str]:
    calls = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
    return {func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "") for func in calls}


def test_every_test_asserts_something() -> None:
    suite = Suite(sorted(path for path in TESTS.rglob("*.py") if TESTS / "data" not in path.parents))
    assert len(suite.tests()) > 1000
    assert suite.without() == []


def test_one_that_asserts_nothing_is_found(tmp_path: Path) -> None:
    helpers, file = tmp_path / "helpers.py", tmp_path / "test_it.py"
    helpers.write_text("def held():\n    assert 1\n\ndef shown():\n    assert 1\n")
    own = "def far():\n    held()\n\ndef shown():\n    print(1)\n\n"
    file.write_text(own + "def test_a():\n    far()\n\ndef test_b():\n    shown()\n")
    assert Suite([helpers, file]).without() == ["test_it.py: test_b"]
