"""`nccl-tests`: upstream's own, against the patched library. Its source: git, a folder or an archive."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from harness.build.cuda import cuda_include
from harness.build.make import OWN_FLAGS, follow
from harness.build.nccl import compiler_of, gencode, known_build
from harness.build.record import Record, hashes, is_current
from harness.errors import BuildError, SourceError, UsageError
from harness.files.lock import exclusive
from harness.fork.sources import from_files, from_git, is_repository
from harness.fork.treehash import tree_hash
from harness.progress import Progress, show
from harness.repo import Layout, checkout
from harness.schemas.form import form

UPSTREAM = "https://github.com/NVIDIA/nccl-tests.git"
LIMIT_S = 1800.0


@form("build_nccl_tests", "r2cc build nccl-tests")
@dataclass(frozen=True)
class NcclTestsBuild:
    """`programs`: all_reduce_perf and the others, by name. `rebuilt` is false when everything was there already."""

    folder: Path
    programs: list[str]
    source: str
    tree: str
    rebuilt: bool


def build_nccl_tests(
    source: str | None = None,
    ref: str | None = None,
    progress: Progress = show,
    *,
    mpi: Path | None = None,
    verbose: bool = False,
    layout: Layout | None = None,
) -> NcclTestsBuild:
    """Fetch and compile as far as anything changed, for the architectures of the NCCL that was built.

    `source`: a folder, a tar archive, a git repository or its URL; upstream's repository if None. `ref`: a branch or
    tag of a repository. `mpi`: where MPI is installed; without it one process drives all ranks. Raises UsageError,
    SourceError or BuildError.
    """
    layout = layout or checkout()
    nvcc = compiler_of(cuda_include(layout, progress))
    home = mpi.resolve() if mpi is not None else None
    if home is not None and not (home / "include" / "mpi.h").is_file():
        raise UsageError(
            f"no MPI in {home}: it has no include/mpi.h",
            "install MPI's headers (Debian: libopenmpi-dev, then --mpi /usr/lib/x86_64-linux-gnu/openmpi)",
        )
    library = known_build(layout)
    folder = layout.nccl.with_name("nccl-tests")
    with exclusive(layout.cache / "locks" / "build.lock", "building"):
        name, tree = _fetch(folder, source, ref, progress)
        what = {"tree": tree, "nccl": library["build_id"], "nvcc": str(nvcc), "mpi": str(home or "")}
        if is_current(folder, what, "programs", _programs(folder)):
            return NcclTestsBuild(folder, [path.name for path in _programs(folder)], name, tree, rebuilt=False)
        _forget(folder)
        words = [f"CUDA_HOME={nvcc.parent.parent}", f"NCCL_HOME={layout.nccl}", f"BUILDDIR={folder / 'bin'}"]
        words += [f"NVCC_GENCODE={flags}"] if (flags := gencode(library["inputs"]["arch"])) else []
        words += ["MPI=1", f"MPI_HOME={home}"] if home else ["MPI=0"]
        command = ["make", "-C", str(folder / "source"), f"-j{len(os.sched_getaffinity(0))}", *words]
        follow(
            command,
            "nccl-tests",
            folder / "build.log",
            env=OWN_FLAGS,
            far=lambda text: f"{text.count('Compiling')} files",
            progress=progress,
            verbose=verbose,
            limit_s=LIMIT_S,
        )
        return NcclTestsBuild(folder, _record(folder, what), name, tree, rebuilt=True)


def _fetch(folder: Path, source: str | None, ref: str | None, progress: Progress) -> tuple[str, str]:
    """Puts the source in its place if it is another than what is there; its name and git's hash of its tree."""
    name = source or UPSTREAM
    local = None if "://" in name else Path(name).expanduser().absolute()
    target, scratch = folder / "source", folder / "fetched"
    shutil.rmtree(scratch, ignore_errors=True)
    fetched = scratch / "source"
    fetched.mkdir(parents=True)
    try:
        with progress(f"fetching nccl-tests from {name}"):
            _unpack(name, local, ref, fetched)
        if not (fetched / "Makefile").is_file():
            raise SourceError(f"{name} holds no nccl-tests: no Makefile", "name its folder, archive or repository")
        tree = tree_hash(fetched)
        if not target.is_dir() or tree_hash(target) != tree:
            shutil.rmtree(target, ignore_errors=True)
            fetched.rename(target)
        return name, tree
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _unpack(name: str, local: Path | None, ref: str | None, target: Path) -> None:
    if local is None or is_repository(local):
        from_git(name if local is None else str(local), ref or "HEAD", target)
    elif ref is not None:
        raise UsageError(f"--ref {ref}: {local} is no git repository", "leave it out")
    else:
        from_files(local, target)


def _programs(folder: Path) -> list[Path]:
    return sorted((folder / "bin").glob("*_perf"))


def _forget(folder: Path) -> None:
    """All of it: what make would trust may be of another NCCL, and it takes a minute."""
    (folder / "build.json").unlink(missing_ok=True)
    shutil.rmtree(folder / "bin", ignore_errors=True)


def _record(folder: Path, what: dict[str, str]) -> list[str]:
    programs = hashes(folder, _programs(folder))
    if "all_reduce_perf" not in programs:
        raise BuildError(f"make made no {folder / 'bin' / 'all_reduce_perf'}", f"see {folder / 'build.log'}")
    Record(inputs=what, programs=programs).write(folder)
    return list(programs)
