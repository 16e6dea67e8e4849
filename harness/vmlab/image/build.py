"""An image: kernel, initramfs and squashfs root, built once as any user and kept under .cache/vm/."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from harness.files.lock import exclusive
from harness.progress import Progress, Step, silent
from harness.vmlab.image import cpio, kernel
from harness.vmlab.image.packages import IsolatedApt, package_of
from harness.vmlab.image.recipe import KERNEL_PATTERN, Recipe, inside_files
from harness.vmlab.image.rootfs import make_root, make_squashfs, unpack


@dataclass(frozen=True)
class Image:
    """A finished image. Guests only ever read it."""

    folder: Path

    @property
    def vmlinux(self) -> Path:
        return self.folder / "vmlinux"

    @property
    def initrd(self) -> Path:
        return self.folder / "initrd.cpio"

    @property
    def root(self) -> Path:
        return self.folder / "root.squashfs"


def find(cache: Path, recipe: Recipe | None = None) -> Image | None:
    """The image of the recipe if it is built already."""
    folder = cache / (recipe or Recipe()).key()
    return Image(folder) if (folder / "image.json").is_file() else None


def ensure(cache: Path, recipe: Recipe | None = None, progress: Progress = silent) -> Image:
    """The image of the recipe, built if it is not there. Raises LabError; leaves nothing half done behind."""
    wanted = recipe or Recipe()
    with exclusive(cache / "build.lock", "building the vm lab's image"):
        found = find(cache, wanted)
        if found is not None:
            return found
        with progress("building the vm lab's image") as step:
            return _build(cache, wanted, step)


def _build(cache: Path, recipe: Recipe, step: Step) -> Image:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="build-", dir=cache) as scratch:
        work = Path(scratch)
        apt = IsolatedApt(work / "apt")
        step.update("package lists")
        apt.update()
        exact = replace(recipe, kernel=apt.newest(recipe.kernel, KERNEL_PATTERN))
        step.update("downloading packages")
        debs = apt.download([exact.kernel, *exact.packages])
        made = work / "image"
        made.mkdir()
        step.update("unpacking")
        _make_files(exact, debs, work, made)
        record = {"recipe": asdict(exact), "debs": [deb.name for deb in debs], "seconds": time.monotonic() - started}
        (made / "image.json").write_text(json.dumps(record, indent=1) + "\n")
        target = cache / recipe.key()
        shutil.rmtree(target, ignore_errors=True)
        made.replace(target)
        prune(cache)
        return Image(target)


def _make_files(recipe: Recipe, debs: list[Path], work: Path, made: Path) -> None:
    """The image's three files from the packages."""
    kernel_deb = next(deb for deb in debs if package_of(deb) == recipe.kernel)
    kernel_tree = work / "kernel"
    unpack(kernel_deb, kernel_tree)
    vmlinuz = next((kernel_tree / "boot").glob("vmlinuz-*"))
    (made / "vmlinux").write_bytes(kernel.uncompressed(vmlinuz.read_bytes()))
    root = work / "root"
    wanted = [deb for deb in debs if deb != kernel_deb and package_of(deb) not in recipe.excluded]
    make_root(root, wanted, recipe.pruned, inside_files())
    modules = kernel.modules_to_load(kernel_tree / "lib" / "modules", recipe.modules)
    (made / "initrd.cpio").write_bytes(_initramfs(root / "bin" / "busybox", modules))
    make_squashfs(root, made / "root.squashfs")


def _initramfs(busybox: Path, modules: dict[str, bytes]) -> bytes:
    """Just enough to reach the real root: a shell, the modules, and our script."""
    contents = {
        "bin/busybox": busybox.read_bytes(),
        "init": inside_files()["initramfs.sh"],
        "modules/order": "".join(f"{name}\n" for name in modules).encode(),
        **{f"modules/{name}": data for name, data in modules.items()},
    }
    return cpio.archive(["bin", "dev", "modules", "proc", "root", "rw", "sys"], contents)


def prune(cache: Path, keep: int = 2) -> None:
    """Removes all but the newest images; they are a few hundred megabytes each."""
    built = sorted(cache.glob("*/image.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for record in built[keep:]:
        shutil.rmtree(record.parent, ignore_errors=True)
