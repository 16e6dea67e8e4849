"""What is cross compiled for aarch64: its wheel, its packages, and a job of two emulated ranks.

Emulation runs the instructions, but keeps the memory order of the machine below: nothing here sees a missing barrier.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from elftools.elf.elffile import ELFFile
from ports import free_root
from wheel_parts import PACKAGES, ROOT, run

from harness.build import build_net, run_target
from harness.progress import silent
from harness.repo import Layout, checkout

CPU = "aarch64"
QEMU = f"qemu-{CPU}-static"
LIBC = f"/usr/{CPU}-linux-gnu"
"""Of Debian's libc6-arm64-cross, which the compiler brings."""
CARRIES = ["--bytes", "4194304", "--iterations", "4", "--warmup", "1", "--channels", "2", "--timeout-s", "60"]

pytestmark = [
    pytest.mark.lab,
    pytest.mark.slow,
    pytest.mark.build,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(platform.machine() == CPU, reason="this machine is of that kind"),
    pytest.mark.skipif(
        not (shutil.which(f"{CPU}-linux-gnu-g++") and shutil.which(QEMU)),
        reason="no cross compiler or no emulator (packages g++-aarch64-linux-gnu, qemu-user-static)",
    ),
]


@pytest.fixture(scope="module")
def layout() -> Layout:
    """With everything that a release has."""
    made = checkout().for_cpu(CPU)
    build_net(progress=silent, layout=made)
    run_target("release", silent, layout=made)
    return made


def test_the_wheel_names_its_cpu_and_all_in_it_is_for_that(layout: Layout, tmp_path: Path) -> None:
    wheel = Path(run(sys.executable, PACKAGES / "wheel.py", CPU, cwd=ROOT).stdout.strip())
    assert wheel.name.endswith(f"-py3-none-manylinux_2_31_{CPU}.whl")
    with ZipFile(wheel) as files:
        files.extractall(tmp_path)
    found = [path for path in tmp_path.rglob("native/*") if path.read_bytes()[:4] == b"\x7fELF"]
    assert len(found) == 8
    for path in found:
        with path.open("rb") as file:
            assert ELFFile(file).header.e_machine == "EM_AARCH64", path.name


def test_packages_name_it_as_their_systems_do(layout: Layout) -> None:
    run("bash", PACKAGES / "system.sh", "--without-symbols", CPU, cwd=ROOT)
    deb = max((ROOT / "dist").glob("*_arm64.deb"), key=lambda path: path.stat().st_mtime_ns)
    assert f"/usr/lib/{CPU}-linux-gnu/libr2cc_net.so" in run("dpkg-deb", "--contents", deb, cwd=ROOT).stdout


def test_emulated_ranks_add_up_exactly(layout: Layout) -> None:
    root = free_root()
    ranks = [started(layout.net / "release", rank, root) for rank in range(2)]
    try:
        said = [rank.communicate(timeout=100) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], said
    for out, _ in said:
        end = [json.loads(line) for line in out.splitlines()][-1]
        assert (end["event"], end["completed"], end["wrong_elements"]) == ("bench_end", 4, 0)


def started(folder: Path, rank: int, root: str) -> subprocess.Popen[str]:
    words = [QEMU, "-L", LIBC, str(folder / "r2cc_bench"), "--rank", str(rank), "--ranks", "2", "--root", root]
    return subprocess.Popen(
        [*words, "--library", str(folder / "libr2cc_net.so"), *CARRIES],
        env={**os.environ, "NCCL_SOCKET_IFNAME": "lo", "R2CC_MODE": "2"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
