"""The files that packages are made of: what `make release` left in build/net/release, and which build it is."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("r2cc", "harness", "chaos", "reports", "ci")
MACHINES = {62: "x86_64", 183: "aarch64"}
"""By e_machine of an ELF file."""


def machine(library: Path) -> str:
    """The CPU that a library is for."""
    return MACHINES[int.from_bytes(library.read_bytes()[18:20], "little")]


def native(build: Path, folder: Path) -> None:
    """Libraries, programs, build.json and NCCL's licence go into `folder`."""
    folder.mkdir(parents=True)
    outputs = {}
    for file in sorted((build / "release").iterdir()):
        if file.is_file():
            shutil.copy2(file, folder / file.name)
            outputs[file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
    record = json.loads((build / "build.json").read_text(encoding="utf-8"))
    record["inputs"].pop("cuda_include", None)
    record["outputs"] = outputs
    (folder / "build.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    shutil.copy2(ROOT / "nccl_fork" / "tree" / "LICENSE.txt", folder / "LICENSE-NCCL.txt")


def python(folder: Path) -> None:
    """All that `pip wheel` needs but our libraries."""
    without = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for layer in LAYERS:
        shutil.copytree(ROOT / layer, folder / layer, ignore=without)
    shutil.copytree(ROOT / "experiments", folder / "r2cc" / "experiments", ignore=without)
    for name in ("pyproject.toml", "README.md", "LICENSE", "scripts/r2cc"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    shutil.copy2(ROOT / "nccl_fork" / "tree" / "LICENSE.txt", folder / "LICENSE-NCCL")
    shutil.copy2(Path(__file__).with_name("setup.py"), folder / "setup.py")
