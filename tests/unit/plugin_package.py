"""Small packages with entry points, as another distribution would bring them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaos.faults import registry as faults
from harness import plugins
from harness.commands.run import run
from harness.launch.launchers import registry as launchers
from harness.workloads.kinds import registry as workloads

ROOT = Path(__file__).resolve().parents[2]


def of_page(page: str) -> dict[str, str]:
    """The files that a page of docs/howto shows, by name."""
    text = (ROOT / "docs" / "howto" / page).read_text()
    return dict(re.findall(r"^`(\S+)`:\n\n```\w+\n(.*?)^```", text, re.DOTALL | re.MULTILINE))


def installed_by_pip(files: Mapping[str, str], folder: Path) -> Path:
    """The package built and installed as a user does it, into a folder of its own."""
    source, target = folder / "source", folder / "target"
    source.mkdir(parents=True)
    for name, text in files.items():
        (source / name).write_text(text)
    words = ("install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    subprocess.run([sys.executable, "-m", "pip", *words, "--target", target, source], check=True)
    return target


def written(folder: Path, name: str, group: str, entry: str, *, module: str = "", code: str = "") -> Path:
    """The same by hand, which is quicker: one entry point."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")
    if module:
        (folder / f"{module}.py").write_text(code)
    return folder


@contextmanager
def on_path(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> Iterator[None]:
    """Distributions of these folders are there while the block lasts."""
    before = set(sys.modules)
    with monkeypatch.context() as patch:
        for folder in folders:
            patch.syspath_prepend(folder)
        _forget()
        yield
    for name in set(sys.modules) - before:
        if any(Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(folder) for folder in folders):
            del sys.modules[name]
    _forget()


def _forget() -> None:
    plugins.entries.cache_clear()
    plugins._readable.cache_clear()
    faults._loaded.cache_clear()
    workloads._loaded.cache_clear()
    launchers._loaded.cache_clear()
    run.commands.pop("token_ring", None)
