"""The real r2cc_wire between pairs of sockets: what it passes on, what it loses, and how it ends."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from waits import LIMIT_S, until

from harness.errors import BuildError, LabError
from harness.vmlab.shape import Shape, WirePort
from harness.vmlab.wire import WireControl, ensure_built, socket_pair, wire_command

pytestmark = pytest.mark.build

SOURCES = Path(__file__).parents[2] / "r2cc_patches" / "wire"
BROADCAST = "ff:ff:ff:ff:ff:ff"
SILENCE_S = 0.1


@dataclass
class Rig:
    """Three hosts with two NICs each; `nics` are the guests' ends."""

    process: subprocess.Popen[bytes]
    control: WireControl
    control_link: socket.socket
    nics: dict[str, socket.socket]
    ports: dict[str, WirePort]
    sent: Counter[str] = field(default_factory=Counter)

    def send(self, source: str, target: str, text: str = "hello", fill: int = 0) -> None:
        """A frame from a port's NIC to another's, or to everybody."""
        to = BROADCAST if target == BROADCAST else self.ports[target].mac
        frame = b"".join(bytes.fromhex(mac.replace(":", "")) for mac in (to, self.ports[source].mac))
        self.nics[source].send(frame + text.encode().ljust(fill, b"."))
        self.sent[source] += 1

    def got(self, port: str) -> str | None:
        """The text of the next frame; None when none comes of all that were sent."""
        nic = self.nics[port]
        until(lambda: readable(nic, 0) or self.is_idle(), "the wire does nothing")
        return nic.recv(70000)[12:].decode() if readable(nic, SILENCE_S) else None

    def is_idle(self) -> bool:
        """It has dealt with every frame that `send` sent."""
        shown = self.control.show()
        dealt = {name: sum(shown[name]["from"][end] for end in ("frames", "dropped", "overrun")) for name in self.sent}
        return all(dealt[name] >= sent for name, sent in self.sent.items())

    def counters(self, port: str, direction: str) -> dict[str, int]:
        shown: dict[str, int] = self.control.show()[port][direction]
        return shown


def readable(link: socket.socket, within_s: float) -> bool:
    return bool(select.select([link], [], [], within_s)[0])


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_built(SOURCES, tmp_path_factory.mktemp("cache"))


@pytest.fixture
def rig(program: Path) -> Iterator[Rig]:
    ports = {port.name: port for port in Shape(hosts=3, nics=2).ports()}
    pairs = {name: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for name in ports}
    control_link, control_fd = socket_pair(socket.SOCK_SEQPACKET)
    ends = {ports[name]: pair[1].fileno() for name, pair in pairs.items()}
    process = subprocess.Popen(wire_command(program, control_fd, ends), pass_fds=[control_fd, *ends.values()])
    os.close(control_fd)
    for near, far in pairs.values():
        near.settimeout(LIMIT_S)
        far.close()
    rig = Rig(process, WireControl(control_link), control_link, {name: pair[0] for name, pair in pairs.items()}, ports)
    yield rig
    process.kill()
    process.wait()
    for near in (*rig.nics.values(), control_link):
        near.close()


def test_a_frame_reaches_the_nic_whose_address_it_bears_and_no_other(rig: Rig) -> None:
    rig.send("h0-eth0", "h1-eth0")
    assert rig.got("h1-eth0") == "hello"
    assert [rig.got(port) for port in ("h0-eth0", "h2-eth0", "h1-eth1", "h1-mgmt0")] == [None] * 4
    assert (rig.counters("h0-eth0", "from")["frames"], rig.counters("h1-eth0", "to")["bytes"]) == (1, 17)


@pytest.mark.parametrize("target", [BROADCAST, "h1-eth1"], ids=["broadcast", "an address of another rail"])
def test_what_has_no_port_goes_to_all_of_its_rail(rig: Rig, target: str) -> None:
    rig.send("h0-eth0", target)
    assert [rig.got(port) for port in ("h1-eth0", "h2-eth0")] == ["hello", "hello"]
    assert [rig.got(port) for port in ("h0-eth0", "h1-eth1", "h2-mgmt0")] == [None] * 3


def test_large_frames_pass_whole_and_tiny_ones_are_none(rig: Rig) -> None:
    rig.nics["h0-eth0"].send(b"short")
    rig.send("h0-eth0", "h1-eth0", fill=60000)
    assert len(rig.got("h1-eth0") or "") == 60000


@pytest.mark.parametrize(
    ("direction", "arrives_out", "arrives_in"), [("both", False, False), ("from", False, True), ("to", True, False)]
)
def test_a_black_hole_has_a_direction(rig: Rig, direction: str, arrives_out: bool, arrives_in: bool) -> None:
    rig.control.ask(f"set h1-eth0 {direction} drop on")
    rig.send("h1-eth0", "h0-eth0", "out")
    rig.send("h0-eth0", "h1-eth0", "in")
    assert rig.got("h0-eth0") == ("out" if arrives_out else None)
    assert rig.got("h1-eth0") == ("in" if arrives_in else None)
    rig.control.ask("clear h1-eth0")
    rig.send("h1-eth0", "h0-eth0", "again")
    assert rig.got("h0-eth0") == "again"
    lost = [rig.counters("h1-eth0", way)["dropped"] for way in ("from", "to")]
    assert lost == [int(not arrives_out), int(not arrives_in)]


def test_a_black_hole_leaves_other_nics_alone(rig: Rig) -> None:
    rig.control.ask("set h1-eth0 both drop on")
    rig.send("h0-eth0", "h2-eth0")
    rig.send("h0-eth1", "h1-eth1")
    assert (rig.got("h2-eth0"), rig.got("h1-eth1")) == ("hello", "hello")


def test_a_cable_that_is_out_outlives_a_clear(rig: Rig) -> None:
    """`clear` ends the wire's faults; a cable is put back by who pulled it."""
    rig.control.ask("set h1-eth0 both cut on")
    rig.control.ask("set h1-eth0 to drop on")
    rig.control.ask("clear h1-eth0")
    rig.send("h0-eth0", "h1-eth0")
    rig.send("h1-eth0", "h0-eth0")
    assert (rig.got("h1-eth0"), rig.got("h0-eth0")) == (None, None)
    rig.control.ask("set h1-eth0 both cut off")
    rig.send("h0-eth0", "h1-eth0", "again")
    assert rig.got("h1-eth0") == "again"


def test_loss_is_a_share_of_the_frames(rig: Rig) -> None:
    rig.control.ask("set h0-eth0 from loss 0.25")
    arrived = 0
    deadline = time.monotonic() + 30
    for sent in range(1, 401):
        rig.send("h0-eth0", "h1-eth0")
        while True:  # until the wire has dealt with it, one way or the other
            seen = rig.counters("h0-eth0", "from")
            while arrived < seen["frames"]:
                assert rig.got("h1-eth0") == "hello"
                arrived += 1
            if arrived + seen["dropped"] == sent:
                break
            assert time.monotonic() < deadline, seen
    assert 260 <= arrived <= 340  # 300 expected; six standard deviations of 8.7 are 52
    assert rig.counters("h0-eth0", "from")["dropped"] == 400 - arrived


def ip_frame(rig: Rig, protocol: int, length: int, *, six: bool = False) -> bytes:
    """From h0-eth0 to h1-eth0: an IP packet of that many bytes."""
    macs = b"".join(bytes.fromhex(rig.ports[name].mac.replace(":", "")) for name in ("h1-eth0", "h0-eth0"))
    head = bytes([0x60, 0, 0, 0, 0, 0, protocol]) if six else bytes([0x45, *[0] * 8, protocol])
    return macs + (b"\x86\xdd" if six else b"\x08\x00") + head.ljust(length, b"\0")


TCP, UDP, ICMP = 6, 17, 1


@pytest.mark.parametrize(
    ("what", "passing"),
    [
        ("tcp on", [(UDP, 100), (UDP, 9000), (ICMP, 100)]),
        ("udp on", [(TCP, 100), (TCP, 1500), (TCP, 1501), (TCP, 9000), (ICMP, 100)]),
        ("above 1500", [(TCP, 100), (TCP, 1500), (UDP, 100), (ICMP, 100)]),
    ],
)
def test_some_packets_are_lost_by_protocol_or_length(rig: Rig, what: str, passing: list[tuple[int, int]]) -> None:
    rig.control.ask(f"set h1-eth0 to {what}")
    sent = [(TCP, 100), (TCP, 1500), (TCP, 1501), (TCP, 9000), (UDP, 100), (UDP, 9000), (ICMP, 100)]
    for six in (False, True):
        for protocol, length in sent:
            rig.nics["h0-eth0"].send(ip_frame(rig, protocol, length, six=six))
        got = [rig.nics["h1-eth0"].recv(70000) for _ in passing]
        assert got == [ip_frame(rig, protocol, length, six=six) for protocol, length in passing]
    assert rig.counters("h1-eth0", "to")["dropped"] == 2 * (len(sent) - len(passing))
    rig.send("h0-eth0", "h1-eth0", "no packet of IP")
    assert rig.got("h1-eth0") == "no packet of IP"
    rig.control.ask("clear h1-eth0")
    rig.nics["h0-eth0"].send(ip_frame(rig, TCP, 9000))
    assert len(rig.nics["h1-eth0"].recv(70000)) == 9014


def test_a_rate_is_held_and_nothing_is_lost(rig: Rig) -> None:
    """300 frames of 4 kB at 40 Mbit/s, the first 128 KiB of the bucket at once: 0.21 s. One sender has to wait."""
    rig.control.ask("set h0-eth0 from rate 40000000")
    started, sent, arrived = time.monotonic(), 0, 0
    rig.nics["h0-eth0"].setblocking(False)
    while arrived < 300:
        while sent < 300:
            try:
                rig.send("h0-eth0", "h1-eth0", str(sent), fill=3988)
            except BlockingIOError:
                break
            sent += 1
        assert (rig.got("h1-eth0") or "").rstrip(".") == str(arrived)
        arrived += 1
    elapsed = time.monotonic() - started
    assert elapsed >= 0.19
    assert rig.counters("h0-eth0", "from")["overrun"] == 0


def test_a_full_guest_loses_frames_and_holds_up_nobody(rig: Rig) -> None:
    for number in range(1500):  # 6 MB for a guest that does not read: 4 MiB wait, the rest is lost
        rig.send("h0-eth0", "h1-eth0", str(number), fill=4000)
        if number % 8 == 0:
            rig.control.show()
    rig.send("h0-eth0", "h2-eth0", "past it")
    assert rig.got("h2-eth0") == "past it"
    assert rig.counters("h1-eth0", "to")["overrun"] > 300
    assert (rig.got("h1-eth0") or "").rstrip(".") == "0"


def test_a_guest_that_ends_does_not_end_the_others(rig: Rig) -> None:
    rig.nics["h2-eth0"].close()
    rig.send("h0-eth0", BROADCAST)
    assert rig.got("h1-eth0") == "hello"
    before = cpu_ticks(rig.process.pid)
    time.sleep(0.3)
    assert cpu_ticks(rig.process.pid) - before <= 2, "it spins on a socket that is gone"


def cpu_ticks(pid: int) -> int:
    """CPU time of a process, in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize(
    "request_text",
    [
        "set h9-eth0 both drop on",
        "set h0-eth0 sideways drop on",
        "set h0-eth0 both drop maybe",
        "set h0-eth0 both loss 1.5",
        "set h0-eth0 both loss -0.1",
        "set h0-eth0 both loss x",
        "set h0-eth0 both rate 5",
        "set h0-eth0 both rate 1e9x",
        "set h0-eth0 both delay 3",
        "clear",
        "clear h9-eth9",
        "nonsense",
    ],
)
def test_what_is_not_understood_changes_nothing(rig: Rig, request_text: str) -> None:
    before = rig.control.show()
    with pytest.raises(LabError, match="the lab's switch: "):
        rig.control.ask(request_text)
    assert rig.control.show() == before


def test_it_ends_with_its_control(rig: Rig) -> None:
    rig.control_link.close()
    assert rig.process.wait(LIMIT_S) == 0


@pytest.mark.parametrize(
    "words", [[], ["--port", "a,0,52:54:00:00:00:01,3"], ["--control", "0", "--port", "a,0,1:2,3"]]
)
def test_bad_usage_ends_it_at_once(program: Path, words: list[str]) -> None:
    done = subprocess.run([str(program), *words], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 2
    assert done.stderr.startswith("r2cc_wire: ")


def test_it_is_compiled_again_only_when_its_sources_change(tmp_path: Path) -> None:
    sources = tmp_path / "wire"
    sources.mkdir()
    (sources / "main.cc").write_text("int main() { return 0; }\n")
    first = ensure_built(sources, tmp_path)
    stamp = first.stat().st_mtime_ns
    assert ensure_built(sources, tmp_path) == first
    assert first.stat().st_mtime_ns == stamp
    (sources / "main.cc").write_text("int main() { return 1; }\n")
    assert ensure_built(sources, tmp_path) != first
    (sources / "main.cc").write_text("int main() { return }\n")
    with pytest.raises(BuildError, match=r"main\.cc"):
        ensure_built(sources, tmp_path)
