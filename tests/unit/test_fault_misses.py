"""A fault that may miss, and whose command did nothing (chaos/run/injector.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_faults import Rig

from chaos.record.journal import read
from chaos.soak import judge


def test_it_is_undone_and_has_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a soak a rank may just be stopped, or a NIC have no queue pair, when a fault strikes. That ended the round."""
    monkeypatch.setattr("chaos.run.injector.CONFIRM_S", 0.05)
    rig = Rig(tmp_path, times="duration_s: 1, may_miss: true")
    with rig.stack:
        rig.injector.arm(rig.planned)
        rig.switch.broken = "ignores"
        rig.injector.strike("f0", 0)
    assert rig.phases() == ["armed", "injected", "reverted", "verified", "missed"]
    assert [line["argv"][-1] for line in read(rig.path) if line["event"] == "command"] == ["down", "up"]
    assert judge.fates([{**line, "arm": "migrate", "run": 0} for line in read(rig.path)]) == [], "it does not count"
