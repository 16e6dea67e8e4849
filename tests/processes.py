"""Other processes of this machine, which end, and become other programs, while they are looked at."""

from __future__ import annotations

from pathlib import Path


def words_of(pid: int | str) -> list[str]:
    """The words of its command; none when it has ended, buried or not. Between fork and exec they are its parent's."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # gone, or going while it is read
        return []
    return text.decode(errors="replace").split("\0")[:-1]


def with_word(mark: str) -> list[int]:
    """Those in whose command that text is."""
    pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [pid for pid in pids if any(mark in word for word in words_of(pid))]
