"""Guests of User Mode Linux without one: the command line word for word, cables, what a kernel is made of, refusals."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
from vm_double import FakeWire

from harness.errors import LabError, UsageError
from harness.sites.inventory import parse
from harness.sites.vm import VmSite
from harness.vmlab import tools
from harness.vmlab.guest import Files
from harness.vmlab.image.build import Image
from harness.vmlab.shape import Shape
from harness.vmlab.uml import kernel, memory
from harness.vmlab.uml.cables import Cables
from harness.vmlab.uml.guest import uml_command
from harness.vmlab.wire import WireControl

DATA = Path(__file__).parents[1] / "data" / "vm"
AT_MINSIGSTKSZ = 51
PATCHED = re.compile(r"^\+\+\+ b/(\S+)$", re.MULTILINE)


def command(share: Path | None) -> list[str]:
    return uml_command(
        Shape(hosts=2, nics=2, engine="uml"),
        1,
        kernel=Path("/cache/vm/uml-0123/linux"),
        image=Image(Path("/cache/vm/0123")),
        files=Files(agent=10, monitor=11, nics=[12, 13, 14]),
        folder=Path("/labs/one"),
        share=share,
    )


def test_the_second_of_two_guests() -> None:
    path = DATA / "uml-h1.txt"
    assert command(Path("/home/me/r2cc new")) == path.read_text().splitlines(), f"compare with {path}"


def test_a_guest_sees_no_folder_of_this_machine_that_it_is_not_shown() -> None:
    assert not any(word.startswith("hostfs=") or "r2cc.share" in word for word in command(None))
    with pytest.raises(LabError, match="there is a comma in its name"):
        command(Path("/home/me/a,b"))


class Guest:
    """The far end of a guest's cables, and a process that stands for it."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.process = subprocess.Popen(["sleep", "60"])
        self.wire, self.heard = FakeWire(), list[bytes]()
        self.cables = Cables("h1", self.near, self.process, cast(WireControl, self.wire))

    def state(self) -> str:
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture
def guest() -> Iterator[Guest]:
    made = Guest()
    with made.near, made.far, made.process:
        yield made
        made.process.kill()


@contextmanager
def answering(guest: Guest, *answers: bytes) -> Iterator[None]:
    """The guest answers each line that it hears."""

    def answer() -> None:
        for each in answers:
            guest.heard.append(guest.far.recv(100))
            guest.far.send(each)

    thread = threading.Thread(target=answer)
    thread.start()
    yield
    thread.join()


def test_a_cable_is_out_for_the_wire_and_for_the_guest(guest: Guest) -> None:
    with answering(guest, b"ok\n", b"ok\n"):
        guest.cables.set_link("nic-eth1", up=False)
        assert guest.wire.asked == ["set h1-eth1 both cut on"]
        guest.cables.set_link("nic-eth1", up=True)
    assert guest.wire.asked[1:] == ["set h1-eth1 both cut off"]
    assert guest.heard == [b"eth1 0\n", b"eth1 1\n"]


def test_a_guest_that_cannot_or_is_gone_is_an_error_and_the_cable_is_as_it_was(guest: Guest) -> None:
    with answering(guest, b"failed\n"), pytest.raises(LabError, match="h1: eth1's carrier does not change"):
        guest.cables.set_link("nic-eth1", up=False)
    assert guest.wire.asked == ["set h1-eth1 both cut on", "set h1-eth1 both cut off"]
    guest.far.close()
    with pytest.raises(LabError, match="h1: the guest does not answer") as error:
        guest.cables.set_link("nic-eth1", up=True)
    assert error.value.hint == "is it paused? r2cc lab exec switch -- guest h1 resume"


def test_an_answer_that_came_too_late_is_nobody_s(guest: Guest) -> None:
    guest.far.send(b"failed\n")
    with answering(guest, b"ok\n"):
        guest.cables.set_link("nic-eth1", up=False)
    assert guest.wire.asked == ["set h1-eth1 both cut on"]


def test_a_whole_guest_stands_still_and_goes_on(guest: Guest) -> None:
    guest.cables.ask("stop")
    os.waitid(os.P_PID, guest.process.pid, os.WSTOPPED | os.WNOWAIT)
    assert guest.state() == "T"
    guest.cables.ask("cont")
    os.waitid(os.P_PID, guest.process.pid, os.WCONTINUED | os.WNOWAIT)
    assert guest.state() != "T"
    guest.process.send_signal(signal.SIGTERM)


def test_the_key_follows_options_and_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = kernel.key()
    (tmp_path / "kernel.config").write_bytes(kernel.options().read_bytes() + b"CONFIG_DUMMY=y\n")
    monkeypatch.setattr(kernel, "options", lambda: tmp_path / "kernel.config")
    assert kernel.key() != before


def test_each_change_says_why_and_touches_one_file_of_user_mode_linux() -> None:
    for part in kernel.patches():
        text = part.read_text()
        assert len(found := PATCHED.findall(text)) == 1, part.name
        assert found[0].startswith(("arch/um/", "arch/x86/um/")), part.name
        assert text.splitlines()[0].endswith("."), f"{part.name} does not say why"


def test_the_kernel_has_room_for_this_processors_registers() -> None:
    """A host that has AMX (11 KB) lets nobody set the first 2.7 KB alone: the kernel's first program crashed."""
    (change,) = [part for part in kernel.patches() if part.name == "registers.patch"]
    room = re.search(r"^\+.*HOST_FP_SIZE, (\d+)\)", change.read_text(), re.MULTILINE)
    libc = ctypes.CDLL(None)
    libc.getauxval.restype = ctypes.c_ulong
    assert room is not None
    assert int(room[1]) >= libc.getauxval(AT_MINSIGSTKSZ), "a signal's frame holds all registers"


def test_a_kernel_that_is_there_is_not_made_again_and_older_ones_go(tmp_path: Path) -> None:
    made = tmp_path / f"uml-{kernel.key()}" / "linux"
    made.parent.mkdir()
    made.touch()
    assert kernel.ensure(tmp_path) == made
    (tmp_path / "uml-0123").mkdir()
    kernel.prune(tmp_path, made.parent)
    assert [path.name for path in tmp_path.glob("uml-*")] == [made.parent.name]


def test_what_user_mode_linux_has_not_is_refused() -> None:
    with pytest.raises(UsageError, match="no network to this machine for SSH"):
        Shape(engine="uml", ssh=True)
    with pytest.raises(UsageError, match="is no uml lab: at most 8 hosts and 8 NICs"):
        parse("uml:9x1")


def test_the_inventory_names_it() -> None:
    site = parse("uml:3x2")
    assert isinstance(site, VmSite)
    assert (site.bed, site.shape.engine, site.shape.hosts, site.shape.nics, site.shape.cpus) == ("uml", "uml", 3, 2, 1)
    assert parse("vm:3x2").bed == "vm"


def test_missing_programs_are_named_with_what_installs_them(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"needs .*bc.*flex.*xz-utils") as error:
        tools.require("uml", path=str(tmp_path))
    assert error.value.hint == "bash scripts/system-packages.sh uml"


def test_the_guests_memory_lies_where_there_is_room_for_it(tmp_path: Path) -> None:
    there = str(tmp_path)
    assert memory.folder_for(1, ["/no/such/folder", there]) == tmp_path
    with pytest.raises(LabError, match=f"needs {1 << 40} MiB, and there are \\d+ MiB in {there}") as error:
        memory.folder_for(1 << 40, [there])
    assert error.value.hint is not None and "--shm-size" in error.value.hint


def test_linux_is_compiled_where_its_makefiles_can_be(tmp_path: Path) -> None:
    assert kernel.workplace(tmp_path) == tmp_path
    for name in ("with a space", "with:colon"):
        assert re.search(r"[\s:]", str(kernel.workplace(tmp_path / name))) is None


def test_another_kind_of_processor_is_said_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm = os.uname_result(("Linux", "n1", "6.12", "#1", "aarch64"))
    monkeypatch.setattr(os, "uname", lambda: arm)
    monkeypatch.setattr(kernel, "run_bounded", lambda *_, **__: pytest.fail("something was started"))
    with pytest.raises(LabError, match="runs on x86-64, and this is aarch64"):
        kernel.ensure(tmp_path)


def test_a_kernel_that_was_made_elsewhere_ends_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[Path] = []

    def compiled(tree: Path, _step: object) -> Path:
        places.append(tree)
        (tree / "linux").write_text("a kernel")
        (tree / "linux").chmod(0o755)
        return tree / "linux"

    monkeypatch.setattr(kernel, "_source", lambda work, _step: work)
    monkeypatch.setattr(kernel, "_compiled", compiled)
    cache = tmp_path / "with a space"
    cache.mkdir()
    made = kernel.ensure(cache)
    assert (made.read_text(), made.stat().st_mode & 0o777) == ("a kernel", 0o755)
    assert [path.name for path in made.parent.iterdir()] == ["linux"]
    assert not places[0].is_relative_to(cache) and not places[0].exists()
