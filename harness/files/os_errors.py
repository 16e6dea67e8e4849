"""What the operating system refused, in one line with the path, and what to do about it."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping

ADVICE: Mapping[int, str] = {
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "a part of the path is a file: check it",
    errno.EISDIR: "it is a folder: name a file",
    errno.EEXIST: "it is there already: name another one, or move it away",
    errno.EACCES: "see who may read and write it: ls -ld",
    errno.EPERM: "see who may change it: ls -ld",
    errno.EROFS: "nothing can be written there: name another place",
    errno.ENOSPC: "the disk is full: make room there, or name another place",
    errno.EDQUOT: "your quota is used up: make room there, or name another place",
    errno.ELOOP: "its symbolic links go round in a circle",
    errno.ENAMETOOLONG: "the name is too long: choose a shorter one",
    errno.EMFILE: "too many files are open: ulimit -n",
    errno.ENFILE: "too many files are open on this machine",
    errno.ENOMEM: "this machine has too little memory left",
    errno.EINVAL: "the file system does not take this: name another place",
}
ELSE = "R2CC_DEBUG=1 shows where"


def described(error: OSError) -> str:
    """`PATH: what` of a file, or what alone; then what to do."""
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    what = error.strerror or str(error) or type(error).__name__
    return f"{' -> '.join(names)}{': ' if names else ''}{what}\n  try: {ADVICE.get(error.errno or 0, ELSE)}"


def of_the_network(error: OSError) -> bool:
    """Whether it says something about the other end of a connection, and not about what the user gave."""
    return isinstance(error, ConnectionError | TimeoutError)
