"""One guest's command line as a process of User Mode Linux. Pure: the keeper starts it."""

from __future__ import annotations

from pathlib import Path

from harness.errors import LabError
from harness.vmlab.guest import Files, guest_words
from harness.vmlab.image.build import Image
from harness.vmlab.shape import Shape, WirePort

ROOT = "ubda"
QUEUE = 64
"""Frames that a NIC takes or hands over at once."""


def uml_command(
    shape: Shape, index: int, *, kernel: Path, image: Image, files: Files, folder: Path, share: Path | None
) -> list[str]:
    """The command line of guest `index`. Everything it talks through is inherited: agent and cables are its serial
    ports, NICs are datagram sockets, the console is its standard output. Its pid goes to a folder below `folder`. The
    root's path is in quotes for the guest's kernel, which splits its command line at spaces."""
    return [
        *(str(kernel), f"mem={shape.memory_mb}M", f"umid=h{index}", f"uml_dir={folder}"),
        *(f"initrd={image.initrd}", f'ubd0rc="{image.root}"'),
        *("con=null", "con0=null,fd:1", "ssl=null", f"ssl0=fd:{files.agent}", f"ssl1=fd:{files.monitor}"),
        *(
            nic(number, port, fd, shape.mtu)
            for number, (port, fd) in enumerate(zip(shape.ports_of(index), files.nics, strict=True))
        ),
        *_share(share),
        *("quiet", "loglevel=4", "panic=-1"),
        *guest_words(shape, index, share),
        f"r2cc.root={ROOT}",
    ]


def nic(number: int, port: WirePort, fd: int, mtu: int) -> str:
    """Frames as they are, one a datagram: what r2cc_wire has at the other end."""
    return f"vec{number}:transport=fd,fd={fd},mac={port.mac},mtu={mtu},depth={QUEUE}"


def _share(share: Path | None) -> list[str]:
    """The guest sees no other folder of this machine. Raises LabError for a name that cannot be said."""
    if share is None:
        return []
    if "," in str(share):
        raise LabError(f"User Mode Linux cannot show a guest {share}: there is a comma in its name", "use --kind vm")
    return [f"hostfs={share}"]
