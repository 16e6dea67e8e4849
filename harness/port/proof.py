"""Builds what g++ can build of a ported tree, and runs the C++ tests with its transports, all of it in scratch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from harness.build.make import OWN_FLAGS, compilations, count_compilations, follow, make_command
from harness.errors import BuildError
from harness.progress import Progress
from harness.repo import Layout

TESTS = "TEST_PROGRAMS=net bench"


@dataclass(frozen=True)
class Place:
    """Where make finds the tree and CUDA's headers, and leaves what it makes."""

    layout: Layout
    tree: Path
    cuda: Path
    build: Path

    def arguments(self) -> list[str]:
        native = self.layout.native
        return [
            f"NCCL_TREE={os.path.relpath(self.tree, native)}",
            f"CUDA_INC={os.path.relpath(self.cuda, native)}",
            f"BUILD={os.path.relpath(self.build, native)}",
            "BUILD_ID=port",
            TESTS,
        ]

    def header(self, progress: Progress) -> None:
        """nccl.h, which every file includes."""
        self.make(str(Path(os.path.relpath(self.build, self.layout.native), "include", "nccl.h")), progress)

    def make(self, target: str, progress: Progress) -> None:
        """Raises BuildError with what make said."""
        command = make_command(self.layout, target, self.arguments())
        total = count_compilations(command)
        follow(
            command,
            Path(target).name,
            self.build / f"{Path(target).name}.log",
            env=OWN_FLAGS,
            far=lambda text: f"{min(compilations(text), total)} of {total} files",
            progress=progress,
            verbose=False,
        )

    def flags(self) -> list[str]:
        """As the Makefile's for the fork's files, and their root, from which 2.31 includes."""
        source = self.tree / "src"
        headers = [self.build / "include", source / "include", source / "include" / "plugin", source, self.cuda]
        if (self.cuda / "cccl").is_dir():
            headers.append(self.cuda / "cccl")
        includes = [word for folder in headers for word in ("-isystem", str(folder))]
        return ["-std=c++17", "-fPIC", "-DNCCL_OS_LINUX", *includes]


def proven(place: Place, log: Path, progress: Progress) -> tuple[bool, bool | None]:
    """Whether it builds, and whether the tests pass (None: they were not run). What failed is kept in `log`."""
    steps = []
    for target in ("net", "run-tests"):
        try:
            place.make(target, progress)
            steps.append(True)
        except BuildError as error:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(f"{error.message}\n")
            return (False, None) if target == "net" else (True, False)
    return True, True
