"""A program's own folder is where Python looks first: no file there may hide a package that a program needs."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
FOLDERS = ("experiments/jobs/programs", "experiments/jobs/recovery", "harness/workloads", "harness/workloads/inference")
"""Where programs are started by their path. `rank.py` and `keeper.py` take the folder out of the search first."""
PATH_REPLACED = "sys.path[0] ="


def imported(file: Path) -> set[str]:
    """Whole names of modules, as the file says them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return found


def hidden(folder: Path) -> set[str]:
    """Names of files that stand in the way of another module: of Python's own, of a package (only those have dots),
    or of what the file itself imports."""
    files = [each for each in folder.glob("*.py") if each.name != "__init__.py"]
    started = [each for each in files if "__main__" in (text := each.read_text()) and PATH_REPLACED not in text]
    if not started:
        return set()
    names, needed = {each.stem for each in files}, set(sys.stdlib_module_names)
    for each in started:
        modules = imported(each)
        needed |= {name.partition(".")[0] for name in modules if "." in name}
        needed |= modules & {each.stem}
    return names & needed


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_program_hides_what_it_imports(folder: str) -> None:
    assert list((REPO / folder).glob("*.py")), folder
    assert not hidden(REPO / folder)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("megatron", "from megatron.core import parallel_state"),
        ("jax", "import jax"),
        ("queue", "import torch"),
    ],
)
def test_one_that_does_is_found(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text(f"{text}\nif __name__ == '__main__':\n    pass\n")
    assert hidden(tmp_path) == {name}


def test_a_helper_of_a_program_is_no_danger(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nfrom ranks import join\nif __name__ == '__main__':\n    join()\n")
    (tmp_path / "ranks.py").write_text("def join(): ...\n")
    assert hidden(tmp_path) == set()
