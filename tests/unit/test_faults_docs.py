"""docs/reference/faults.md: what it says by hand (tests/unit/test_docs_generated.py has its tables)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest
from vm_double import FakeMonitor, FakeWire

from chaos.faults.catalogue import example
from chaos.faults.registry import kinds
from chaos.faults.steps import SWITCH, Command
from chaos.faults.support import beds
from harness.vmlab.monitor import Monitor
from harness.vmlab.shape import Shape
from harness.vmlab.switch import Switch
from harness.vmlab.wire import WireControl

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "faults.md").read_text()


def test_only_what_cuts_the_controller_off_needs_the_dead_man_switch() -> None:
    assert [kind for kind in kinds() if example(kind).needs_deadman] == ["controller_lost"]
    assert "Never without a dead-man switch" in TEXT


def test_the_tests_that_it_names_are_there() -> None:
    root = Path(__file__).resolve().parents[2]
    named = re.findall(r"`(tests/[^`]+)`", TEXT)
    assert len(named) >= 4
    assert all((root / name).exists() for name in named)


def test_no_bed_is_named_that_cannot_carry_a_kind() -> None:
    found = {kind: beds(example(kind), example(kind, inside=True)) for kind in kinds()}
    rdma = {"async_event", "lost_completion", "qp_error", "slow_qp", "verbs_error"}
    netem = {"corrupt", "delay", "side_channel_late"}
    assert {kind: names for kind, names in found.items() if names != ["lab", "vm lab", "uml lab", "cluster"]} == {
        "nic_gone": ["vm lab", "cluster"],
        **{kind: ["vm lab", "uml lab", "cluster"] for kind in rdma | netem},
        "controller_lost": ["cluster"],
    }
    for kind, names in found.items():
        said = "all" if len(names) == 4 else ", ".join(names)
        assert re.search(rf"(?m)^\| `{kind}` \|[^|]*\|[^|]*\| {said} \|", TEXT), kind


@pytest.mark.parametrize("kind", kinds())
def test_the_vm_labs_switch_understands_what_it_is_said_to_carry(kind: str) -> None:
    fault, monitor = example(kind).as_example(), cast(Monitor, FakeMonitor())
    switch = Switch(Shape(hosts=2, nics=4), cast(WireControl, FakeWire()), {"h0": monitor, "h1": monitor}, {})
    steps = [*fault.facts(), *fault.inject(), *fault.probe(), *fault.revert()]
    asked = [step for step in steps if isinstance(step, Command) and step.on == SWITCH]
    codes = {switch.run(step.argv, step.input)[0] for step in asked}
    assert codes <= {0}
