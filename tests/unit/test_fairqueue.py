"""A queue a flow at a lab host's NIC: what tc is told."""

from __future__ import annotations

import re

import pytest

from harness.lab.network.fairqueue import QUEUES, commands
from harness.lab.plan import Shaping, largest_packet

TCP_HEADERS = 14 + 20 + 32  # Ethernet, IP, TCP with timestamps: counted again for each segment


@pytest.mark.parametrize("mtu", [1280, 1500, 9000, 65000])
@pytest.mark.parametrize("rate_gbit", [0.05, 0.25, 1.0, 32.0])
def test_no_packet_is_longer_than_a_turn(mtu: int, rate_gbit: float) -> None:
    """What is too much adds up, and wraps around after 2 GB (harness/lab/network/fairqueue.py)."""
    largest = largest_packet(Shaping(rate_gbit, 131072, 250_000), mtu)
    words = "\n".join(commands("eth0", largest))
    quanta = {int(text) for text in re.findall(r" quantum (\d+)", words)}
    segments = -(-largest // (mtu - TCP_HEADERS))
    assert len(re.findall("class add", words)) == QUEUES
    assert min(quanta) >= max(largest + segments * TCP_HEADERS, mtu + 14)
