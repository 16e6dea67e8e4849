"""Git's tree hash of a directory, computed without git: the one name for a tree's exact content.

Covers names, contents, the executable bit and symbolic links; not times, owners or empty directories. Algorithm: git's
documentation of its object format ("gitformat-pack", "hash-function-transition"); SHA-1 or SHA-256 object names.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection
from pathlib import Path


def tree_hash(root: Path, algorithm: str = "sha1", ignore: Collection[str] = (".git",)) -> str:
    """Hash of everything under root; `ignore` names entries of root itself that are not part of the tree.

    Raises OSError if a file cannot be read and ValueError for what git cannot store (a device, a socket).
    """
    return _tree(root, algorithm, frozenset(ignore)).hex()


def _tree(folder: Path, algorithm: str, ignore: frozenset[str]) -> bytes:
    entries: list[tuple[bytes, bytes]] = []
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name in ignore:
                continue
            encoded = _entry(entry, algorithm)
            if encoded is not None:
                entries.append(encoded)
    return _object("tree", b"".join(body for _, body in sorted(entries)), algorithm) if entries else b""


def _entry(entry: os.DirEntry[str], algorithm: str) -> tuple[bytes, bytes] | None:
    """Sort key and body of one tree entry; None for an empty directory, which git does not store."""
    name = os.fsencode(entry.name)
    mode = entry.stat(follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode):
        digest = _tree(Path(entry.path), algorithm, frozenset())
        return (name + b"/", b"40000 " + name + b"\0" + digest) if digest else None
    if stat.S_ISLNK(mode):
        return name, b"120000 " + name + b"\0" + _object("blob", os.fsencode(os.readlink(entry.path)), algorithm)  # noqa: PTH115
    if not stat.S_ISREG(mode):
        raise ValueError(f"{entry.path} is neither a file, a directory nor a symbolic link")
    kind = b"100755 " if mode & stat.S_IXUSR else b"100644 "
    return name, kind + name + b"\0" + _object("blob", Path(entry.path).read_bytes(), algorithm)


def _object(kind: str, body: bytes, algorithm: str) -> bytes:
    digest = hashlib.new(algorithm, usedforsecurity=False)
    digest.update(f"{kind} {len(body)}\0".encode())
    digest.update(body)
    return digest.digest()
