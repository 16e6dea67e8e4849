"""The few Linux calls about namespaces that Python 3.11 lacks. Each raises OSError as the os module would."""

from __future__ import annotations

import ctypes
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_BIND, MS_REC, MS_SLAVE = 0x1000, 0x4000, 0x80000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int = 0) -> None:
    """Enters a namespace. Entering a mount namespace needs a process with one thread."""
    _check(_libc.setns(fd, kind), "setns")


def mount(source: str, target: str, kind: str, flags: int) -> None:
    _check(_libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None), f"mount {target}")


def private_mounts() -> None:
    """Moves us to a mount namespace of our own; nothing mounted from here on is seen outside.

    Checked, not assumed: as root, a mount made in the machine's own namespace hides its /proc from every process.
    """
    before = Path("/proc/self/ns/mnt").readlink()
    unshare(CLONE_NEWNS)
    if Path("/proc/self/ns/mnt").readlink() == before:
        raise OSError("still in the machine's mount namespace")
    mount("none", "/", "none", MS_REC | MS_SLAVE)


def replace_file(path: str, text: str) -> None:
    """`path` holds `text` in this mount namespace, and in those made from it. Nothing is left on the disk."""
    fd, name = tempfile.mkstemp(prefix="r2cc-lab-")
    try:
        os.write(fd, text.encode())
        os.fchmod(fd, 0o644)
        mount(name, path, "none", MS_BIND)
    finally:
        os.close(fd)
        Path(name).unlink()


def sethostname(name: str) -> None:
    _check(_libc.sethostname(name.encode(), len(name.encode())), "sethostname")


def die_with_parent() -> None:
    """SIGKILL for us when the thread that forked us ends. Call it after every change of credentials: they clear it."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def allow_inspection() -> None:
    """Lets our user open /proc/<us>/ns and fd again, which entering a user namespace forbids; nsenter needs them."""
    _check(_libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl")


def become_root_of_new_user_namespace() -> None:
    """Maps the caller to uid 0 and gid 0 of a new user namespace: all a plain user needs to own networks."""
    uid, gid = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


@dataclass(frozen=True)
class HostNamespaces:
    """Open references that keep the network, mount and UTS namespace of one lab host alive."""

    name: str
    net: int
    mnt: int
    uts: int

    def enter(self) -> None:
        """Moves this (single-threaded) process there; what it starts afterwards lives there."""
        setns(self.net, CLONE_NEWNET)
        setns(self.uts, CLONE_NEWUTS)
        setns(self.mnt, CLONE_NEWNS)


def create_host(name: str, base_mnt: int, warnings: list[str]) -> HostNamespaces:
    """A new host: empty network, own host name, and a /sys that shows its own NICs (NCCL reads speeds there)."""
    setns(base_mnt, CLONE_NEWNS)
    unshare(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS)
    sethostname(name)
    try:
        mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    except OSError as error:
        warnings.append(f"{name}: /sys shows the NICs of this machine, not the lab's ({error.strerror})")
    return HostNamespaces(name, *(os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in ("net", "mnt", "uts")))


@contextmanager
def inside_network(fd: int) -> Iterator[None]:
    """The calling thread's sockets belong to that network while the block lasts."""
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        setns(fd, CLONE_NEWNET)
        try:
            yield
        finally:
            setns(here, CLONE_NEWNET)
    finally:
        os.close(here)


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Changes the working directory for a block: a Unix socket's path has at most 107 bytes."""
    before = os.open(".", os.O_PATH | os.O_CLOEXEC)
    os.chdir(folder)
    try:
        yield
    finally:
        os.fchdir(before)
        os.close(before)
