"""What acts inside ranks does not strike while one of them is stopped (chaos/run/injector.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_faults import Rig

from chaos.experiment.planned import PlannedFault
from chaos.faults.catalogue import example
from chaos.faults.registry import kinds
from chaos.run.injector import State


def planned(kind: str, host: str) -> PlannedFault:
    fault = example(kind)
    targets = ((host, "eth1"),) if kinds()[kind].Settings.where == "nics" else ()
    return PlannedFault(fault.spec, fault, targets, host)


INSIDE = ("qp_error", "verbs_error", "lost_completion", "slow_qp", "async_event", "socket_error")


@pytest.mark.parametrize("kind", INSIDE)
def test_it_waits_for_no_effect_of_a_rank_that_nobody_lets_go_on(tmp_path: Path, kind: str) -> None:
    """In a soak the strike waited for 5 s, and the stop could not end meanwhile; then the round did not count."""
    rig = Rig(tmp_path)
    stop = planned("stop", "h1")
    rig.injector.states["f1"] = state = State(stop, stop.fault)
    assert not rig.injector.deaf(planned(kind, "h1"))
    state.injected = True
    assert rig.injector.deaf(planned(kind, "h1"))
    assert not rig.injector.deaf(planned(kind, "h0"))
    assert not rig.injector.deaf(planned("link_down", "h1"))
