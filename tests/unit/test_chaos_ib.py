"""Chaos over soft-RoCE, without a guest: what runs where, whose NIC a device is, and how far a guest can be trusted."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import chaos_literal
import pytest
from chaos_double import ScriptedBench, Switch, bed, experiment
from click.testing import CliRunner
from host_double import FakeHost

from chaos.analysis.figures import run_figures
from chaos.analysis.paths import carriers
from chaos.analysis.rundata import read_run
from chaos.commands.chaos import chaos
from chaos.commands.soak import GUESTS
from chaos.experiment.file import load, loads
from chaos.experiment.model import Experiment
from chaos.experiment.planned import PlannedFault, planned_faults
from chaos.faults.fault import by_host
from chaos.faults.kinds.address import AddressRemoved
from chaos.faults.registry import spec_of
from chaos.faults.steps import Look
from chaos.record.journal import Journal
from chaos.record.live import Display
from chaos.run import runner, traces
from chaos.run.actors import Actors
from chaos.run.arm import ArmRun
from chaos.soak import draw
from chaos.testbed import beds, launch
from chaos.testbed.beds import Bed, KeptBed
from harness.errors import InputErrors, LabError, UsageError
from harness.hosts import LocalHost
from harness.sites.inventory import parse
from harness.sites.site import PlannedNic, Site
from harness.sites.vm import VmSite

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((ROOT / "experiments" / "ib").glob("*.yaml"))
RDMA = "NCCL_IB_HCA=rxe NCCL_IB_RETRY_CNT=6 NCCL_IB_TIMEOUT=14 NCCL_SOCKET_IFNAME=mgmt0"


def call(*arguments: str) -> Any:
    return CliRunner().invoke(chaos, list(arguments), standalone_mode=False)


def dry_run(name: str, arm: str) -> list[str]:
    file = str(ROOT / "experiments" / "ib" / f"{name}.yaml")
    result = call("run", file, "--inventory", "vm:2x2", "--dry-run", "--arms", arm)
    assert result.exception is None, result
    return [line.strip() for line in result.stdout.splitlines()]


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
@pytest.mark.parametrize("inventory", ["lab", "lab:default"])
def test_a_bed_without_rdma_is_refused_before_anything_starts(inventory: str, more: list[str], tmp_path: Path) -> None:
    result = call("run", str(SHIPPED[0]), "--inventory", inventory, "--out", str(tmp_path / "runs"), *more)
    assert isinstance(result.exception, UsageError), result
    assert str(result.exception).startswith(
        f"net: ib needs RDMA devices, and the testbed {inventory} has none\n  try: "
    )
    assert not (tmp_path / "runs").exists()


def test_guests_have_a_subnet_a_rail(tmp_path: Path) -> None:
    file = str(ROOT / "experiments" / "false_positives" / "one_subnet.yaml")
    result = call("run", file, "--inventory", "vm:2x2", "--out", str(tmp_path / "runs"), "--dry-run")
    assert isinstance(result.exception, UsageError), result
    assert str(result.exception) == (
        "the guests of vm:2x2 have a subnet a rail\n  try: use --inventory lab for one_subnet"
    )


def test_the_faults_are_shipped_with_their_arms() -> None:
    found = {path.stem: load(path) for path in SHIPPED}
    kinds = {name: [fault.kind for fault in each.faults] for name, each in found.items()}
    assert kinds == {
        "address_removed": ["address_removed"],
        "black_hole": ["black_hole"],
        "half_rate": ["rate"],
        "healthy": [],
        "link_down_receiver": ["link_down"],
        "link_down_sender": ["link_down"],
        "one_nic_qp_error": ["qp_error"],
        "one_nic_verbs_error": ["verbs_error"],
        "process_killed": ["kill"],
        "quarter_rate": ["rate"],
    }
    few = {"healthy": ["stock", "migrate", "balance"], "one_nic_qp_error": ["migrate", "balance"]}
    for name, each in found.items():
        assert each.workload.net == "ib"
        assert list(each.arms) == few.get(name, ["stock", "migrate", "balance", "upstream"])
        assert not each.faults or planned_faults(each, beds.planned_bed(parse("vm:2x2"), each).nics)


def test_ranks_over_rdma_get_its_settings_and_its_option() -> None:
    lines = dry_run("black_hole", "migrate")
    (rank,) = [line for line in lines if line.startswith("h1") and "--rank 1" in line]
    assert f"NCCL_DEBUG=WARN {RDMA} R2CC_EVENT_FILE=/proc/self/fd/1 R2CC_MODE=1 R2CC_SIDE_IFNAME=mgmt0" in rank
    assert "--net ib " in rank
    assert "--merge-nics" not in rank
    assert any("--interval-ms 200 --nics eth0,eth1 --cpu" in line for line in lines)


def test_nccl_s_own_failover_runs_stock_on_one_merged_nic() -> None:
    (rank,) = [line for line in dry_run("black_hole", "upstream") if line.startswith("h0") and "--rank 0" in line]
    assert "NCCL_IB_RESILIENCY_PORT_FAILOVER=1 NCCL_IB_RESILIENCY_PORT_RECOVERY=1 " in rank
    assert "NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME=1 " in rank
    assert "R2CC_MODE=0" in rank
    assert rank.endswith("--merge-nics 2")


def test_at_most_four_nics_are_merged() -> None:
    merged = []

    class Noted(ScriptedBench):
        def rank(self, workload: Any, one: launch.OneRank) -> list[str]:
            merged.append(one.merge_nics)
            return []

    found = load(SHIPPED[0])
    for arm, nics in (("upstream", 6), ("upstream", 1), ("stock", 6)):
        launch.ranks(found, arm, ["h0"], "a", Noted(), nics={"h0": [f"eth{n}" for n in range(nics)]})
    assert merged == [4, 1, 1]


def test_nccl_s_own_failover_needs_ib() -> None:
    text = "name: x\ntopology: {hosts: 2, nics: 2}\nworkload: {}\narms:\n  upstream: {expect: any}\n"
    with pytest.raises(InputErrors) as caught:
        loads(text, Path("x.yaml"))
    assert caught.value.errors == [
        "x.yaml:5: arms.upstream: NCCL's own failover is one of its IB transport: it needs workload.net: ib"
    ]
    assert "upstream" in loads(text.replace("{}", "{net: ib}"), Path("x.yaml")).arms


def over_rdma(lines: list[dict[str, Any]], *, merged: bool = False) -> list[dict[str, Any]]:
    """The same run as its ranks would have told it over IB: devices instead of NICs, where the bench names them."""
    lines = copy.deepcopy(lines)
    for line in lines:
        if line["event"] == "run_start":
            about = {f"eth{n}": {"address": f"10.{n + 1}.0.9", "device": f"rxe{n}"} for n in range(2)}
            line["nics"] = {"h0": about, "h1": about}
        if line["event"] == "bench_start":
            line["nics"] = ["rxe0+rxe1"] if merged else ["rxe0", "rxe1"]
            for end in line["connections"]:
                end["nic"] = "rxe0+rxe1" if merged else end["nic"].replace("eth", "rxe")
    return lines


@pytest.mark.parametrize("arm", ["migrate", "stock"])
def test_figures_do_not_depend_on_what_a_nic_s_device_is_called(arm: str) -> None:
    plain, rdma = (read_run(lines) for lines in (chaos_literal.lines(arm), over_rdma(chaos_literal.lines(arm))))
    mode = 1 if arm == "migrate" else 0
    assert run_figures(rdma, mode, iterations=10) == run_figures(plain, mode, iterations=10)
    assert rdma.connections == plain.connections
    middle = chaos_literal.ns(1700)
    assert carriers(rdma, middle) == carriers(plain, middle)
    assert {each.receiver[1] for each in carriers(rdma, middle)} == ({"eth0"} if arm == "migrate" else {"eth0", "eth1"})


def test_a_merged_device_is_both_nics() -> None:
    data = read_run(over_rdma(chaos_literal.lines("stock"), merged=True))
    assert data.start is not None
    assert data.start["nics"] == ["eth0+eth1"]
    assert {each.sender for each in data.connections} == {("h0", "eth0+eth1"), ("h1", "eth0+eth1")}


NICS = [PlannedNic(f"h{h}", f"eth{n}", f"10.{n + 1}.0.{h + 1}", f"h{h}-eth{n}") for h in range(2) for n in range(2)]


def address_fault(*nics: str) -> AddressRemoved:
    words = {"id": "a", "kind": "address_removed", "nics": nics, "at": {"iteration": 1}, "duration_s": 1.0}
    spec = spec_of(words)
    wanted = spec.targets(by_host(NICS))
    return AddressRemoved(spec, tuple(nic for nic in NICS if (nic.host, nic.name) in wanted), "h0")


def shown(*nics: str) -> str:
    """As iproute2 6.1 shows them; `eth1-` is one without its address."""
    return json.dumps([{"ifname": nic.rstrip("-"), "operstate": "UP", "addr_info": addresses(nic)} for nic in nics])


def addresses(nic: str) -> list[dict[str, Any]]:
    known = {"family": "inet", "local": f"10.{int(nic[3]) + 1}.0.1", "prefixlen": 24, "scope": "global"}
    return [] if nic.endswith("-") else [{**known, "broadcast": "10.9.0.255"}]


def recorded(*nics: str) -> str:
    """The same as part of all that a host says before a fault."""
    empty = ("routes4", "routes6", "neighbours", "ports", "qdiscs", "end")
    return f"=== links\n{shown(*nics)}\n" + "".join(f"=== {part}\n" for part in empty)


def said(*texts: str) -> list[Any]:
    host = FakeHost()
    return [replace(host.run(["ip"]), stdout=text) for text in texts]


def test_an_address_comes_back_as_it_was() -> None:
    fault = address_fault("h0:*").knowing(said(recorded("eth0", "eth1")))
    (take,), (give,) = fault.inject(), fault.revert()
    assert (take.on, take.argv) == ("h0", ("ip", "-batch", "-"))
    assert take.input == "addr del 10.1.0.1/24 dev eth0\naddr del 10.2.0.1/24 dev eth1\n"
    assert give.input == (
        "ip addr add 10.1.0.1/24 broadcast 10.9.0.255 dev eth0\nip addr add 10.2.0.1/24 broadcast 10.9.0.255 dev eth1\n"
    )


def test_an_address_is_gone_when_its_host_says_so() -> None:
    fault = address_fault("h0:*")
    assert fault.is_active(said(shown("eth0", "eth1"))) is False
    assert fault.is_active(said(shown("eth0-", "eth1-"))) is True
    assert fault.is_active(said(shown("eth0", "eth1-"))) is None, "half of it"
    with pytest.raises(ValueError, match="nothing about h0 eth1"):
        fault.is_active(said(shown("eth0")))
    with pytest.raises(ValueError, match="no address to take away"):
        fault.knowing(said(recorded("eth0", "eth1-")))


def test_addresses_of_several_hosts_go_at_once_each_on_its_host() -> None:
    assert [step.on for step in address_fault("*:eth1").inject()] == ["h0", "h1"]
    plan = PlannedFault(address_fault("h1:eth1").spec, address_fault("h1:eth1"), (("h1", "eth1"),), "h1")
    assert plan.probed_on == "h1"


def test_a_rank_on_a_machine_of_its_own_is_looked_at_there() -> None:
    guest = FakeHost("h1").answer("cat -- /proc/4242/stat", "4242 (r2cc_bench) S 1")
    process = guest.spawn(["bench"])
    actors = Actors(FakeHost("switch"), {"h1": guest}, lambda rank: process, lambda rank: guest)
    (answer,) = actors.take([Look(1, "stat")])
    assert (answer.exit_code, answer.stdout) == (0, "4242 (r2cc_bench) S 1")
    guest.answers.clear()
    guest.answer("cat *", exit_code=1, stderr="No such file")
    assert actors.take([Look(1, "stat")])[0].exit_code == 1


class DeadGuest(LocalHost):
    """One whose kernel died: what ran is gone, and nothing can be started any more."""

    def run(self, *args: Any, **more: Any) -> Any:
        raise LabError(f"{self.name}: the guest is down")


def test_a_rank_that_died_with_its_guest_says_nothing_of_the_transport(tmp_path: Path) -> None:
    exp = experiment(iterations=6)
    with bed(Switch()) as plain, Journal(tmp_path / "j.jsonl") as journal:
        guests = replace(plain, hosts={name: DeadGuest(name) for name in plain.hosts}, machines=True)
        bench = ScriptedBench(extra={(1, 1): ["--die-at", "1"], (1, 0): ["--error-at", "2"]})
        (plan,) = runner.plans(exp, ["migrate"], guests, bench)
        with pytest.raises(LabError, match="h1 died under rank1: h1: the guest is down"):
            ArmRun(replace(plan, faults=()), guests, journal, tmp_path, Display()).run()


def test_traces_of_guests_are_written_there_and_fetched(tmp_path: Path) -> None:
    guest = FakeHost("h0").answer("ls *", "h0.7.r2trace\n")
    guest.files["/tmp/r2cc-trace/trace-balance-0/h0.7.r2trace"] = "dump"
    there = Bed("vm", {"h0": guest}, FakeHost("switch"), [], "a", machines=True)
    env = traces.setting(tmp_path, "balance", 0, there)
    assert env == {"R2CC_TRACE_FILE": "/tmp/r2cc-trace/trace-balance-0"}
    assert ("mkdir", "-p", env["R2CC_TRACE_FILE"]) in guest.commands
    with bed(Switch()) as plain:
        (plan,) = runner.plans(experiment(), ["migrate"], plain, ScriptedBench())
    traces.fetch(replace(plan, ranks=[launch.Launch("h0", "rank0", [], env)]), there, tmp_path)
    assert (tmp_path / "trace-balance-0" / "h0.7.r2trace").read_text() == "dump"
    assert traces.setting(tmp_path, "stock", 0, there) == {}
    here = replace(there, machines=False)
    assert traces.setting(tmp_path, "migrate", 1, here) == {"R2CC_TRACE_FILE": str(tmp_path / "trace-migrate-1")}


@contextmanager
def counted(opened: list[str], site: Site, experiment: Experiment) -> Iterator[Bed]:
    opened.append(str(site))
    yield Bed("vm", {}, FakeHost("switch"), NICS, "a", machines=True)
    opened.append("closed")


HELD = [("burst", "18000"), ("rate", "20000000")]


def test_a_kept_bed_is_opened_once_and_anew_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("chaos.testbed.beds.open_bed", lambda site, exp: counted(opened, site, exp))
    exp = load(SHIPPED[0])
    with KeptBed(parse("vm:2x2")) as kept:
        with kept.open(exp) as first, kept.open(exp) as again:
            assert first is again
        assert opened == ["vm:2x2"]
        with pytest.raises(LabError), kept.open(exp):
            raise LabError("a guest died")
        assert opened == ["vm:2x2", "closed"]
        with kept.open(exp) as other:
            assert other is not first
    assert opened == ["vm:2x2", "closed"] * 2
    rates = [command for command in again.switch.commands if command[:2] == ("wire", "set")]  # type: ignore[attr-defined]
    held = [("wire", "set", nic.switch_port, "both", *words) for nic in NICS for words in HELD]
    assert rates == held * 2, "each time but the first"


def test_the_soak_on_guests_draws_what_they_can_carry() -> None:
    rounds = [draw.round_of(5, n, arm="balance", seconds=30, shapes=draw.VM_SHAPES) for n in range(30)]
    kinds = {fault.kind for each in rounds for fault in each.faults}
    assert kinds == {kind for kind, weight in draw.weights(draw.VM_SHAPES[0]).items() if weight}
    assert "address_removed" in kinds
    assert "rate" in kinds
    assert {each.workload.op for each in rounds} == {"allreduce", "stream", "alltoall"}
    assert {each.workload.net for each in rounds} == {"ib"}
    site = parse(f"vm:{GUESTS}")
    assert isinstance(site, VmSite)
    shape = site.shape
    assert {(each.hosts, each.nics) for each in draw.VM_SHAPES} == {(shape.hosts, shape.nics)}
