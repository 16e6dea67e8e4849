"""What a guest boots: the uncompressed kernel out of Debian's vmlinuz, and its modules in the order of loading."""

from __future__ import annotations

import lzma
import re
import shutil
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

from harness.errors import LabError

ELF_MAGIC, ZSTD_MAGIC = b"\x7fELF", b"\x28\xb5\x2f\xfd"
DECOMPRESS_LIMIT_S = 60.0


def payload(vmlinuz: bytes) -> bytes:
    """The compressed kernel inside a bzImage, by the setup header (Documentation/arch/x86/boot.rst).

    Raises ValueError when this is no such file.
    """
    if vmlinuz[0x202:0x206] != b"HdrS":
        raise ValueError("no x86 boot header")
    setup_sectors = vmlinuz[0x1F1] or 4
    offset, length = struct.unpack_from("<II", vmlinuz, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    return vmlinuz[start : start + length]


def uncompressed(vmlinuz: bytes) -> bytes:
    """The kernel as an ELF file. QEMU starts that one at once, while a guest in emulation unpacks for seconds."""
    packed = payload(vmlinuz)
    if not packed.startswith(ZSTD_MAGIC):
        raise LabError("this kernel is not packed with zstd", "build the image with the kernel that the recipe names")
    if shutil.which("zstd") is None:
        raise LabError("the vm lab needs zstd", "sudo apt-get install zstd")
    # The last four bytes are the unpacked size, which is no part of the frame.
    done = subprocess.run(
        ["zstd", "-dcq"], input=packed[:-4], capture_output=True, timeout=DECOMPRESS_LIMIT_S, check=False
    )
    if not done.stdout.startswith(ELF_MAGIC):
        raise LabError("zstd did not unpack the kernel", done.stderr.decode(errors="replace").strip() or None)
    return done.stdout


def module_files(folder: Path) -> dict[str, Path]:
    """Every module under lib/modules/VERSION by the name the kernel knows it by."""
    return {path.name.split(".ko")[0].replace("-", "_"): path for path in folder.rglob("*.ko*")}


def module_bytes(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def dependencies(module: bytes) -> list[str]:
    """The modules that one needs, from its own .modinfo: the package has no modules.dep."""
    found = re.search(rb"\0depends=([^\0]*)\0", module)
    return [name.decode().replace("-", "_") for name in found.group(1).split(b",") if name] if found else []


def modules_to_load(folder: Path, wanted: Iterable[str]) -> dict[str, bytes]:
    """File name to content, each after what it needs. Raises LabError for a module the kernel package lacks."""
    available = module_files(folder)
    contents: dict[str, bytes] = {}

    def add(name: str) -> None:
        if f"{name}.ko" in contents:
            return
        if name not in available:
            raise LabError(f"the kernel package has no module {name}", "is it the full flavour, not the cloud one?")
        data = module_bytes(available[name])
        for need in dependencies(data):
            add(need)
        contents[f"{name}.ko"] = data

    for name in wanted:
        add(name)
    return contents
