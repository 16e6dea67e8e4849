"""Shipped experiments over soft-RoCE, each as `r2cc chaos run --inventory vm:2x2` runs it, on the tests' guests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from chaos.experiment.file import load
from chaos.record.journal import read
from chaos.record.live import Display
from chaos.run import runner
from chaos.testbed.beds import Bed, topology_of
from chaos.testbed.hostbench import built
from harness.files import rundir
from harness.schemas import plain
from harness.sites.site import LAB_ROOT
from harness.sites.vm import hold_rates
from harness.vmlab.lab import VmLab
from harness.vmlab.rdma import device_of

pytestmark = [pytest.mark.vm, pytest.mark.build, pytest.mark.slow]

SHIPPED = Path(__file__).resolve().parents[2] / "experiments" / "ib"


def execute(lab: VmLab, folder: Path, name: str, arms: Sequence[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(arms of the summary by name, journal) of fewer iterations than shipped; asserts that all went as expected."""
    shipped = load(SHIPPED / f"{name}.yaml")
    experiment = shipped.model_copy(update={"workload": shipped.workload.model_copy(update={"iterations": 18})})
    devices = {(nic.host, nic.name): device_of(nic.name) for nic in lab.nics}
    bed = Bed("vm", lab.hosts, lab.switch, list(lab.nics), LAB_ROOT, devices=devices, machines=True)
    hold_rates(bed.switch, bed.nics, topology_of(experiment))
    bench, build = built(quiet=True)
    out = rundir.create(folder, name)
    request = runner.Request(arms, bench, build, lambda: nullcontext(bed))
    summary = plain(runner.run(experiment, request, out, Display()))
    assert summary["verdict"] == "holds", summary["reasons"]
    assert {run["wrong_elements"] for arm in summary["arms"] for run in arm["runs"]} == {0}
    return {arm["name"]: arm for arm in summary["arms"]}, list(read(out.journal))


def metric(arm: dict[str, Any], name: str) -> Any:
    return next(m["value"] for m in arm["runs"][0]["metrics"] if m["name"] == name)


def test_a_cable_pulled_under_rdma_moves_its_connections(lab: VmLab, tmp_path: Path) -> None:
    arms, lines = execute(lab, tmp_path, "link_down_sender", ["migrate", "upstream"])
    (fault,) = arms["migrate"]["runs"][0]["faults"]
    assert fault["hit"]
    assert fault["stall_ms"] is not None
    assert arms["migrate"]["runs"][0]["completed"]
    assert metric(arms["migrate"], "failovers") >= 1
    frozen = [line for line in lines if line["event"] == "path" and line["state"] == "frozen"]
    assert ("h0", "eth1") in {(line["host"], line["nic"]) for line in frozen}, "path lines name NICs, not devices"
    starts = {line["arm"]: line for line in lines if line["event"] == "bench_start"}
    assert starts["migrate"]["nics"] == ["rxe0", "rxe1"]
    assert starts["upstream"]["nics"] == ["rxe0+rxe1"]
    stderr = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("upstream-0-rank*.stderr"))
    assert "marked as failed" in stderr, "NCCL's own failover was not needed: the fault did not reach it"


def test_an_address_that_goes_away_moves_its_connections(lab: VmLab, tmp_path: Path) -> None:
    arms, lines = execute(lab, tmp_path, "address_removed", ["migrate"])
    assert metric(arms["migrate"], "failovers") >= 1
    phases = [line["phase"] for line in lines if line["event"] == "fault"]
    assert phases == ["armed", "injected", "active", "reverted", "verified"]
    shown = json.loads(lab.hosts["h0"].run(["ip", "-j", "addr", "show", "dev", "eth1"]).stdout)
    assert [(entry["local"], entry["prefixlen"]) for entry in shown[0]["addr_info"]] == [("10.2.0.1", 24)]


def test_a_killed_rank_ends_the_other_with_an_error(lab: VmLab, tmp_path: Path) -> None:
    arms, lines = execute(lab, tmp_path, "process_killed", ["balance"])
    assert metric(arms["balance"], "error_after") < 9000
    (end,) = [line for line in lines if line["event"] == "run_end"]
    assert end["exit_codes"] == {"rank0": 3, "rank1": -9}
