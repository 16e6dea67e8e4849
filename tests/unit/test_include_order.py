"""The order in which folders of our C++ include each other: kept, and seen when it is broken."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "r2cc_patches"


def check(native: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts" / "include_order.py", native]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in ("src", "planner"):
        shutil.copytree(NATIVE / name, tmp_path / name)
    return tmp_path


def test_the_tree_keeps_the_order() -> None:
    result = check(NATIVE)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("file", "include", "folder"),
    [
        ("src/base/clock.h", "engine/engine.h", "engine"),
        ("src/inner/net_ib_drain.inc", "wire/wire.h", "wire"),
        ("src/paths/path.h", "../data/connection.h", "data"),
        ("planner/shapes/order.h", "wire/wire.h", "wire"),
    ],
)
def test_an_include_against_the_order_is_named(copy: Path, file: str, include: str, folder: str) -> None:
    text = (copy / file).read_text()
    (copy / file).write_text(f'#include "{include}"\n{text}')
    result = check(copy)
    assert result.returncode == 1
    assert result.stdout.splitlines() == [f"{file}:1: includes {folder}, which this folder must not"]


def test_a_header_of_the_same_folder_or_of_nccl_is_fine(copy: Path) -> None:
    (copy / "src" / "base" / "more.h").write_text('#include "clock.h"\n#include "nccl_net.h"\n#include <memory>\n')
    assert check(copy).returncode == 0


def test_a_new_folder_must_be_listed(copy: Path) -> None:
    (copy / "src" / "more").mkdir()
    assert "src/more: a folder that scripts/include_order.py does not list" in check(copy).stdout


def test_the_list_itself_has_no_circle() -> None:
    code = "import include_order as o; print(*o.circles({'a': '', 'b': 'a', 'c': 'd', 'd': 'c'}), sep='\\n')"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "scripts", capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines() == ["scripts/include_order.py: c may include d, which does not stand above it"]
