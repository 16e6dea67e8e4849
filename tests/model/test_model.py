"""The Spin model of the handshakes (docs/internals/model.md): what must hold holds, mistakes are found."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "r2cc_patches" / "model"
CONFIGS = [line.split()[:2] for line in (MODEL / "configs.txt").read_text().splitlines() if not line.startswith("#")]
MISSING = [program for program in ("spin", "gcc") if shutil.which(program) is None]

# Behind other tests it gets what they leave; check.sh itself ends after 15 minutes.
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
    pytest.mark.timeout(1200),
]


def names(*kinds: str) -> list[str]:
    return [name for kind, name in CONFIGS if kind in kinds]


def check(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(MODEL / "check.sh"), name, str(folder)], capture_output=True, text=True, timeout=1100
    )


def assert_holds(name: str, folder: Path) -> None:
    done = check(name, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"^{name}: \S+ states, .* errors: 0$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("name", names("holds", "lives"))
def test_the_protocol_holds(name: str, tmp_path: Path) -> None:
    assert_holds(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", names("deep", "deeplives"))
def test_the_protocol_holds_deep(name: str, tmp_path: Path) -> None:
    assert_holds(name, tmp_path)


def mistakes() -> list[object]:
    """Every fifth in `make test`, all in `make nightly`: each is compiled anew."""
    marks = [() if i % 5 == 0 else (pytest.mark.slow,) for i in range(len(names("mistake")))]
    return [pytest.param(name, marks=mark) for name, mark in zip(names("mistake"), marks, strict=True)]


@pytest.mark.parametrize("name", mistakes())
def test_every_mistake_is_caught(name: str, tmp_path: Path) -> None:
    done = check(name, tmp_path)
    assert done.returncode == 1, f"{name} went unnoticed: {done.stdout}{done.stderr}"
    assert "pan:1:" in done.stdout, done.stdout
    assert re.search(r"^[CSRW]  ", done.stdout, re.MULTILINE), "no story to read"


def test_every_mistake_of_the_model_is_tried() -> None:
    text = "".join(path.read_text() for path in MODEL.glob("*.pml"))
    assert set(re.findall(r"\bM_[A-Z_]+", text)) <= set(names("mistake"))
