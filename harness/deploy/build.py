"""What a deployed build consists of: files of this checkout and the places that they have on a host."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path

from harness.deploy import places
from harness.errors import UsageError
from harness.files.sources import of_same_sources
from harness.repo import CPUS, Installed, Layout

NET = {
    places.BENCH: "r2cc_bench",
    places.SAMPLER: "r2cc_sampler",
    "bin/libr2cc_clock.so": "libr2cc_clock.so",  # the bench's test library is looked for beside it
    "bin/libr2cc_faults.so": "libr2cc_faults.so",  # and so is this one
    places.NET: "libr2cc_net.so",
    places.PROGRESS: "libr2cc_progress.so",
    "lib/libr2cc_plan.so": "libr2cc_plan.so",
    "build.json": "build.json",
}


@dataclass(frozen=True)
class File:
    """One file: where it lies here and there, and what is in it."""

    path: str
    local: Path
    sha256: str
    size: int


@dataclass(frozen=True)
class Build:
    """A whole build. Two with the same files have the same name."""

    files: tuple[File, ...]
    build_id: str

    @cached_property
    def manifest(self) -> str:
        """As sha256sum reads it; a file that is there twice is sent once."""
        return "".join(f"{file.sha256}  {file.path}\n" for file in self.files)

    @property
    def name(self) -> str:
        return f"{self.build_id}-{hashlib.sha256(self.manifest.encode()).hexdigest()[:8]}"

    @property
    def objects(self) -> dict[str, File]:
        return {file.sha256: file for file in self.files}


def net(layout: Layout) -> Build:
    """The net library, the host bench and the workloads. UsageError when they were not built."""
    return _build({path: layout.net / name for path, name in NET.items()} | _workloads(layout), "r2cc build net")


def nccl(layout: Layout) -> Build:
    """The same with the patched NCCL."""
    library = {places.NCCL: layout.nccl / "lib" / "libnccl.so.2", "build.json": layout.nccl / "build.json"}
    files = {path: layout.net / name for path, name in NET.items()} | library | _workloads(layout)
    return _build(files, "r2cc build net && r2cc build nccl")


def for_machines(layout: Layout, what: str, ours: Build) -> Callable[[str], Build]:
    """Which build a host gets, by what `uname -m` says there: `ours`, or the net for its kind of CPU, if that was made
    (`r2cc build net --cpu`). Of the patched NCCL there is none but ours."""

    @cache
    def found(machine: str) -> Build:
        if what == "nccl" or machine == platform.machine() or machine not in CPUS or isinstance(layout, Installed):
            return ours
        other = layout.for_cpu(machine)
        files = [of.net / "build.json" for of in (layout, other)]
        if not files[1].is_file():
            return ours
        if not of_same_sources(json.loads(file.read_text()) for file in files):
            why = f"the net built for {machine} is of other sources than ours"
            raise UsageError(why, f"r2cc build net --cpu {machine}")
        return net(other)

    return found


def folder(root: Path) -> Build:
    """A folder with `build.json`, as it is. UsageError when it is none."""
    if not (root / "build.json").is_file():
        raise UsageError(f"{root} is no build: it has no build.json", "--build net, --build nccl, or such a folder")
    found = sorted(path for path in root.rglob("*") if path.is_file())
    return _build({str(path.relative_to(root)): path for path in found}, "r2cc build net")


def _workloads(layout: Layout) -> dict[str, Path]:
    source = layout.root / "harness"
    workloads = source / "workloads"
    files = [source / "__init__.py", *sorted(workloads.glob("*.py")), *sorted(workloads.glob("inference/*.py"))]
    ours = {f"{places.HARNESS}/{path.relative_to(source)}": path for path in files}
    return ours | ({places.NVML: Path(nvml.origin)} if (nvml := find_spec("pynvml")) and nvml.origin else {})


def _build(files: dict[str, Path], how: str) -> Build:
    missing = [str(path) for path in files.values() if not path.is_file()]
    if missing:
        raise UsageError(f"not built: {', '.join(missing[:3])}", how)
    wrong = [path for path in files if "\n" in path or "\\" in path]
    if wrong:
        raise UsageError(f"{wrong[0]!r} cannot be the name of a file of a build", "rename it")
    try:
        build_id = str(json.loads(files["build.json"].read_text(encoding="utf-8"))["build_id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{files['build.json']} says no build id: {error}", how) from error
    if not build_id.isalnum():
        raise UsageError(f"{files['build.json']}: {build_id!r} is no build id", how)
    return Build(tuple(_file(path, local) for path, local in sorted(files.items())), build_id)


def _file(path: str, local: Path) -> File:
    with local.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return File(path, local, digest, local.stat().st_size)


def needed(missing: Sequence[File]) -> int:
    """Bytes of disk, with what a file system rounds up."""
    return sum(file.size + 8192 for file in missing)
