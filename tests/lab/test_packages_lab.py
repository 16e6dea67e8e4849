"""Packages for a whole machine: .deb, .rpm, and the image, each installed into a root of the test's own."""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path

import pytest
from wheel_parts import PACKAGES, ROOT, job_with, release, run

LIBRARIES = {"libr2cc_net.so", "libr2cc_progress.so", "libr2cc_faults.so", "libnccl-net-r2cc.so"}
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="installing into another root takes root")

pytestmark = [pytest.mark.lab, pytest.mark.build]


@pytest.fixture(scope="module")
def dist() -> Path:
    release()
    run("bash", PACKAGES / "system.sh", "--without-symbols", cwd=ROOT)
    return ROOT / "dist"


def newest(dist: Path, pattern: str) -> Path:
    return max(dist.glob(pattern), key=lambda path: path.stat().st_mtime_ns)


def names(root: Path) -> set[str]:
    return {path.name for path in root.glob("usr/lib*/**/*.so")}


@NEEDS_ROOT
def test_the_deb_comes_leaves_a_job_alone_and_goes(dist: Path, tmp_path: Path) -> None:
    admin = tmp_path / "var/lib/dpkg"
    for folder in ("info", "updates", "triggers"):
        (admin / folder).mkdir(parents=True)
    for file in ("status", "available"):
        (admin / file).touch()
    dpkg = ["dpkg", f"--root={tmp_path}", "--force-depends", "--log=/dev/null"]
    deb = newest(dist, "*.deb")
    run(*dpkg, "--install", deb, cwd=tmp_path)
    assert names(tmp_path) == LIBRARIES
    [library] = tmp_path.glob("usr/lib/*/libr2cc_net.so")
    ctypes.CDLL(str(library.with_name("libnccl-net-r2cc.so")))
    [conf] = tmp_path.glob("usr/share/doc/**/nccl.conf")
    assert [line for line in conf.read_text().splitlines() if not line.startswith("#")] == ["NCCL_NET_PLUGIN=r2cc"]
    assert "libc6 (>= 2.31)" in run("dpkg-deb", "--field", deb, "Depends", cwd=tmp_path).stdout
    assert "ldconfig" in (admin / "info" / "r2cc-net.triggers").read_text()
    with job_with(library):
        run(*dpkg, "--install", deb, cwd=tmp_path)
    run(*dpkg, "--purge", "r2cc-net", cwd=tmp_path)
    assert not (tmp_path / "usr").exists()


@pytest.mark.slow
@NEEDS_ROOT
@pytest.mark.skipif(shutil.which("rpmbuild") is None, reason="rpmbuild is not installed (package rpm)")
def test_the_rpm_comes_and_goes(dist: Path, tmp_path: Path) -> None:
    package = newest(dist, "*.rpm")
    rpm = ["rpm", "--root", str(tmp_path), "--dbpath", "/var/lib/rpm", "--nodeps", "--noscripts"]
    run(*rpm, "--install", package, cwd=tmp_path)
    assert names(tmp_path) == LIBRARIES
    run(*rpm, "--erase", "r2cc-net", cwd=tmp_path)
    assert names(tmp_path) == set()
    said = run("rpm", "-qp", "--scripts", "--requires", package, cwd=tmp_path).stdout
    assert said.count("program: /sbin/ldconfig") == 2
    assert "libc.so.6(GLIBC_2.30)" in said and "GLIBC_2.32" not in said and "libstdc++" not in said


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.timeout(600)
@NEEDS_ROOT
@pytest.mark.skipif(
    not (shutil.which("buildah") and shutil.which("debootstrap")), reason="buildah and debootstrap are not installed"
)
def test_the_image_fills_a_volume(dist: Path, tmp_path: Path) -> None:
    """Its base is made here, of Debian's packages: no registry is asked."""
    base, volume = tmp_path / "base", tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o777)
    run("debootstrap", "--variant=minbase", "bookworm", base, cwd=tmp_path, timeout_s=400)
    deb = newest(dist, "*.deb")
    shutil.copy(deb, base / deb.name)
    run("chroot", base, "dpkg", "--install", f"/{deb.name}", cwd=tmp_path)
    assert "libnccl-net-r2cc.so" in run("chroot", base, "ldconfig", "-p", cwd=tmp_path).stdout
    run("chroot", base, "dpkg", "--purge", "r2cc-net", cwd=tmp_path)
    assert "r2cc" not in run("chroot", base, "ldconfig", "-p", cwd=tmp_path).stdout

    run("tar", "-C", base, "-cf", "base.tar", ".", cwd=tmp_path)
    (tmp_path / "Base").write_text("FROM scratch\nADD base.tar /\n")
    storage = ["--storage-driver", "vfs", "--root", str(tmp_path / "store"), "--runroot", str(tmp_path / "run")]
    buildah = ["buildah", *storage]
    build = [*buildah, "bud", "--isolation", "chroot"]
    run(*build, "-t", "localhost/base", "-f", "Base", ".", cwd=tmp_path)
    file = ["--build-arg", "BASE=localhost/base", "-f", PACKAGES / "Containerfile"]
    run(*build, *file, "-t", "localhost/r2cc-net", ROOT, cwd=tmp_path, timeout_s=200)
    container = run(*buildah, "from", "localhost/r2cc-net", cwd=tmp_path).stdout.strip()
    inside = [*buildah, "run", "--isolation", "chroot", "-v", f"{volume}:/plugin", container, "--", "r2cc-copy-plugin"]
    assert run(*inside, "/plugin", cwd=tmp_path).stdout.strip() == "NCCL_NET_PLUGIN=/plugin/libr2cc_net.so"
    with job_with(volume / "libr2cc_net.so"):
        run(*inside, "/plugin", cwd=tmp_path)
    assert {path.name for path in volume.iterdir()} == LIBRARIES - {"libnccl-net-r2cc.so"}
    assert "mount a volume there" in run(*inside, "/nowhere", cwd=tmp_path, code=2).stderr
    run(*buildah, "rm", "--all", cwd=tmp_path)
