"""Where the memory of guests of User Mode Linux lies: a file that is removed at once, in a folder with room for all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.errors import LabError

FOLDERS = ("/dev/shm", tempfile.gettempdir())
"""In memory first: on a disk a guest's pages would be written out."""
MIB = 1 << 20


def folder_for(mib: int, folders: Sequence[str] = FOLDERS) -> Path:
    """The first that has `mib` MiB free. A guest without would be ended in the middle of its work. Raises LabError."""
    free = {name: shutil.disk_usage(name).free // MIB for name in folders if Path(name).is_dir()}
    for name, there in free.items():
        if there >= mib:
            return Path(name)
    shown = ", ".join(f"{there} MiB in {name}" for name, there in free.items())
    raise LabError(
        f"the guests' memory needs {mib} MiB, and there are {shown}",
        "fewer hosts, or a larger /dev/shm (docker: --shm-size)",
    )
