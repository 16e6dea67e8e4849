"""A writer of initramfs archives (cpio's "newc" format, Documentation/driver-api/early-userspace/buffer-format.rst)."""

from __future__ import annotations

import stat
from collections.abc import Mapping

FOLDER_MODE, FILE_MODE = stat.S_IFDIR | 0o755, stat.S_IFREG | 0o755


def archive(folders: list[str], contents: Mapping[str, bytes]) -> bytes:
    """An archive with `folders` first, then the files, owned by root and executable; same input, same bytes."""
    parts = bytearray()
    entries = [(name, FOLDER_MODE, b"") for name in folders]
    entries += [(name, FILE_MODE, data) for name, data in contents.items()]
    for number, (name, mode, data) in enumerate(entries, start=1):
        parts += _entry(number, name, mode, data)
    return bytes(parts + _entry(0, "TRAILER!!!", 0, b""))


def _entry(inode: int, name: str, mode: int, data: bytes) -> bytes:
    label = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    fields = (inode, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(label), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(head + label) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
