"""What is asked of the configuration: which host, and what the inventory says of it already."""

from __future__ import annotations

import getpass
import os
import pwd
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path


@cache
def local_user() -> str:
    """As OpenSSH has it: the name of our user id, whatever the environment says."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return getpass.getuser()


@dataclass(frozen=True)
class Question:
    """`host` is what would be typed after `ssh`; user, port and jump what its options -l, -p and -J would say."""

    host: str
    user: str | None = None
    port: int | None = None
    jump: str | None = None
    home: Path = field(default_factory=Path.home)
