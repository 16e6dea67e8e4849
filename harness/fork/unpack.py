"""Unpacks a source, from a tar archive or a directory, without trusting it: nothing may land outside the target."""

from __future__ import annotations

import lzma
import os
import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath

from harness.errors import SourceError

EXECUTABLE = 0o755
PLAIN = 0o644


def unpack_tar(archive: Path, target: Path) -> None:
    """Unpack into target, an empty directory, dropping the archive's single top folder if it has one.

    Written by hand rather than with tarfile's filters, which Debian 12's Python does not have. Raises SourceError for
    what is no tar archive, is cut short, or would write outside target.
    """
    try:
        with tarfile.open(archive, "r:*") as tar:
            members = [member for member in tar.getmembers() if _path(member, archive).parts]
            top = _single_top(members, archive)
            for member in members:
                _write(tar, member, target / _path(member, archive).relative_to(top), archive)
            for member in members:  # links last: nothing can be written through one
                if member.issym():
                    _link(member, target / _path(member, archive).relative_to(top), target, archive)
    except (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise SourceError(f"{archive} is no readable tar archive: {error}", "download it again") from error


def _path(member: tarfile.TarInfo, archive: Path) -> PurePosixPath:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise SourceError(f"{archive} holds {member.name!r}, which leaves the target", "use another source")
    return path


def _single_top(members: list[tarfile.TarInfo], archive: Path) -> PurePosixPath:
    tops = {_path(member, archive).parts[0] for member in members}
    if len(tops) != 1:
        return PurePosixPath()
    top = tops.pop()
    alone = any(member.name.rstrip("/") == top and not member.isdir() for member in members)
    return PurePosixPath() if alone else PurePosixPath(top)


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path, archive: Path) -> None:
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
    elif member.isreg():
        path.parent.mkdir(parents=True, exist_ok=True)
        source = tar.extractfile(member)
        assert source is not None  # a regular member always has content
        with source, path.open("wb") as file:
            shutil.copyfileobj(source, file)
        path.chmod(EXECUTABLE if member.mode & 0o100 else PLAIN)
    elif not member.issym():
        raise SourceError(f"{archive} holds {member.name!r}, neither file, folder nor symbolic link", "use another one")


def _link(member: tarfile.TarInfo, path: Path, target: Path, archive: Path) -> None:
    destination = os.path.normpath(path.parent / member.linkname)
    if not Path(destination).is_relative_to(target):
        raise SourceError(f"{archive} holds a link out of itself: {member.name!r} -> {member.linkname!r}", "do not use")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(member.linkname)


def copy_directory(source: Path, target: Path) -> None:
    """Copy a source directory, without what git keeps in it, links as links, read-only files made writable."""
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git"))
    for folder, _, names in os.walk(target):
        Path(folder).chmod(EXECUTABLE)
        for path in (Path(folder, name) for name in names):
            if not path.is_symlink():
                path.chmod(EXECUTABLE if path.stat().st_mode & 0o100 else PLAIN)


def pack_tar(source: Path, archive: Path) -> None:
    """Keep a verified tree as one file; it appears whole or not at all."""
    part = archive.with_name(f"{archive.name}.part-{os.getpid()}")
    archive.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(part, "w") as tar:
            tar.add(source, arcname="nccl")
        part.replace(archive)
    finally:
        part.unlink(missing_ok=True)
