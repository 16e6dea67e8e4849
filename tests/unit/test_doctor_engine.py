"""From findings to a report; the command on hosts that answer from a script."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from doctor_double import absent, address, answering, link, patient, pci, port
from host_double import FakeHost

from harness import schemas
from harness.cli import run_cli
from harness.doctor import examination
from harness.doctor.engine import applies, examine, grouped
from harness.doctor.examination import Ward, data_nics, planned
from harness.doctor.fold import fold
from harness.doctor.model import ERROR, NOTE, WARNING, WORST_FIRST, Fleet, Seen, odd_ones
from harness.doctor.registry import CHECKS, chosen
from harness.errors import SshError
from harness.facts import Known, catalogue
from harness.facts.iproute import Route
from harness.facts.kernel import Identity
from harness.hosts import Host
from harness.hosts.unusable import UnusableHost
from harness.sites.ranges import expand

REPO = Path(__file__).parents[2]
DATA = REPO / "tests" / "data" / "facts"


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([], ""),
        (["login"], "login"),
        (["h0", "h1", "h2", "h5", "login"], "h[0-2,5],login"),
        (["node09", "node10", "node11"], "node[09-11]"),
        (["n8", "n9", "n10"], "n[8-10]"),
        (["r1n2", "r1n1", "r2n1"], "r1n[1-2],r2n1"),
        (["eth0", "eth1"], "eth[0-1]"),
        (["ens1f0np0", "ens1f1np0"], "ens1f0np0,ens1f1np0"),
    ],
)
def test_fold(names: list[str], folded: str) -> None:
    assert fold(names) == folded


@given(
    st.lists(
        st.from_regex(r"[a-c]{0,2}[0-9]{0,3}[x-z]?[0-9]{0,3}", fullmatch=True).filter(bool), unique=True, min_size=1
    )
)
def test_what_is_folded_expands_to_the_same_names(names: list[str]) -> None:
    assert sorted(expand(fold(names))) == sorted(names)


def test_the_same_sight_is_one_finding() -> None:
    check = chosen(["nic-state"])[0]
    seen = [Seen(ERROR, host, nic, "it is down") for host in ("h0", "h1") for nic in ("eth0", "eth1")]
    seen += [Seen(ERROR, "h2", "eth0", "it is down"), Seen(NOTE, "h0", "eth0", "else")]
    found = [(each.severity, each.hosts, each.subject) for each in grouped(check, seen)]
    assert found == [
        (ERROR, ("h0", "h1", "h2"), "eth0"),
        (ERROR, ("h0", "h1"), "eth1"),
        (NOTE, ("h0",), "eth0"),
    ]
    both = [each for each in seen if each.host != "h2"]
    assert [each.subject for each in grouped(check, both)] == ["eth[0-1]", "eth0"]


def test_a_check_without_its_facts_is_told_by_reason() -> None:
    bare = patient("h1", {catalogue.LINKS: absent(catalogue.LINKS)})
    report = examine(Fleet((patient("h0"), bare)), chosen(["nic-state"]))
    assert report.passed == {"nic-state": ("h0",)}
    assert [(each.check, each.hosts, each.why) for each in report.skipped] == [
        ("nic-state", ("h1",), "ip is not installed (package iproute2)")
    ]


def test_nobody_misses_tools_for_what_is_not_there() -> None:
    gpu = pci("0000:18:00.0", 0x0302, vendor=0x10DE)
    check = chosen(["acs"])[0]
    assert not applies(check, patient(facts={catalogue.GPUS: absent(catalogue.GPUS)}))
    assert applies(check, patient(facts={catalogue.GPUS: absent(catalogue.GPUS), catalogue.PCI: {"g": gpu}}))
    verbs = chosen(["rdma-mtu"])[0]
    assert not applies(verbs, patient())
    assert applies(verbs, patient(facts={catalogue.RDMA: (port("mlx5_0", "eth0"),)}))


def test_a_process_is_looked_at_only_when_named() -> None:
    assert "nccl-mapped" not in examine(Fleet((patient(),)), CHECKS).passed


def test_odd_ones() -> None:
    assert odd_ones({"a": 1, "b": 2, "c": 1}) == {"b": 2}
    assert odd_ones({"a": 1, "b": 2}) == {"b": 2}
    assert odd_ones({"a": 1, "b": 1}) == odd_ones({}) == {}


class TestDataNics:
    WARD = Ward("cluster", {}, {"h0": ("ib0",)})

    def known(self, **changes: object) -> Known:
        links = (link("eno1"), link("eth0"))
        addresses = (address("eno1", "192.0.2.7"), address("eth0", "10.1.0.1"))
        values = {catalogue.LINKS.name: links, catalogue.ADDRESSES.name: addresses}
        return Known({**values, **changes})

    def test_the_inventory_is_believed(self) -> None:
        assert data_nics(self.WARD, "h0", self.known()) == ("ib0",)

    def test_else_those_with_rdma(self) -> None:
        known = self.known(**{catalogue.RDMA.name: (port("mlx5_0", "eth0"),)})
        assert data_nics(self.WARD, "h1", known) == ("eth0",)

    def test_else_those_by_which_we_do_not_come(self) -> None:
        identity = self.known(**{catalogue.IDENTITY.name: Identity(0, True, "192.0.2.7")})
        assert data_nics(self.WARD, "h1", identity) == ("eth0",)
        route = self.known(**{catalogue.ROUTES.name: (Route("default", "eno1", 1),)})
        assert data_nics(self.WARD, "h1", route) == ("eth0",)
        assert data_nics(self.WARD, "h1", self.known()) == ("eno1", "eth0")


def test_paths_are_tried_between_nics_that_work() -> None:
    down = {catalogue.LINKS: (link("eth0"), link("eth1", flags=frozenset()))}
    plans = planned(Fleet((patient("h0"), patient("h1", down), patient("h2"))))
    assert [(each.nic, each.peer, each.peer_address) for each in plans["h0"]] == [
        ("eth0", "h1", "10.1.0.2"),
        ("eth0", "h2", "10.1.0.3"),
        ("eth1", "h2", "10.2.0.3"),
    ]
    assert [each.nic for each in plans["h1"]] == ["eth0", "eth0"]


def test_many_hosts_try_two_peers_each() -> None:
    fleet = Fleet(tuple(patient(f"n{number}", nics=1) for number in range(64)))
    plans = planned(fleet)
    assert {len(paths) for paths in plans.values()} == {2}
    assert [each.peer for each in plans["n63"]] == ["n0", "n1"]


LAB = {
    catalogue.LINKS: (DATA / "ip/link_lab.json").read_text(),
    catalogue.ADDRESSES: (DATA / "ip/addr_lab.json").read_text(),
    catalogue.NET: (DATA / "sysfs/net_lab.txt").read_text(),
    catalogue.QDISCS: (DATA / "tc/qdisc_lab.json").read_text(),
}
Doctor = Callable[..., tuple[int, str]]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Doctor:
    def run(hosts: Mapping[str, Host], *words: str) -> tuple[int, str]:
        @contextmanager
        def ward(_spec: str) -> Iterator[Ward]:
            yield Ward("lab", hosts, dict.fromkeys(hosts, ("eth0", "eth1")))

        monkeypatch.setattr(examination, "open_ward", ward)
        code = run_cli(["doctor", *words])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def broken_link(text: str) -> str:
    links = json.loads(text)
    next(each for each in links if each["ifname"] == "eth1")["flags"] = ["BROADCAST", "MULTICAST"]
    return json.dumps(links)


class TestCommand:
    def test_sound_hosts(self, doctor: Doctor) -> None:
        code, said = doctor({f"h{n}": answering(f"h{n}", LAB) for n in range(3)}, "--check", "nic-state,backup")
        assert code == 0, said
        assert "NICs without a backup: none of 6" in said
        assert "2 checks on 3 hosts: 0 errors, 0 warnings, 0 notes: nothing found that would break a run" in said

    def test_what_breaks_a_run_ends_with_1(self, doctor: Doctor) -> None:
        broken = answering("h1", {**LAB, catalogue.LINKS: broken_link(LAB[catalogue.LINKS])})
        code, said = doctor({"h0": answering("h0", LAB), "h1": broken})
        assert code == 1
        assert "error    nic-state      h1 eth1: it is down" in said
        assert "try: ip link set NIC up" in said
        assert "  h1 eth0: eth1 is down or not there" in said

    def test_backups_alone(self, doctor: Doctor) -> None:
        broken = answering("h1", {**LAB, catalogue.LINKS: broken_link(LAB[catalogue.LINKS])})
        code, said = doctor({"h1": broken}, "--backups")
        assert code == 0
        assert "nic-state" not in said
        assert "NICs without a backup:\n  h1 eth0: eth1 is down or not there" in said

    def test_a_host_that_cannot_be_examined_ends_with_3_and_hides_nothing(self, doctor: Doctor) -> None:
        broken = answering("h1", {**LAB, catalogue.LINKS: broken_link(LAB[catalogue.LINKS])})
        code, said = doctor({"h0": FakeHost("h0").answer("*", stderr="no shell"), "h1": broken}, "--json")
        assert code == 3
        report = json.loads(said)
        assert schemas.problems("doctor", report) == []
        assert [each["name"] for each in report["failed"]] == ["h0"]
        found = [(each["check"], each["hosts"]) for each in report["findings"] if each["severity"] == "error"]
        assert found == [("ssh", ["h0"]), ("nic-state", ["h1"])]
        assert report["breaks"] is True

    def test_one_summary_where_no_host_could_be_examined(self, doctor: Doctor) -> None:
        gone = {f"node{n}": UnusableHost(f"node{n}", SshError("unreachable", "no route", "ask")) for n in range(1, 4)}
        hosts: dict[str, Host] = {**gone, "node9": FakeHost("node9").answer("*", stderr="no shell")}
        code, said = doctor(hosts, "--quiet", "--inventory", "lab")
        assert code == 3
        *_, last, hint = said.splitlines()
        hosts_of = "node[1-3] (unreachable), node9 (a command failed there)"
        assert last == f"nothing was checked: no host could be examined: {hosts_of}"
        assert hint == "  try: mend what is said above, then r2cc hosts check --inventory lab"
        assert "0 hosts" not in said and "checks on" not in said

    def test_the_sum_names_the_hosts_that_it_is_not_of(self, doctor: Doctor) -> None:
        gone = UnusableHost("h1", SshError("auth", "no key", "ask"))
        code, said = doctor({"h0": answering("h0", LAB), "h1": gone}, "--check", "nic-state")
        assert code == 3 and "1 check on 1 host; not examined: h1 (no key is let in): 1 error, " in said

    def test_one_call_a_host_one_for_its_paths_and_one_for_datagrams(self, doctor: Doctor) -> None:
        hosts = {f"h{n}": answering(f"h{n}", LAB) for n in range(2)}
        doctor(hosts)
        assert [len(host.commands) for host in hosts.values()] == [3, 3]
        hosts = {f"h{n}": answering(f"h{n}", LAB) for n in range(2)}
        doctor(hosts, "--check", "nic-state")
        assert [len(host.commands) for host in hosts.values()] == [1, 1]

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("--check", "nic-stat"), "no check 'nic-stat'"),
            (("--host", "h[0-"), "--host: brackets"),
            (("--host", "h7"), "no host 'h7' in this inventory"),
            (("--backups", "--check", "clock"), "--backups is one check by itself"),
            (("--check", "nccl-mapped"), "nccl-mapped looks at a process"),
            (("--pid", "0"), "0 is not in the range"),
        ],
    )
    def test_bad_usage(self, doctor: Doctor, words: tuple[str, ...], message: str) -> None:
        code, said = doctor({"h0": answering("h0", LAB)}, *words)
        assert code == 2
        assert message in said

    def test_a_process_that_is_nowhere_is_no_silence(self, doctor: Doctor) -> None:
        code, said = doctor({"h0": answering("h0", LAB)}, "--pid", "4711")
        assert code == 2
        assert "no process 4711 that can be looked at" in said

    def test_only_the_named_hosts_are_asked(self, doctor: Doctor) -> None:
        hosts = {f"h{n}": answering(f"h{n}", LAB) for n in range(3)}
        doctor(hosts, "--host", "h[1-2]", "--check", "nic-state")
        assert [len(host.commands) for host in hosts.values()] == [0, 1, 1]


def test_the_documentation_has_every_check() -> None:
    """docs/reference/doctor.md is written by hand, but its table is what the code says."""
    text = (REPO / "docs" / "reference" / "doctor.md").read_text()
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if re.match(r"\| `", line)
    ]
    table = {row[0].strip("| `"): row[1:] for row in rows if len(row) == 4}
    expected = {check.id: [check.worst.value, check.meaning, check.remedy.replace("|", "\\|")] for check in CHECKS}
    assert table == expected


def test_ids_are_unique_and_every_check_says_what_to_do() -> None:
    ids = [check.id for check in CHECKS]
    assert len(ids) == len(set(ids))
    assert all(check.meaning and check.remedy and check.worst in WORST_FIRST for check in CHECKS)
    assert {check.worst for check in CHECKS} == {ERROR, WARNING, NOTE}
