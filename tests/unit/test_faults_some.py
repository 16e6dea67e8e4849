"""Faults that lose some of a NIC's packets: what they need to know of it, and on whom else they act."""

from __future__ import annotations

import pytest
from test_faults import said

from chaos.faults.catalogue import example
from chaos.faults.steps import Command
from harness.hosts import Result

LINKS = '[{"ifname": "%s", "mtu": %d, "gso_max_segs": %d}]'


def test_how_much_tcp_hands_over_goes_back_to_what_it_was() -> None:
    fault = example("big_packets_lost").knowing(said(LINKS % ("h1-eth2", 9000, 44), LINKS % ("eth2", 9000, 33)))
    undone = [step.input for step in fault.revert() if isinstance(step, Command) and step.input]
    assert undone == ["link set dev h1-eth2 gso_max_segs 44\n", "link set dev eth2 gso_max_segs 33\n"]


@pytest.mark.parametrize("inside", [False, True])
def test_a_nic_too_narrow_for_big_packets_is_refused(inside: bool) -> None:
    fault = example("big_packets_lost", inside=inside, above_bytes=4000)
    first = Result((), 0) if inside else said(LINKS % ("h1-eth2", 9000, 1))[0]
    fault.knowing([first, *said(LINKS % ("eth2", 4001, 1))])
    with pytest.raises(ValueError, match=r"h1 eth2 has MTU 4000: no packet is longer than above_bytes \(4000\)"):
        fault.knowing([first, *said(LINKS % ("eth2", 4000, 1))])
    with pytest.raises(ValueError, match="said nothing about h1 eth2"):
        fault.knowing([first, *said("[]")])
    with pytest.raises(ValueError, match="failed"):
        fault.knowing([first, *said("", exit_code=1)])


def test_the_management_network_of_the_same_hosts() -> None:
    fault = example("udp_lost", management=True)
    (command,) = fault.inject()
    assert isinstance(command, Command)
    assert [word for word in command.argv if word.startswith('"')] == ['"h1-eth2"'] * 2 + ['"h1-mgmt0"'] * 2
