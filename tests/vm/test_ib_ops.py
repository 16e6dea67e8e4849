"""Drain, fence, cancel and events of the IB transport on soft-RoCE, with real work-completion errors.

After drain and fence at both ends: nothing that arrived whole is reported lost, nothing partial is reported whole, what
the sender knows to be delivered the receiver has, and no byte is written any more. Why: docs/internals/net-ib.md.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.build import build_net
from harness.errors import LabError
from harness.progress import silent
from harness.vmlab import tools
from harness.vmlab.lab import VmLab
from harness.vmlab.shape import Shape
from tests.vm.conftest import ENGINE
from tests.vm.ib_ops import CONNECT_MS, End, check_counts, close, connect

pytestmark = [pytest.mark.vm, pytest.mark.slow]

PROGRAM = Path(__file__).parents[2] / "build/net/ib_ops_test"
DRAIN_US = 400_000
"""200 ms is the drain's own limit; the rest is what an emulated machine may be late if nothing else runs."""
ANSWERS = 20
"""It may be later by what it takes just now to answer as often."""
QUIET_MS = 700
"""Longer than a sender's NIC goes on trying (0.5 s): a late retransmission would be seen."""
FAULTS = ("none", "link sender", "link receiver", "hole", "address sender", "address receiver")
CYCLES = 200


@pytest.fixture(scope="module")
def lab() -> Iterator[VmLab]:
    try:
        tools.require(ENGINE)
    except LabError as error:
        pytest.skip(str(error))
    if not PROGRAM.exists():
        pytest.skip("build/net/ib_ops_test is not built: make -C r2cc_patches unit-tests")
    with VmLab.up(Shape(hosts=2, nics=2, engine=ENGINE)) as made:
        yield made


@pytest.fixture(autouse=True)
def healed(lab: VmLab) -> Iterator[None]:
    yield
    mend(lab)


@pytest.fixture
def ends(lab: VmLab) -> Iterator[tuple[End, End]]:
    with End(lab.hosts["h0"], str(PROGRAM)) as sender, End(lab.hosts["h1"], str(PROGRAM)) as receiver:
        yield sender, receiver


def mend(lab: VmLab) -> None:
    for nic in lab.nics:
        lab.set_link(nic.switch_port, True)
        lab.black_hole(nic.switch_port, False)
        lab.set_address(nic, True)


def inflict(lab: VmLab, fault: str) -> None:
    if fault == "none":
        return
    kind, _, side = fault.partition(" ")
    nic = next(n for n in lab.nics if n.name == "eth0" and n.host == ("h0" if side == "sender" else "h1"))
    if kind == "link":
        lab.set_link(nic.switch_port, False)
    elif kind == "hole":
        lab.black_hole(nic.switch_port, True)
    else:
        lab.set_address(nic, False)


def drained(end: End) -> None:
    began = time.monotonic()
    end.ask("descriptors")
    most_us = DRAIN_US + ANSWERS * 1e6 * (time.monotonic() - began)
    assert int(end.ask("drain")) < most_us
    assert int(end.ask("fence")) < most_us


def resources(lab: VmLab) -> dict[str, str]:
    """What every device of both guests holds: queue pairs, registrations and the rest."""
    shown = {name: host.run(["rdma", "resource", "show"]).stdout for name, host in lab.hosts.items()}
    return {name: "\n".join(sorted(re.findall(r"rxe\d.*", text))) for name, text in shown.items()}


@pytest.mark.parametrize("fault", FAULTS)
def test_counts_are_right_after_a_fault_in_mid_message(lab: VmLab, ends: tuple[End, End], fault: str) -> None:
    sender, receiver = ends
    connect(sender, receiver)
    assert receiver.ask("post", 16, 1000) == "16"
    sender.send("post", 16, 3000)
    time.sleep(0.02)
    inflict(lab, fault)
    sender.answer()
    time.sleep(0.1)
    drained(sender)
    drained(receiver)
    before = receiver.ask("contents")
    check_counts(sender, receiver)
    assert receiver.ask("quiet", QUIET_MS) == "quiet"
    assert receiver.ask("contents") == before
    mend(lab)  # without carrier soft-RoCE keeps a queue pair that is destroyed until its last packet is gone
    close(sender, receiver)


@pytest.mark.parametrize("fault", FAULTS)
def test_counts_are_right_once_the_nic_has_given_up(lab: VmLab, ends: tuple[End, End], fault: str) -> None:
    """Here the sender's own NIC reports an error first, and test() has read part of the completions."""
    sender, receiver = ends
    connect(sender, receiver)
    receiver.ask("post", 16, 1000)
    sender.ask("post", 6, 1000)
    inflict(lab, fault)
    sender.ask("post", 10, 500)
    sender.ask("test", 1500)
    receiver.ask("test", 200)
    drained(receiver)  # the other order: here the receiver goes first
    assert receiver.ask("quiet", QUIET_MS) == "quiet"
    drained(sender)
    sent, received = check_counts(sender, receiver)
    if fault == "none":
        assert (sent, received) == ("d" * 16, "d" * 16)
    mend(lab)
    close(sender, receiver)


@pytest.mark.parametrize("fault", FAULTS)
def test_an_idle_connection(lab: VmLab, ends: tuple[End, End], fault: str) -> None:
    sender, receiver = ends
    connect(sender, receiver, count=4)
    receiver.ask("post", 4, 1000)
    assert sender.ask("post", 4, 3000) == "4"
    assert (sender.ask("test", 5000), receiver.ask("test", 5000)) == ("ok", "ok")
    inflict(lab, fault)
    drained(sender)
    drained(receiver)
    assert check_counts(sender, receiver) == ("dddd", "dddd")
    close(sender, receiver)


def test_the_receiver_alone_stops_all_writes(ends: tuple[End, End]) -> None:
    """Invariant 3 without any help of the sender: it goes on sending while the receiver fences."""
    sender, receiver = ends
    connect(sender, receiver, count=32, size=1 << 20)
    assert receiver.ask("post", 32, 1000) == "32"
    sender.send("post", 32, 2000)
    time.sleep(0.1)
    drained(receiver)
    before = receiver.ask("contents")
    assert receiver.ask("quiet", QUIET_MS) == "quiet"
    sender.answer()
    drained(sender)
    _, received = check_counts(sender, receiver)
    assert receiver.ask("contents") == before
    assert "f" in received, "all had arrived before the fence: nothing was tested"
    close(sender, receiver)


def test_the_sender_alone_stops_all_writes(ends: tuple[End, End]) -> None:
    sender, receiver = ends
    connect(sender, receiver, count=32, size=1 << 20)
    receiver.ask("post", 32, 1000)
    assert int(sender.ask("post", 32, 1000)) > 0
    drained(sender)
    assert receiver.ask("quiet", QUIET_MS) == "quiet"
    drained(receiver)
    sent, _ = check_counts(sender, receiver)
    assert "f" in sent, "all had gone before the fence: nothing was tested"
    close(sender, receiver)


def test_nothing_is_posted_after_a_drain(ends: tuple[End, End]) -> None:
    sender, receiver = ends
    connect(sender, receiver)
    receiver.ask("post", 8, 1000)
    drained(sender)
    drained(receiver)
    assert (sender.ask("post", 1, 100), receiver.ask("post", 1, 100)) == ("0", "0")
    close(sender, receiver)


def test_a_killed_peer(lab: VmLab) -> None:
    with End(lab.hosts["h0"], str(PROGRAM)) as sender:
        with End(lab.hosts["h1"], str(PROGRAM)) as receiver:
            connect(sender, receiver)
            receiver.ask("post", 16, 1000)
            sender.ask("post", 4, 1000)
            receiver.process.kill()
            assert receiver.process.wait(10) == -9
        sender.ask("post", 12, 300)
        drained(sender)
        assert "f" in sender.ask("settle") or int(sender.ask("post", 1, 100)) == 0
        close(sender)


@pytest.mark.parametrize("ms", [0, 1, 3, 10, 30, 100, 300])
def test_giving_up_a_connect_leaves_nothing(lab: VmLab, ends: tuple[End, End], ms: int) -> None:
    """Stopped after `ms`, so in another stage each time; both ends, with the other still there."""
    sender, receiver = ends
    before = resources(lab), sender.ask("descriptors"), receiver.ask("descriptors")
    for _ in range(5):
        handle = receiver.ask("listen", 0)
        receiver.send("accept", ms)
        state = sender.ask("connect", 0, handle, ms)
        if state == "up":  # it was fast enough to be finished
            close(sender)
        sender.ask("cancel")
        if receiver.answer() == "up":
            close(receiver)
        receiver.ask("cancel")
    assert (resources(lab), sender.ask("descriptors"), receiver.ask("descriptors")) == before


@pytest.mark.parametrize("fault", ["link receiver", "hole", "killed"])
def test_a_fault_during_connect_leaves_nothing(lab: VmLab, ends: tuple[End, End], fault: str) -> None:
    """The transport's own error path: there upstream frees the comm and forgets all that belongs to it."""
    sender, _ = ends
    before = resources(lab)["h0"], sender.ask("descriptors")
    for wait_ms in (5, 20, 60):
        with End(lab.hosts["h1"], str(PROGRAM)) as other:
            handle = other.ask("listen", 0)
            other.send("accept", wait_ms)
            sender.send("connect", 0, handle, 1500)
            other.answer()
            if fault == "killed":
                other.process.kill()
            else:
                inflict(lab, fault)
            if sender.answer() == "up":
                close(sender)
            sender.ask("cancel")
        mend(lab)
    assert (resources(lab)["h0"], sender.ask("descriptors")) == before


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_cycles_leak_nothing(lab: VmLab, ends: tuple[End, End]) -> None:
    sender, receiver = ends
    before = resources(lab), sender.ask("descriptors"), receiver.ask("descriptors")
    for cycle in range(CYCLES):
        connect(sender, receiver, count=4, size=65536)
        receiver.ask("post", 4, 1000)
        assert int(sender.ask("post", cycle % 5, 2000)) == cycle % 5
        drained(sender)
        drained(receiver)
        check_counts(sender, receiver)
        close(sender, receiver)
    assert (resources(lab), sender.ask("descriptors"), receiver.ask("descriptors")) == before


MERGED = {
    "merged": {},
    "preposted": {"NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS": "1", "NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME": "1"},
    "failover": {"NCCL_IB_RESILIENCY_PORT_FAILOVER": "1", "NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME": "1"},
}


@pytest.mark.parametrize("kind", MERGED)
def test_a_merged_device(lab: VmLab, kind: str) -> None:
    """Two devices number their queue pairs alike; preposted receives leave no room for a mark."""
    environment = {**MERGED[kind], "NCCL_IB_TIMEOUT": "16"}
    sender = End(lab.hosts["h0"], str(PROGRAM), env=environment)
    with sender, End(lab.hosts["h1"], str(PROGRAM), env=environment) as receiver:
        device = int(sender.ask("merge", 0, 1))
        assert receiver.ask("merge", 0, 1) == str(device)
        connect(sender, receiver, device, count=24)
        assert receiver.ask("post", 16, 1000) == "16"
        assert sender.ask("post", 12, 3000) == "12"
        assert sender.ask("test", 5000) == "ok"
        for end in (sender, receiver):
            assert int(end.ask("drain")) < 200_000, "a completion was waited for that did not come"
        assert check_counts(sender, receiver) == ("d" * 12, "d" * 12 + "f" * 4)
        close(sender, receiver)


def test_interfaces_and_events(lab: VmLab, ends: tuple[End, End]) -> None:
    sender, _ = ends
    assert sender.devices == 2
    assert [sender.ask("interface", device) for device in range(2)] == ["eth0", "eth1"]
    assert sender.ask("events", 0, 0) == ""
    assert heard(lab, sender, lambda: lab.set_link("h0-eth0", False)) == {"port_err:down"}
    assert "port_active:up" in heard(lab, sender, lambda: lab.set_link("h0-eth0", True))
    nic = next(n for n in lab.nics if (n.host, n.name) == ("h0", "eth0"))
    assert "gid_change:down" in heard(lab, sender, lambda: lab.set_address(nic, False))
    assert "gid_change:up" in heard(lab, sender, lambda: lab.set_address(nic, True))
    assert sender.ask("events", 1, 0) == "", "another NIC's events"


def test_a_lost_device_is_told_of_to_each_who_asks_until_it_is_opened_anew(lab: VmLab) -> None:
    """As by the engine of the next communicator. The device is well: libr2cc_faults.so sends the event."""
    host, folder = lab.hosts["h0"], "/tmp/r2cc-lost"
    library = build_net(progress=silent).faults
    host.run(["mkdir", "-m", "755", "-p", folder])
    with End(host, str(PROGRAM), env={"LD_PRELOAD": str(library), "R2CC_FAULTS": folder}) as end:
        assert end.ask("events", 0, 0) == ""
        host.run(["tee", f"{folder}/lost"], input="r2cc-faults 1\nverbs rxe0 event name=device_fatal\nend\n")
        try:
            lost = ""
            deadline = time.monotonic() + CONNECT_MS / 1000
            while lost == "" and time.monotonic() < deadline:
                lost = end.ask("events", 0, 200)
            assert lost == "device_fatal:down:fatal"
            assert end.ask("events", 0, 0) == "device_fatal:down:fatal", "another asks"
            assert end.ask("events", 1, 0) == "", "another device"
            assert end.ask("reopen", 0) == "reopened:up"
            assert end.ask("events", 0, 0) == ""
        finally:
            host.run(["rm", "-r", folder])


def heard(lab: VmLab, end: End, change: object) -> set[str]:
    """The events of device 0 in the two seconds after a change."""
    assert callable(change)
    thread = threading.Thread(target=change)
    thread.start()
    found: set[str] = set()
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        found |= set(end.ask("events", 0, 200).split())
    thread.join(CONNECT_MS / 1000)
    return found
