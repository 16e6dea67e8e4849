"""Verbs faults on real queue pairs, over soft-RoCE: a foreign program (pyverbs), and NCCL's transport."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import pytest

from chaos.experiment.file import load, loads
from chaos.experiment.planned import planned_faults
from chaos.faults.fault import Fault
from chaos.faults.parts.shim import ENVIRONMENT, folder
from chaos.record.journal import read
from chaos.record.live import Display
from chaos.run import runner
from chaos.run.actors import Actors
from chaos.testbed.beds import Bed, topology_of
from chaos.testbed.hostbench import built
from harness.build import build_net
from harness.files import rundir
from harness.progress import silent
from harness.schemas import plain
from harness.sites.site import LAB_ROOT
from harness.sites.vm import hold_rates
from harness.vmlab.lab import VmLab
from harness.vmlab.rdma import device_of

pytestmark = [pytest.mark.vm, pytest.mark.build, pytest.mark.slow, pytest.mark.timeout(900)]

VERBS = (Path(__file__).parent / "verbs.py").read_text()
SHIPPED = Path(__file__).resolve().parents[2] / "experiments" / "without_root"
ARMS = {"verbs_error": ["stock", "migrate"]}
MOVES = {"verbs_error": True, "lost_completion": True, "slow_qp": False, "async_event": True, "device_fatal": True}
"""Whether connections must leave the NIC. One that is slow may keep them."""
LIMIT_S = 120.0
TIMELINE = """
name: one
topology: {hosts: 2, nics: 2}
workload: {net: ib, iterations: 1}
faults:
  - {id: %s, kind: %s, host: h0, nic: eth0, at: {time_s: 0.0}, duration_s: 1.0, %s}
arms: {migrate: {expect: any}}
"""


def strike(lab: VmLab, stack: ExitStack, name: str, kind: str, words: str) -> Fault:
    """In force and proven; undone at the end of the stack."""
    (planned,) = planned_faults(loads(TIMELINE % (name, kind, words), Path("one.yaml")), list(lab.nics))
    actors = Actors(None, lab.hosts, lambda rank: pytest.fail("no rank runs"))
    fault = planned.fault.knowing(actors.take(planned.fault.facts()))
    stack.callback(take, lab, fault.revert())
    take(lab, fault.inject())
    until = time.monotonic() + LIMIT_S
    while fault.is_active(actors.take(fault.probe())) is not True:
        assert time.monotonic() < until, fault.why_not(actors.take(fault.probe()))
        time.sleep(0.1)
    return fault


def take(lab: VmLab, steps: list[Any]) -> None:
    for step in steps:
        lab.hosts[step.on].run(list(step.argv), input=step.input or None, timeout_s=LIMIT_S)


def test_events_and_an_error_completion_of_a_foreign_program(lab: VmLab) -> None:
    library = build_net(progress=silent).faults
    env = {"LD_PRELOAD": str(library), ENVIRONMENT: str(folder())}
    rest = ["rxe0", "10.250.0.2", "20900", str(4 * LIMIT_S)]  # the error ends it
    with ExitStack() as stack:
        ends = []
        for host, role, more in (("h1", "recv", {}), ("h0", "send", env)):
            ends.append(lab.hosts[host].spawn(["python3", "-c", VERBS, role, *rest], env=more))
            stack.callback(ends[-1].close)
        until = time.monotonic() + LIMIT_S
        while lab.hosts["h0"].run(["test", "-e", "/tmp/verbs-20900"], check=False, timeout_s=LIMIT_S).exit_code != 0:
            assert time.monotonic() < until, "no data flows"
        strike(lab, stack, "event", "async_event", "event: gid_change")
        assert ends[1].poll() is None, ends[1].stdout.read()
        strike(lab, stack, "error", "verbs_error", "status: remote_access, times: 1")
        reports = [json.loads(end.stdout.readline()) for end in ends if end.stdout is not None]
    receiver, sender = reports
    assert sender["status"] == "IBV_WC_REM_ACCESS_ERR"
    assert sender["events"] == ["IBV_EVENT_GID_CHANGE"]
    assert receiver["last"] > sender["completed"], "what failed has come: its acknowledgement was lost, as it were"
    assert not [line for line in lab.hosts["h0"].run(["ls", "/tmp"]).stdout.split() if line == folder().name]


@pytest.mark.parametrize("name", MOVES)
def test_nccls_transport_survives_with_r2cc_what_it_does_not_alone(lab: VmLab, tmp_path: Path, name: str) -> None:
    shipped = load(SHIPPED / f"{name}.yaml")
    experiment = shipped.model_copy(update={"workload": shipped.workload.model_copy(update={"iterations": 24})})
    devices = {(nic.host, nic.name): device_of(nic.name) for nic in lab.nics}
    bed = Bed("vm", lab.hosts, lab.switch, list(lab.nics), LAB_ROOT, devices=devices, machines=True)
    hold_rates(bed.switch, bed.nics, topology_of(experiment))
    bench, build = built(quiet=True)
    out = rundir.create(tmp_path, name)
    request = runner.Request(ARMS.get(name, ["migrate"]), bench, build, lambda: nullcontext(bed))
    summary = plain(runner.run(experiment, request, out, Display()))
    assert summary["verdict"] == "holds", summary["reasons"]
    assert {run["wrong_elements"] for arm in summary["arms"] for run in arm["runs"]} == {0}
    lines = [line for line in read(out.journal) if line["arm"] == "migrate"]
    assert [line["phase"] for line in lines if line["event"] == "fault"] == [
        "armed", "injected", "active", "reverted", "verified",
    ]  # fmt: skip
    frozen = {(line["host"], line["nic"]) for line in lines if line["event"] == "path" and line["state"] == "frozen"}
    assert not MOVES[name] or ("h0", "eth1") in frozen
