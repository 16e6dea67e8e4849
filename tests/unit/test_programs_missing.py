"""The programs of experiments/jobs, where what they need is not installed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

JOBS = Path(__file__).parents[2] / "experiments/jobs"
PROGRAMS = sorted((JOBS / "recovery").glob("*.py"))
STARTED = sorted(path for path in (JOBS / "programs").glob("*.py") if "__main__" in path.read_text())
HERE = {path.stem for path in (JOBS / "programs").glob("*.py")}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_what_is_missing_is_one_line(program: Path) -> None:
    code = "import runpy, sys; sys.modules['torch'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code, program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "needs torch" in done.stderr
    assert done.stderr.rstrip().endswith("this Python has no torch")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(("name", "lacked"), [("torchft_replicas", "torchft"), ("in_process", "nvidia_resiliency_ext")])
def test_what_is_missing_beside_torch_is_one_line(name: str, lacked: str) -> None:
    code = """
import runpy, sys
from unittest.mock import MagicMock
sys.modules.update({"torch": MagicMock(), "torch.distributed": MagicMock(), sys.argv[2]: None})
runpy.run_path(sys.argv[1], run_name="__main__")
"""
    words = [sys.executable, "-c", code, str(JOBS / "recovery" / f"{name}.py"), lacked]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith(f"{name}.py needs torch and {lacked.replace('_', '-')}: ")
    assert done.stderr.endswith(f"this Python has no {lacked}\n")
    assert len(done.stderr.splitlines()) == 1


def needed(program: Path) -> list[str]:
    """Whole names of the modules that it imports at its top, but Python's own and those beside it."""
    found = []
    for node in ast.parse(program.read_text()).body:
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
    own = sys.stdlib_module_names | HERE
    return [name for name in found if name.partition(".")[0] not in own]


def without(program: Path, lacked: str) -> subprocess.CompletedProcess[str]:
    """It finds packages that do nothing, but none of the one that is lacked."""
    code = """
import sys
from unittest.mock import MagicMock
program, lacked, *names = sys.argv[1:]
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == lacked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Finder())
for name in names:
    for end in [*(i for i, c in enumerate(name) if c == "."), len(name)]:
        if not (name[:end] + ".").startswith(lacked + "."):
            sys.modules[name[:end]] = MagicMock()
sys.argv, sys.path[0] = [program], program.rpartition("/")[0]
exec(compile(open(program).read(), program, "exec"), {"__name__": "__main__"})
"""
    helpers = [name for path in (JOBS / "programs").glob("*.py") for name in needed(path)]
    words = [sys.executable, "-c", code, str(program), lacked, *helpers]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("program", STARTED, ids=lambda path: path.stem)
def test_a_package_that_is_missing_is_named_in_one_line(program: Path) -> None:
    packages = sorted({name.partition(".")[0] for name in needed(program)})
    assert packages or program.stem == "ring"
    for package in packages:
        done = without(program, package)
        said = f"{program.name} needs {package}, and {sys.executable} does not have it\n"
        assert (done.returncode, done.stderr) == (2, said), package


def test_other_errors_keep_their_traceback(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("import missing\nmissing.nothing\n")
    (tmp_path / "missing.py").write_text((JOBS / "programs" / "missing.py").read_text())
    done = subprocess.run([sys.executable, str(tmp_path / "wrong.py")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and re.search(r"Traceback.*AttributeError", done.stderr, re.DOTALL)
