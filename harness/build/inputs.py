"""Everything a build's result depends on, as one hash: the build id, and the way to know that nothing changed."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.build.record import id_of
from harness.errors import BuildError, CommandError
from harness.fork.treehash import tree_hash
from harness.hosts import LocalHost

FLAG_VARIABLES = ("CXX", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "OPT", "SANITIZE", "CPATH", "CPLUS_INCLUDE_PATH")


@dataclass(frozen=True)
class Inputs:
    """What went into a build."""

    nccl_version: str
    nccl_tree: str
    patches: list[str]
    edited: bool
    sources: dict[str, str]
    compiler: str
    cuda_include: str
    cuda_version: str
    flags: dict[str, str]

    @property
    def build_id(self) -> str:
        """Without where CUDA lies: the same build in another folder has the same id."""
        facts = {name: value for name, value in asdict(self).items() if name != "cuda_include"}
        return id_of(facts)


def source_hashes(native: Path) -> dict[str, str]:
    """Our C++ and its Makefiles, by folder; patches are in the tree's hash already, tests are not in the result."""
    parts = ("src", "bench", "planner", "sim", "agree", "nccl", "progress", "faults", "release")
    folders = {name: tree_hash(native / name, "sha256") for name in parts if (native / name).is_dir()}
    makefile = hashlib.sha256((native / "Makefile").read_bytes()).hexdigest()
    return {**folders, "Makefile": makefile}


def compiler_version(compiler: str = "g++") -> str:
    """First line of what the compiler says of itself. Raises BuildError if there is none."""
    try:
        lines = LocalHost().run([compiler, "--version"], timeout_s=20).stdout.splitlines()
    except CommandError as error:
        package = f"g++-{compiler.removesuffix('-g++')}" if compiler != "g++" else "g++"
        raise BuildError(f"no C++ compiler: {error.message}", f"sudo apt-get install {package} make") from error
    return lines[0] if lines else compiler


def cuda_version(include: Path) -> str:
    """CUDART_VERSION as the headers define it, for example 13000."""
    for line in (include / "cuda_runtime_api.h").read_text(errors="replace").splitlines():
        words = line.split()
        if words[:2] == ["#define", "CUDART_VERSION"]:
            return words[2]
    return "unknown"


def flags_from_environment() -> dict[str, str]:
    """What make or g++ would take from the environment."""
    return {name: os.environ[name] for name in FLAG_VARIABLES if name in os.environ}
