"""The lab's NICs carry what they say, to 1 %, with plain TCP; and a probe gets through a loaded NIC quickly.

A measurement on a machine whose CPU was over 85 % busy, or of whose CPU a hypervisor took more than the 1 % that is
asked for here, says nothing (it is void: docs/reference/contracts.md) and is made again; when all are void the test is
skipped and says so.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from harness.hosts import Process
from harness.lab.lab import Lab
from harness.lab.topology import Topology

pytestmark = [pytest.mark.alone, pytest.mark.lab]

TRAFFIC = str(Path(__file__).with_name("traffic.py"))
MTU = 9000
WIRE_BYTES_PER_PAYLOAD_BYTE = (MTU + 14) / (MTU - 52)  # Ethernet header; IP, TCP and its timestamps
ATTEMPTS = 3
MOST_BUSY, MOST_STOLEN = 0.85, 0.01  # a NIC of 0.25 Gbit/s makes up for 4 ms, and a core may be away for longer
RATE_GBIT, SLOW_GBIT = 0.5, 0.25


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    text = f"hosts: 4\nnics: 1\nrate_gbit: {RATE_GBIT}\nmtu: {MTU}\noverrides:\n"
    with Lab.up(Topology.load(f"{text}  - {{host: h3, nic: eth0, rate_gbit: {SLOW_GBIT}}}\n")) as made:
        yield made


def cpu_ticks() -> tuple[int, int, int]:
    """Busy, stolen and all ticks of all cores so far."""
    fields = [int(text) for text in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], fields[7], sum(fields)  # busy: without idle and iowait


class Transfer:
    """`streams` TCP connections from each of `senders` to `receiver`, over rail 0."""

    def __init__(self, lab: Lab, receiver: str, senders: list[str], seconds: float = 1.5, streams: int = 1) -> None:
        address = f"10.1.0.{int(receiver[1:]) + 1}"
        total = str(streams * len(senders))
        self.sink = lab.hosts[receiver].spawn([sys.executable, TRAFFIC, "sink", address, "5000", total, str(seconds)])
        self._line()
        command = [sys.executable, TRAFFIC, "source", address, "5000", str(streams)]
        self.sources: list[Process] = [lab.hosts[sender].spawn(command) for sender in senders]
        self._cpu_at_start = cpu_ticks()

    def _line(self) -> dict[str, float]:
        assert self.sink.stdout is not None
        line: dict[str, float] = json.loads(self.sink.stdout.readline())
        return line

    def finish_gbit(self) -> float:
        """The rate on the wire that the receiver saw, headers included."""
        measured = self._line()
        busy, stolen, total = (after - before for after, before in zip(cpu_ticks(), self._cpu_at_start, strict=True))
        self.is_void = busy > MOST_BUSY * total or stolen > MOST_STOLEN * total
        for process in (self.sink, *self.sources):
            process.close()
        return measured["bytes"] * 8e-9 * WIRE_BYTES_PER_PAYLOAD_BYTE / measured["elapsed_s"]


@pytest.mark.parametrize(
    ("receiver", "senders", "streams", "expected_gbit"),
    [
        ("h1", ["h0"], 1, RATE_GBIT),
        ("h0", ["h1"], 1, RATE_GBIT),
        ("h0", ["h1"], 4, RATE_GBIT),
        ("h0", ["h1", "h2"], 2, RATE_GBIT),
        ("h0", ["h3"], 1, SLOW_GBIT),
        ("h3", ["h0"], 1, SLOW_GBIT),
    ],
    ids=["forth", "back", "streams", "incast", "from-slow", "to-slow"],
)
def test_tcp_gets_the_rate_to_one_percent(
    lab: Lab, receiver: str, senders: list[str], streams: int, expected_gbit: float
) -> None:
    seen_gbit = []
    for _ in range(ATTEMPTS):
        transfer = Transfer(lab, receiver, senders, streams=streams)
        rate_gbit = transfer.finish_gbit()
        right = rate_gbit == pytest.approx(expected_gbit, rel=0.01)
        seen_gbit += [rate_gbit] if right or not transfer.is_void else []
        if right:
            break
    skip_if_void(seen_gbit)
    assert seen_gbit[-1] == pytest.approx(expected_gbit, rel=0.01), seen_gbit


def skip_if_void(judged: Sequence[object]) -> None:
    if not judged:
        pytest.skip(f"void: the machine was busy, or CPU was taken from it, in all {ATTEMPTS} measurements")


def fail_or_void(judged: list[float], what: str) -> NoReturn:
    skip_if_void(judged)
    pytest.fail(f"{judged} {what}")


def test_flows_take_turns_at_their_host_and_lose_nothing_there(lab: Lab) -> None:
    """As with fq_codel: a flow of few packets must not lose them to its own host's full queue."""
    before = dropped(lab)
    Transfer(lab, "h0", ["h1"], streams=4).finish_gbit()
    classes = lab.hosts["h1"].run(["tc", "-s", "class", "show", "dev", "eth0"]).stdout
    carried = [int(sent) for sent in re.findall(r"^class htb .*\n Sent (\d+) bytes", classes, re.MULTILINE)]
    assert sum(sent > 1_000_000 for sent in carried) >= 2, "all flows share one queue"
    assert dropped(lab) == before


def dropped(lab: Lab) -> int:
    """Packets that h1's own queues have dropped."""
    found = json.loads(lab.hosts["h1"].run(["tc", "-s", "-j", "qdisc", "show", "dev", "eth0"]).stdout)
    return sum(int(qdisc["drops"]) for qdisc in found)


@pytest.mark.parametrize("senders", [["h1"], ["h1", "h2"]], ids=["one", "incast"])
def test_a_probe_overtakes_nothing_but_waits_little(lab: Lab, senders: list[str]) -> None:
    """The failure detector's margin: the median round trip through a saturated NIC stays below 6 ms.

    A full queue is 3 ms at any rate, and one more burst of 131072 bytes (2 ms at 0.5 Gbit/s) may be ahead of it.
    """
    echo = lab.hosts["h0"].spawn([sys.executable, TRAFFIC, "echo", "10.1.0.1", "5001"])
    assert echo.stdout is not None
    echo.stdout.readline()
    judged = []
    try:
        for _ in range(ATTEMPTS):
            transfer = Transfer(lab, "h0", senders, seconds=1.5, streams=2)
            command = [sys.executable, TRAFFIC, "probe", "10.1.0.2", "10.1.0.1", "5001", "100", "8"]
            answer = json.loads(lab.hosts["h1"].run(command, timeout_s=60).stdout)
            rate_gbit = transfer.finish_gbit()
            median_ms = answer["times_ms"][len(answer["times_ms"]) // 2]
            if rate_gbit > 0.9 * RATE_GBIT and median_ms < 6 and len(answer["times_ms"]) >= 95:
                return
            judged += [] if transfer.is_void else [median_ms]
    finally:
        echo.close()
    fail_or_void(judged, "ms in the median")


def test_flows_still_take_turns_after_gigabytes() -> None:
    """HTB counts in 32 bits what packets were longer than turns (harness/lab/network/fairqueue.py).

    With turns of 18 KB a flow kept all others from its NIC between its third and its fifth gigabyte, as long as it had
    anything to send.
    """
    judged = []
    for _ in range(ATTEMPTS):
        with Lab.up(Topology(hosts=2, nics=1, rate_gbit=3.0)) as lab:
            echo = lab.hosts["h1"].spawn([sys.executable, TRAFFIC, "echo", "10.1.0.2", "5001"])
            assert echo.stdout is not None
            echo.stdout.readline()
            transfer = Transfer(lab, "h1", ["h0"], seconds=11.0)
            limit = time.monotonic() + 10.0
            while sent_bytes(lab) < 3.3e9 and time.monotonic() < limit:
                time.sleep(0.1)
            enough = 3.3e9 <= sent_bytes(lab) <= 4.2e9
            command = [sys.executable, TRAFFIC, "probe", "10.1.0.1", "10.1.0.2", "5001", "50", "8"]
            times_ms = json.loads(lab.hosts["h0"].run(command, timeout_s=60).stdout)["times_ms"]
            transfer.finish_gbit()
            echo.close()
        if enough and len(times_ms) >= 48 and times_ms[len(times_ms) // 2] < 6:
            return
        judged += [len(times_ms)] if enough and not transfer.is_void else []
    fail_or_void(judged, "of 50 probes were answered soon")


def sent_bytes(lab: Lab) -> int:
    return int(lab.hosts["h0"].read_text("/sys/class/net/eth0/statistics/tx_bytes"))
