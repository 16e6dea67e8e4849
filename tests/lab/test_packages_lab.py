"""Packages for a whole machine: .deb, .rpm, and the image, each installed into a root of the test's own."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from ports import free_port
from wheel_parts import PACKAGES, ROOT, job_with, release, run

from chaos.deadman import agent
from harness.kubernetes import watch

LIBRARIES = {"libr2cc_net.so", "libr2cc_progress.so", "libr2cc_faults.so", "libnccl-net-r2cc.so"}
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="installing into another root takes root")

Done = subprocess.CompletedProcess[str]

pytestmark = [pytest.mark.lab, pytest.mark.build]


def needs_images(test: Callable[..., None]) -> Callable[..., None]:
    """Marks of a test that builds an image, or what one is made on."""
    missing = not (shutil.which("buildah") and shutil.which("debootstrap"))
    test = pytest.mark.skipif(missing, reason="buildah and debootstrap are not installed")(NEEDS_ROOT(test))
    return pytest.mark.slow(pytest.mark.network(pytest.mark.timeout(900)(test)))


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


@dataclass
class Image:
    """Built as `make image` does, and a container of it."""

    buildah: list[str]
    container: str

    def run(self, *words: str, mounts: dict[Path, str] | None = None, user: str = "", **how: int) -> Done:
        return run(*self.command(*words, mounts=mounts, user=user), cwd=ROOT, **how)

    def command(self, *words: str, mounts: dict[Path, str] | None = None, user: str = "") -> list[str]:
        """To run these words in it. `user`: another than the image's own."""
        bound = [word for path, where in (mounts or {}).items() for word in ("-v", f"{path}:{where}")]
        as_user = ["--user", user] if user else []
        return [*self.buildah, "run", "--isolation", "chroot", *as_user, *bound, self.container, "--", *words]


@pytest.fixture(scope="module")
def base(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A system made of Debian's packages, here: no registry is asked."""
    made = tmp_path_factory.mktemp("image") / "base"
    run("debootstrap", "--variant=minbase", "bookworm", made, cwd=made.parent, timeout_s=400)
    return made


@pytest.fixture(scope="module")
def image(dist: Path, base: Path) -> Iterator[Image]:
    folder = base.parent
    run(sys.executable, PACKAGES / "wheel.py", cwd=ROOT)
    run("tar", "-C", base, "-cf", "base.tar", ".", cwd=folder)
    (folder / "Base").write_text("FROM scratch\nADD base.tar /\n")
    buildah = ["buildah", "--storage-driver", "vfs", "--root", str(folder / "store"), "--runroot", str(folder / "run")]
    build = [*buildah, "bud", "--isolation", "chroot"]
    run(*build, "-t", "localhost/base", "-f", "Base", ".", cwd=folder)
    env = {**os.environ, "BUILDER": " ".join(build), "BASE": "localhost/base"}
    done = subprocess.run(
        ["bash", PACKAGES / "image.sh"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stdout + done.stderr
    yield Image(buildah, run(*buildah, "from", "localhost/r2cc", cwd=folder).stdout.strip())
    run(*buildah, "rm", "--all", cwd=folder)


@needs_images
def test_the_loader_of_a_system_finds_the_plugin_and_forgets_it(dist: Path, base: Path) -> None:
    deb = newest(dist, "*.deb")
    shutil.copy(deb, base / deb.name)
    run("chroot", base, "dpkg", "--install", f"/{deb.name}", cwd=base)
    assert "libnccl-net-r2cc.so" in run("chroot", base, "ldconfig", "-p", cwd=base).stdout
    run("chroot", base, "dpkg", "--purge", "r2cc-net", cwd=base)
    assert "r2cc" not in run("chroot", base, "ldconfig", "-p", cwd=base).stdout
    (base / deb.name).unlink()


@needs_images
def test_the_image_fills_a_volume(image: Image, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o777)
    words, mounts = ["r2cc-copy-plugin", "/plugin"], {volume: "/plugin"}
    assert image.run(*words, mounts=mounts).stdout.strip() == "NCCL_NET_PLUGIN=/plugin/libr2cc_net.so"
    with job_with(volume / "libr2cc_net.so"):
        image.run(*words, mounts=mounts)
    assert {path.name for path in volume.iterdir()} == LIBRARIES - {"libnccl-net-r2cc.so"}
    assert "mount a volume there" in image.run("r2cc-copy-plugin", "/nowhere", code=2).stderr


@needs_images
def test_the_image_says_how_a_node_is(image: Image, tmp_path: Path) -> None:
    """By the very words of the manifest, of a job that runs meanwhile."""
    (rendered,) = watch.manifests("default", "localhost/r2cc", "/run/r2cc-status", free_port(), {})
    pod = rendered["spec"]["template"]["spec"]
    (opens,), (serves,) = pod["initContainers"], pod["containers"]
    mounts = {tmp_path: "/run/r2cc-status"}
    image.run(*opens["command"], mounts=mounts, user="0:0")
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777
    with running_job(tmp_path), in_background(image.command(*serves["command"], mounts=mounts)):
        page = asked(f"http://127.0.0.1:{serves['ports'][0]['containerPort']}/metrics", "r2cc_build_info{")
        assert "r2cc_nic_up{host=" in page
        said = json.loads(image.run("r2cc", "health", "--status", "/run/r2cc-status", "--json", mounts=mounts).stdout)
        assert said["verdict"] == "healthy" and said["processes"]


@needs_images
def test_the_image_has_what_the_agent_needs(image: Image) -> None:
    (container,) = agent.manifests("r2cc", "localhost/r2cc", {})[1]["spec"]["template"]["spec"]["containers"]
    said = image.run("timeout", "--preserve-status", "3", *container["command"], user="0:0").stdout
    assert said == "r2cc agent: ready\n"
    for tool in ("ip", "tc", "nft", "ethtool", "pgrep", "python3"):
        image.run(tool, "-V" if tool in ("ip", "tc", "pgrep") else "--version", user="0:0")


@contextmanager
def in_background(command: list[str], **env: str) -> Iterator[None]:
    with subprocess.Popen(
        command, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)


@contextmanager
def running_job(status: Path) -> Iterator[None]:
    """Two ranks on this machine, which say how they are in the folder `status`."""
    folder, port = ROOT / "build/net/release", free_port()
    words = [folder / "r2cc_bench", "--library", folder / "libr2cc_net.so", "--ranks", "2", "--seconds", "60"]
    many = ["--root", f"127.0.0.1:{port}", "--bytes", "1048576", "--iterations", "1000000", "--channels", "1"]
    env = {"NCCL_SOCKET_IFNAME": "lo", "R2CC_MODE": "2", "R2CC_STATUS_DIR": str(status)}
    with ExitStack() as ranks:
        for rank in range(2):
            ranks.enter_context(in_background([*map(str, words), *many, "--rank", str(rank)], **env))
        yield


def asked(url: str, until: str, limit_s: float = 40.0) -> str:
    """The page, once it holds that text."""
    end, page = time.monotonic() + limit_s, ""
    while until not in page and time.monotonic() < end:
        time.sleep(0.2)
        with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            page = answer.read().decode()
    assert until in page, page
    return page
