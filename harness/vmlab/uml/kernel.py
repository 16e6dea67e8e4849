"""User Mode Linux's kernel: Debian's source, our options and changes, compiled once and kept under .cache/vm/."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from harness.errors import LabError
from harness.files.lock import exclusive
from harness.fork.network import run_bounded
from harness.progress import Progress, Step, silent
from harness.vmlab.image.packages import IsolatedApt
from harness.vmlab.image.rootfs import unpack

SOURCE = "linux-source-6.12"
SCRATCH = "build-uml-"
UNUSED = ("drivers/gpu/drm/amd/include", "tools/testing")
"""A third of a gigabyte of the source that no build of ours reads."""
UNPACK_LIMIT_S, STEP_LIMIT_S, COMPILE_LIMIT_S = 600.0, 300.0, 3600.0
OWN_FLAGS = {"MAKEFLAGS": "", "MFLAGS": ""}  # `make -B test` is not meant for the make that we start
FORMAT = 1
"""Counts up with every change of how the kernel is made that is seen neither in the options nor in the patches."""


def ensure(cache: Path, progress: Progress = silent) -> Path:
    """The kernel, compiled if what it is made of changed. Raises LabError or SourceError; leaves nothing half done."""
    kernel = cache / f"uml-{key()}" / "linux"
    with exclusive(cache / "uml.lock", "compiling User Mode Linux"):
        if not kernel.is_file():
            _make_kernel(cache, kernel, progress)
            prune(cache, kernel.parent)
    return kernel


def _make_kernel(cache: Path, kernel: Path, progress: Progress) -> None:
    if os.uname().machine != "x86_64":
        raise LabError(f"User Mode Linux runs on x86-64, and this is {os.uname().machine}", "use an x86-64 machine")
    for left in cache.glob(f"{SCRATCH}*"):  # of somebody who was killed while he made one
        shutil.rmtree(left, ignore_errors=True)
    with (
        progress("making User Mode Linux's kernel, once") as step,
        tempfile.TemporaryDirectory(prefix=SCRATCH, dir=workplace(cache)) as scratch,
    ):
        made = _compiled(_source(Path(scratch), step), step)
        kernel.parent.mkdir(parents=True, exist_ok=True)
        part = kernel.with_suffix(".part")
        shutil.move(made, part)  # perhaps from another file system
        part.replace(kernel)


def workplace(cache: Path) -> Path:
    """Below a folder with a space or a colon in its name Linux cannot be compiled: then where temporary files are."""
    return Path(tempfile.gettempdir()) if re.search(r"[\s:]", str(cache)) else cache


def key() -> str:
    """16 digits of the hash of all that the kernel is made of."""
    digest = hashlib.sha256(f"{FORMAT} {SOURCE}".encode())
    for part in (options(), *patches()):
        digest.update(f"\0{part.name}\0".encode() + part.read_bytes())
    return digest.hexdigest()[:16]


def options() -> Traversable:
    """What the kernel has; everything else is off."""
    return files("harness.vmlab.uml").joinpath("kernel.config")


def patches() -> list[Traversable]:
    """Our changes, in the order of their names."""
    folder = files("harness.vmlab.uml").joinpath("patches")
    return sorted((item for item in folder.iterdir() if item.name.endswith(".patch")), key=lambda item: item.name)


def prune(cache: Path, keep: Path) -> None:
    """Removes kernels of earlier options and patches."""
    for folder in cache.glob("uml-*"):
        if folder != keep:
            shutil.rmtree(folder, ignore_errors=True)


def _source(work: Path, step: Step) -> Path:
    """The source, with our patches and options."""
    apt = IsolatedApt(work / "apt")
    step.update("package lists")
    apt.update()
    step.update("downloading 150 MB of source")
    package = apt.download_alone(SOURCE)
    step.update("unpacking")
    unpack(package, work / "package")
    archive = work / "package" / "usr" / "src" / f"{SOURCE}.tar.xz"
    excluded = [f"--exclude={SOURCE}/{folder}" for folder in UNUSED]
    run_bounded(["tar", "-xf", str(archive), *excluded, "-C", str(work)], timeout_s=UNPACK_LIMIT_S)
    tree = work / SOURCE
    for part in patches():
        file = _copied(part, work)
        run_bounded(["patch", "-p1", "--batch", "-d", str(tree), "-i", str(file)], timeout_s=STEP_LIMIT_S)
    chosen = _copied(options(), work)
    run_bounded([*_make(tree), "allnoconfig", f"KCONFIG_ALLCONFIG={chosen}"], timeout_s=STEP_LIMIT_S, env=OWN_FLAGS)
    return tree


def _compiled(tree: Path, step: Step) -> Path:
    """The program, without what only a debugger reads."""
    step.update("compiling for some minutes")
    jobs = f"-j{len(os.sched_getaffinity(0))}"
    run_bounded([*_make(tree), jobs, "linux"], timeout_s=COMPILE_LIMIT_S, env=OWN_FLAGS)
    run_bounded(["strip", str(tree / "linux")], timeout_s=STEP_LIMIT_S)
    return tree / "linux"


def _make(tree: Path) -> list[str]:
    return ["make", "-C", str(tree), "ARCH=um"]


def _copied(part: Traversable, folder: Path) -> Path:
    """A file of ours, where other programs can read it."""
    target = folder / part.name
    target.write_bytes(part.read_bytes())
    return target
