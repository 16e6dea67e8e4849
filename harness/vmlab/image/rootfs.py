"""The guest's root file system from .deb files, made by a plain user: no chroot, no maintainer scripts."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from py_compile import PycInvalidationMode

from harness.errors import LabError

UNPACK_LIMIT_S, SQUASH_LIMIT_S = 120.0, 300.0
MERGED = ("bin", "sbin", "lib", "lib64")
"""Folders that are links into /usr; packages still ship files below the old names."""
FOLDERS = ("dev", "etc", "mnt", "proc", "root", "run", "sys", "tmp", "var")
USERS = """\
root:x:0:0:root:/root:/bin/sh
sshd:x:100:65534::/run/sshd:/bin/false
nobody:x:65534:65534:nobody:/:/bin/false
"""
PROGRAMS = {"init.sh": "usr/sbin/r2cc-init"}
PACKAGE = "usr/lib/r2cc/harness/vmlab/inside"
"""The agent keeps the package it has here, so that both ends read the same `frames`."""


def unpack(deb: Path, root: Path) -> None:
    """The package's files, below `root`; links that stand for folders there are kept. Raises LabError."""
    root.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE) as source:
        sink = ["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", str(root)]
        done = subprocess.run(sink, stdin=source.stdout, capture_output=True, timeout=UNPACK_LIMIT_S, check=False)
    if done.returncode or source.returncode:
        raise LabError(f"cannot unpack {deb.name}", done.stderr.decode(errors="replace").strip() or None)


def make_root(root: Path, debs: Iterable[Path], pruned: Iterable[str], ours: Mapping[str, bytes]) -> None:
    """A root with the packages' files, busybox for all other commands, and what runs inside a guest."""
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for name in FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    for deb in debs:
        unpack(deb, root)
    for name in pruned:
        shutil.rmtree(root / name, ignore_errors=True)
    _add_busybox(root)
    _add_ours(root, ours)
    _compile(root)


def _add_busybox(root: Path) -> None:
    """A link for each of its commands that no package brought. It is static: the controller can ask it for the list."""
    command = [str(root / "bin" / "busybox"), "--list"]
    listing = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    for name in listing.stdout.split():
        if not any(os.path.lexists(root / "usr" / folder / name) for folder in ("bin", "sbin")):
            (root / "usr" / "bin" / name).symlink_to("busybox")


def _add_ours(root: Path, ours: Mapping[str, bytes]) -> None:
    (root / PACKAGE).mkdir(parents=True)
    for name, data in ours.items():
        target = root / PROGRAMS.get(name, f"{PACKAGE}/{name}")
        target.write_bytes(data)
        target.chmod(0o755)
    (root / "etc" / "passwd").write_text(USERS)
    (root / "etc" / "group").write_text("root:x:0:\nnogroup:x:65534:\n")
    (root / "etc" / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")


def _compile(root: Path) -> None:
    """Byte code beside Python's sources, which in emulation take seconds to compile at every start."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not (root / "usr" / "lib" / version).is_dir():
        return  # the controller's Python is another one than the guest's: it would write byte code of no use
    for folder in (f"usr/lib/{version}", "usr/lib/python3", "usr/lib/r2cc"):
        compileall.compile_dir(
            str(root / folder),
            quiet=2,
            force=True,
            stripdir=str(root),
            prependdir="/",
            invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        )


def make_squashfs(root: Path, target: Path) -> None:
    """Everything owned by root and stored as it is: a guest in emulation reads faster than it unpacks."""
    plain = ["-noI", "-noD", "-noF", "-noX"]
    command = ["mksquashfs", str(root), str(target), "-all-root", "-no-progress", "-noappend", *plain]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SQUASH_LIMIT_S, check=False)
    if done.returncode:
        raise LabError("mksquashfs failed", done.stderr.strip().splitlines()[-1] if done.stderr else None)
