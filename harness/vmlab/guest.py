"""One guest's QEMU command line. Pure: the keeper starts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.vmlab.image.build import Image
from harness.vmlab.shape import SSH_NET, Shape, WirePort

QEMU = "qemu-system-x86_64"
AGENT_PORT = "r2cc.agent"
PROCESSOR = "qemu64,+rdrand,-cx16"
"""Without cmpxchg16b: QEMU 7.2 then takes any bits of the number subtracted last for flags, for good if an interrupt
comes there. Linux's allocator uses it all the time, and guests died of that (docs/results/vm-lab.md)."""
SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@:")

KERNEL_OPTIONS = (
    "console=ttyS0",
    "quiet",
    "loglevel=4",
    "panic=-1",  # with -no-reboot: a guest that panics ends its QEMU, and the keeper sees that
    "mitigations=off",
    "nokaslr",
    "tsc=reliable",
    "clocksource=hpet",  # of the TSC Linux may read the rate wrong by three times where this machine is busy
    "no_timer_check",
    "cryptomgr.notests",
    "random.trust_cpu=on",
    "audit=0",
    "apparmor=0",
)
"""What costs seconds in emulation and protects nothing here is off."""


@dataclass(frozen=True)
class Files:
    """Open files that a QEMU inherits: the agent's and the monitor's sockets, and one pair's end for each NIC."""

    agent: int
    monitor: int
    nics: Sequence[int]

    def all(self) -> list[int]:
        return [self.agent, self.monitor, *self.nics]


def qemu_command(
    shape: Shape,
    index: int,
    *,
    image: Image,
    files: Files,
    console: Path,
    share: Path | None,
    ssh_key: str = "",
) -> list[str]:
    """The command line of guest `index`. Everything it talks through is inherited: it opens no path, and no port but
    the one on loopback that leads to its sshd, if the shape asks for one; `ssh_key` is let in there."""
    return [
        *(QEMU, "-name", f"h{index}", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-machine", "pc,vmport=off", "-accel", "tcg,thread=multi,tb-size=256", "-cpu", PROCESSOR),
        *("-m", str(shape.memory_mb), "-smp", str(shape.cpus)),
        *("-kernel", str(image.vmlinux), "-initrd", str(image.initrd)),
        *("-append", kernel_command_line(shape, index, share, ssh_key)),
        *("-drive", f"if=none,id=root,format=raw,readonly=on,file={_escaped(image.root)}"),
        *("-device", "virtio-blk-pci,drive=root"),
        *("-chardev", f"file,id=console,path={_escaped(console)}", "-serial", "chardev:console"),
        *("-chardev", f"socket,id=monitor,fd={files.monitor}", "-mon", "chardev=monitor,mode=control"),
        *("-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,fd={files.agent}"),
        *("-device", f"virtserialport,chardev=agent,name={AGENT_PORT}"),
        *_share_options(share),
        *(word for port, fd in zip(shape.ports_of(index), files.nics, strict=True) for word in _nic(port, fd, shape)),
        *_ssh_options(shape, index),
    ]


def kernel_command_line(shape: Shape, index: int, share: Path | None, ssh_key: str = "") -> str:
    words = [*KERNEL_OPTIONS, *guest_words(shape, index, share)]
    if shape.ssh:
        words.append(f"r2cc.ssh={ssh_key}")
    return " ".join(words)


def guest_words(shape: Shape, index: int, share: Path | None) -> list[str]:
    """What inside/init.sh reads, whatever the guest is made of."""
    words = [f"r2cc.index={index}", f"r2cc.nics={shape.nics}", f"r2cc.mtu={shape.mtu}"]
    return words if share is None else [*words, f"r2cc.share={encoded(share)}"]


def encoded(path: Path) -> str:
    """The path in one word of the kernel command line: printf's %b in the guest undoes it."""
    letters = (chr(byte) for byte in str(path).encode())
    return "".join(letter if letter in SAFE else f"\\0{ord(letter):03o}" for letter in letters)


def _share_options(share: Path | None) -> list[str]:
    """The checkout, read-only and at the same path as here, so that command lines mean the same in a guest."""
    if share is None:
        return []
    options = f"local,path={_escaped(share)},mount_tag=share,security_model=none,readonly=on,multidevs=remap"
    return ["-virtfs", options]


def _nic(port: WirePort, fd: int, shape: Shape) -> list[str]:
    """Frames leave in the guest's own thread (ioeventfd off): handing them to another costs more than it saves here."""
    address = f"mac={port.mac},host_mtu={shape.mtu}"
    device = f"virtio-net-pci,id={port.device},netdev={port.nic},{address},ioeventfd=off,romfile="
    return ["-netdev", f"dgram,id={port.nic},local.type=fd,local.str={fd}", "-device", device]


def _ssh_options(shape: Shape, index: int) -> list[str]:
    """A network in which the guest reaches nothing (restrict), and a free port of ours that leads to its sshd."""
    if not shape.ssh:
        return []
    port = shape.ssh_port(index)
    net = f"net=10.{SSH_NET}.0.0/24,host=10.{SSH_NET}.0.254,dns=10.{SSH_NET}.0.253,ipv6=off,restrict=on"
    forward = f"hostfwd=tcp:127.0.0.1:0-{port.address}:22"
    device = f"virtio-net-pci,id={port.device},netdev={port.nic},mac={port.mac},ioeventfd=off,romfile="
    return ["-netdev", f"user,id={port.nic},{net},{forward}", "-device", device]


def _escaped(path: Path) -> str:
    """A comma in a value of a QEMU option is written twice."""
    return str(path).replace(",", ",,")
