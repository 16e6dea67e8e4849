"""What the soak draws: from the whole catalogue of faults, as far as a bed carries them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.experiment.file import dump, load, loads
from chaos.experiment.overlaps import overlapping
from chaos.experiment.timeline import places_of
from chaos.faults.registry import kinds
from chaos.soak import draw
from chaos.testbed.beds import topology_of

VERBS = ("verbs_error", "lost_completion", "slow_qp", "async_event")
SOCKETS, GUESTS = draw.SHAPES[0], draw.VM_SHAPES[0]
ROOT = Path(__file__).resolve().parents[2]
OWN = {"status", "call", "errno", "opcode", "times", "skip", "action", "delay_ms", "per_s", "event"}


def test_a_seed_gives_the_same_round_whatever_came_before() -> None:
    one, again, other = (draw.round_of(7, n, arm="migrate", seconds=40) for n in (3, 3, 4))
    assert one == again
    assert one.faults != other.faults
    assert draw.round_of(8, 3, arm="migrate", seconds=40).faults != one.faults


@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 1000), number=st.integers(0, 50))
def test_every_round_is_an_experiment_that_chaos_run_takes(seed: int, number: int) -> None:
    experiment = draw.round_of(seed, number, arm="balance", seconds=20)
    assert loads(dump(experiment), Path("round.yaml")) == experiment
    assert experiment.workload.seconds >= 20 * 0.8
    timed = [fault for fault in experiment.faults if fault.at.time_s is not None]
    assert len(timed) > 10
    hosts = draw.SHAPES[(number + seed) % len(draw.SHAPES)].by_host
    faults = dict(enumerate(timed))
    assert [*overlapping(faults, {index: places_of(fault, hosts) for index, fault in faults.items()})] == []


def test_all_kinds_extents_and_times_are_drawn() -> None:
    faults = [f for n in range(60) for f in draw.round_of(1, n, arm="migrate", seconds=40).faults]
    assert {fault.kind for fault in faults} == draw.weights(SOCKETS).keys()
    assert {len(fault.nics) for fault in faults} >= {0, 1, 2, 3, 4}
    actions = {getattr(fault, "action", None) for fault in faults}
    assert actions == {None, "reset", "silent", "slow", "short_reads"}
    assert any(fault.at.launch_s is not None for fault in faults)
    assert len(faults) > 60 * 30, "thousands must fit into an hour"


def test_a_nic_that_is_down_at_the_start_is_one_of_the_ranks() -> None:
    """Over RDMA NCCL leaves such a one out for good; the guests are told to take it."""
    rounds = [draw.round_of(1, n, arm="balance", seconds=5, shapes=draw.VM_SHAPES) for n in range(8)]
    assert any(fault.at.launch_s is not None for made in rounds for fault in made.faults)
    assert all(made.arms["balance"].env["R2CC_IB_DOWN_PORTS"] == "1" for made in rounds)


def test_what_is_drawn_over_rdma() -> None:
    faults = [
        fault
        for n in range(60)
        for fault in draw.round_of(1, n, arm="migrate", seconds=40, shapes=draw.VM_SHAPES).faults
    ]
    assert {fault.kind for fault in faults} == draw.weights(GUESTS).keys()
    verbs = [fault.model_dump(exclude_none=True) for fault in faults if fault.kind in VERBS]
    seen = [{key: words[key] for key in words if key in OWN} for words in verbs]
    drawn = [choice for kind in VERBS for choice in kinds()[kind].draws]
    missing = [choice for choice in drawn if not any(choice.items() <= words.items() for words in seen)]
    assert missing == []
    lost = [words for words in verbs if words["kind"] == "lost_completion" and words["action"] == "lost"]
    assert {words["opcode"] for words in lost} == {"rdma_write"}, "what was received cannot be saved"


def test_how_often_a_kind_is_drawn() -> None:
    usual = {
        "link_down": 6, "black_hole": 5, "one_way": 3, "loss": 2, "rate": 3, "flap": 2, "rail_down": 1,
        "queue_full": 1, "stop": 2, "side_flood": 1, "busy_cores": 1, "clock_jump": 1,
        "tcp_lost": 2, "udp_lost": 2, "big_packets_lost": 2, "socket_error": 6, "address_removed": 2,
        "late": 1, "side_channel_lost": 2,
    }  # fmt: skip
    assert draw.weights(SOCKETS) == usual
    del usual["socket_error"]
    more = {"verbs_error": 4, "lost_completion": 2, "slow_qp": 2, "async_event": 3, "qp_error": 2}
    more |= {"corrupt": 2, "delay": 2, "side_channel_late": 1, "address_removed": 4}
    assert draw.weights(GUESTS) == usual | more


@pytest.mark.parametrize("shape", [SOCKETS, GUESTS], ids=["lab", "vm lab"])
def test_every_kind_that_a_bed_carries_is_drawn_there_or_says_why_not(shape: draw.Shape) -> None:
    """Of our own catalogue: who adds a kind has to say how often the soak draws it, or why it does not."""
    ours = {name: kind for name, kind in kinds().items() if kind.__module__.startswith("chaos.faults.")}
    assert len(ours) > 25
    drawn = draw.weights(shape).keys()
    here = {name for name in ours if draw.carried(name, shape.bed)}
    assert drawn <= here, "what the bed cannot carry is not drawn"
    assert [name for name in here - drawn if not ours[name].undrawn] == []
    assert here - drawn == ({"kill"} if shape is SOCKETS else {"kill", "socket_error", "nic_gone"})


def test_what_is_drawn_can_be_undone_and_ends() -> None:
    for shape in (SOCKETS, GUESTS):
        for name in draw.weights(shape):
            settings = kinds()[name].Settings
            assert not settings.forever
            lasts = [kinds()[name].draw(random.Random(seed)) for seed in range(50)]
            assert all("duration_s" in words for words in lasts) or settings.repeated, name
            assert all(words.get("duration_s", 0.0) <= 1.2 for words in lasts)


def test_who_is_late_is_so_at_an_iteration_that_comes() -> None:
    faults = [f for n in range(20) for f in draw.round_of(1, n, arm="migrate", seconds=40).faults if f.kind == "late"]
    iterations = [fault.at.iteration or 0 for fault in faults]
    assert len(faults) > 5
    assert (min(iterations) > 0, max(iterations) > 60, max(iterations) < 40 / draw.PACE_S + 2) == (True, True, True)
    under = load(ROOT / "experiments/gpu/collectives.yaml")
    assert "late" not in draw.weights(draw.own_shape(under, topology_of(under))), "only the bench can be told to be"
