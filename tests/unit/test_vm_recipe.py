"""What an image is made of, without making one: keys, order of modules, archives, package names."""

from __future__ import annotations

import lzma
import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import LabError
from harness.vmlab import tools
from harness.vmlab.image import build as image
from harness.vmlab.image import cpio, kernel
from harness.vmlab.image.packages import IsolatedApt, package_of, version_in
from harness.vmlab.image.recipe import Recipe, inside_files

SCRIPTS = {"init.sh": b"one", "agent.py": b"two"}


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": "linux-image-6.12.118+deb12-amd64"},
        {"packages": ("dash",)},
        {"excluded": ()},
        {"modules": ("virtio_net",)},
        {"pruned": ()},
        {"format": 99},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_part_of_the_recipe_changes_the_key(change: dict[str, object]) -> None:
    assert replace(Recipe(), **change).key(SCRIPTS) != Recipe().key(SCRIPTS)  # type: ignore[arg-type]


def test_what_runs_inside_changes_the_key_and_nothing_else_does() -> None:
    key = Recipe().key(SCRIPTS)
    assert key == Recipe().key(dict(reversed(SCRIPTS.items())))
    assert key != Recipe().key({**SCRIPTS, "init.sh": b"One"})
    assert key != Recipe().key({"init.sh": b"onetwo", "agent.py": b""})
    assert len(key) == 16


def test_the_files_that_run_inside_are_found() -> None:
    assert {"agent.py", "frames.py", "init.sh", "initramfs.sh"} <= inside_files().keys()


def test_an_image_counts_only_when_it_is_complete(tmp_path: Path) -> None:
    recipe = Recipe()
    folder = tmp_path / recipe.key()
    folder.mkdir()
    assert image.find(tmp_path, recipe) is None
    (folder / "image.json").write_text("{}")
    found = image.find(tmp_path, recipe)
    assert found is not None
    assert found.vmlinux == folder / "vmlinux"


def test_only_the_newest_images_are_kept(tmp_path: Path) -> None:
    for number, name in enumerate(("oldest", "older", "newest")):
        (tmp_path / name).mkdir()
        record = tmp_path / name / "image.json"
        record.write_text("{}")
        os.utime(record, (number, number))
    image.prune(tmp_path, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["newest", "older"]


def test_missing_programs_are_named_with_their_packages(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="qemu-system-x86, squashfs-tools, zstd") as caught:
        tools.require("vm", path=str(tmp_path))
    assert caught.value.hint == "bash scripts/system-packages.sh vm"


def module(depends: bytes) -> bytes:
    return b"\x7fELF...\0license=GPL\0depends=" + depends + b"\0name=x\0"


def test_modules_are_read_packed_or_not(tmp_path: Path) -> None:
    (tmp_path / "a-b.ko.xz").write_bytes(lzma.compress(module(b"c_d,e")))
    (tmp_path / "c-d.ko").write_bytes(module(b""))
    (tmp_path / "e.ko").write_bytes(module(b"c-d"))
    found = kernel.modules_to_load(tmp_path, ["a_b"])
    assert list(found) == ["c_d.ko", "e.ko", "a_b.ko"]
    assert found["a_b.ko"] == module(b"c_d,e")
    with pytest.raises(LabError, match="no module rxe"):
        kernel.modules_to_load(tmp_path, ["rxe"])


def test_the_payload_of_a_bzimage() -> None:
    boot = bytearray(0x400)
    boot[0x202:0x206] = b"HdrS"
    boot[0x1F1] = 1
    struct.pack_into("<II", boot, 0x248, 16, 5)
    assert kernel.payload(bytes(boot) + b"x" * 16 + b"hello" + b"rest") == b"hello"
    with pytest.raises(ValueError, match="boot header"):
        kernel.payload(bytes(0x400))
    with pytest.raises(LabError, match="zstd"):
        kernel.uncompressed(bytes(boot) + b"x" * 16 + b"hello")


def test_an_archive_as_the_kernel_reads_it() -> None:
    data = cpio.archive(["bin"], {"init": b"#!/bin/sh\n", "x": b""})
    assert len(data) % 4 == 0
    entries = []
    at = 0
    while True:
        assert data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = data[at + 110 : at + 110 + name_size - 1].decode()
        at += (110 + name_size + 3) // 4 * 4
        if name == "TRAILER!!!":
            break
        entries.append((name, oct(mode), data[at : at + size]))
        at += (size + 3) // 4 * 4
    assert entries == [("bin", "0o40755", b""), ("init", "0o100755", b"#!/bin/sh\n"), ("x", "0o100755", b"")]


def test_newer_kernels_are_told_by_number() -> None:
    names = ["linux-image-6.12.99+deb12-amd64", "linux-image-6.12.117+deb12-amd64"]
    assert max(names, key=version_in) == names[1]


def test_the_package_of_a_file() -> None:
    assert package_of(Path("libc6_2.36-9+deb12u14_amd64.deb")) == "libc6"


def test_apt_is_kept_to_its_own_folder(tmp_path: Path) -> None:
    options = IsolatedApt(tmp_path / "apt").options
    assert f"Dir::State::status={tmp_path}/apt/status" in options
    assert f"Dir::Cache={tmp_path}/apt/cache" in options
    assert (tmp_path / "apt" / "status").read_text() == ""
