"""Faults inside hosts: what counts as proof, what is refused, what a host says it can carry. Nothing runs here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_faults_golden import DATA, answer, spec_of

from chaos.faults.catalogue import example
from chaos.faults.example import ExampleNic
from chaos.faults.fault import Fault
from chaos.faults.needs import parse as parse_needs
from chaos.faults.parts.keep import after_down, parse, restore
from chaos.faults.parts.qdisc import codel_us, root_of, words
from chaos.faults.registry import fault_of, kinds
from chaos.faults.registry import spec_of as spec_of_words
from chaos.faults.steps import Start
from chaos.faults.support import lacking, notes, table
from harness.hosts import Result


def on(kind: str, fault_kind: str, method: str | None = None) -> Any:
    """A fault on a kind of host that has been asked."""
    folder = DATA / kind
    name, address = (folder / "nic.txt").read_text().split()
    fault = fault_of(spec_of(fault_kind, method, name), [ExampleNic("n1", name, address, "")], "n1")
    return fault.knowing([answer(step, folder) for step in fault.facts()])


def said(text: str, exit_code: int = 0) -> list[Result]:
    return [Result((), exit_code, text)]


def links(name: str, *flags: str) -> str:
    return json.dumps([{"ifname": "lo", "flags": ["UP"]}, {"ifname": name, "flags": list(flags)}])


QUERY = (DATA / "infiniband" / "record.txt").read_text()
VF = '[{"ifname": "enp23s0f0np0", "vfinfo_list": [{"vf": 1, "rate": {"max_tx": %d, "min_tx": 0}}]}]'
TABLES = '{"nftables": [{"metainfo": {}}, {"table": {"family": "%s", "name": "%s", "handle": 1}}]}'
OURS = '[{"kind": "netem", "handle": "7a7:", "dev": "eth1", "root": true}]'


@pytest.mark.parametrize(
    ("fault", "text", "active"),
    [
        (on("mlx5", "link_down"), links("ens3f0np0", "UP", "LOWER_UP"), False),
        (on("mlx5", "link_down"), links("ens3f0np0"), True),
        (on("mlx5", "link_down", "port"), links("ens3f0np0", "UP"), True),
        (on("mlx5", "link_down", "port"), links("ens3f0np0", "UP", "LOWER_UP"), False),
        (on("mlx5", "black_hole"), TABLES % ("netdev", "r2cc_ens3f0np0"), True),
        (on("mlx5", "black_hole"), TABLES % ("inet", "r2cc_ens3f0np0"), False),
        (on("ethernet", "black_hole"), TABLES % ("inet", "r2cc_eno2"), True),
        (on("mlx5", "side_channel_lost"), TABLES % ("inet", "r2cc_side"), True),
        (on("mlx5", "side_channel_lost"), TABLES % ("inet", "theirs"), False),
        (on("virtio", "delay"), OURS, True),
        (on("virtio", "delay"), OURS.replace("7a7:", "1:"), False),
        (on("virtio", "nic_gone"), "eth0\nlo\n", True),
        (on("virtio", "nic_gone"), "eth0\neth1\nlo\n", False),
        (on("virtio", "qp_error"), "rxe1\nrxe1 17\n", True),
        (on("virtio", "qp_error"), "rxe1\nrxe0 17\n", False),
        (on("vf", "rate", "vf"), VF % 5000, True),
        (on("vf", "rate", "vf"), VF % 20000, False),
        (on("vf", "rate", "vf"), VF % 7, None),
        (on("infiniband", "rate", "port"), QUERY.replace("Enabled:................1X or 4X", "Enabled:....1X"), True),
        (on("infiniband", "rate", "port"), QUERY, False),
    ],
)
def test_proof(fault: Fault, text: str, active: bool | None) -> None:
    assert fault.is_active(said(text)) is active


@pytest.mark.parametrize(
    ("fault", "answers"),
    [
        (on("mlx5", "link_down"), said("", 1)),
        (on("mlx5", "black_hole"), said("", 1)),
        (on("virtio", "delay"), said("", 1)),
        (on("virtio", "nic_gone"), said("", 1)),
        (on("vf", "rate", "vf"), said("[]")),
        (on("infiniband", "rate", "port"), said("ibwarn: mad_rpc: timed out", 1)),
    ],
)
def test_a_probe_that_said_nothing_proves_nothing(fault: Fault, answers: list[Result]) -> None:
    with pytest.raises(ValueError, match=r"said nothing|failed|does not tell"):
        fault.is_active(answers)


def test_one_host_of_two_is_neither_active_nor_gone() -> None:
    fault = example("rail_down", inside=True)
    answers = [Result((), 0, links("eth2")), Result((), 0, links("eth2", "UP", "LOWER_UP"))]
    assert fault.is_active(answers) is None


MLX5 = (DATA / "mlx5" / "record.txt").read_text()


@pytest.mark.parametrize(
    ("kind", "old", "new", "message"),
    [
        ("nic_gone", "\n=== vfs ens3f0np0\n0", "\n=== vfs ens3f0np0\n8", "8 virtual functions"),
        ("nic_gone", '"ifname": "ens3f0np0",', '"ifname": "ens3f0np0", "master": "bond0",', "part of bond0"),
        ("nic_gone", "0000:16:02.0/0000:17:00.0", "x", "no PCI device"),
        ("nic_gone", '"kind": "mq", "handle": "1:"', '"kind": "ingress", "handle": "ffff:"', "ingress qdisc"),
        ("rate", '"kind": "mq"', '"kind": "htb"', "queues below its htb"),
        ("delay", '"kind": "fq_codel"', '"kind": "cake"', "a cake cannot be recorded"),
        ("link_down", "10.64.0.0/10 via", "10.64.0.0/10 nhid 7 via", "nexthop object"),
        ("link_down", "10.64.0.0/10 via", "10.64.0.0/10;reboot via", "cannot be given back"),
        ("link_down", "=== end", "", "cut short"),
    ],
)
def test_what_cannot_be_given_back_is_refused(kind: str, old: str, new: str, message: str) -> None:
    assert old in MLX5
    nic = ExampleNic("n1", "ens3f0np0", "10.3.0.2", "")
    fault = fault_of(spec_of(kind, None, "ens3f0np0"), [nic], "n1")
    with pytest.raises(ValueError, match=message):
        fault.knowing(said(MLX5.replace(old, new)))


def test_a_vlan_would_fall_with_its_nic() -> None:
    kept = parse(said(MLX5)[0])
    vlan = {"ifname": "ens3f0np0.7", "link": "ens3f0np0", "linkinfo": {"info_kind": "vlan"}}
    with pytest.raises(ValueError, match=r"ens3f0np0\.7 stand"):
        after_down(replace(kept, links=[*kept.links, vlan]), ["ens3f0np0"])


@pytest.mark.parametrize("line", ["ip link set dev x;reboot up", "ip link set dev $(id) up", "ip link  up", "ip a\nb"])
def test_only_words_are_given_to_the_shell(line: str) -> None:
    with pytest.raises(ValueError, match="cannot be given back"):
        restore("n1", [line])


@given(st.integers(1, 10_000_000))
def test_a_time_of_fq_codel_comes_back_as_it_is_shown(told_us: int) -> None:
    """The kernel counts in 1024 ns: what 5 ms becomes is shown as 4999 us, and 4999 us would become 4998."""
    shown = (told_us * 1000 >> 10 << 10) // 1000
    assert (codel_us(shown) * 1000 >> 10 << 10) // 1000 == shown


def test_queues_as_tc_is_told_them() -> None:
    with pytest.raises(ValueError, match="says nothing about eth9"):
        root_of([], "eth9")
    assert words({"kind": "bfifo", "options": {"limit": 90000}}) == "bfifo limit 90000"
    flat = {"kind": "pfifo", "handle": "5:", "dev": "eth1", "root": True, "options": {"limit": 77}}
    assert root_of([flat], "eth1").lines == ("tc qdisc replace dev eth1 root handle 5: pfifo limit 77",)


ROOT = "\n".join(
    [
        *(f"tool {name}" for name in ("ip", "tc", "nft", "sh", "sleep", "setsid", "tee", "rm", "cat", "python3")),
        "uid 0",
        "caps 000001ffffffffff",
        *(f"feature {name}" for name in ("tbf", "nft_inet", "nft_bridge", "nft_netdev", "ssh", "pci_rescan")),
        "nic eth1 mlx5_core 1 /sys/devices/pci0000:16/0000:17:00.0",
        "rdma mlx5_0 hard",
        "end\n",
    ]
)


def test_what_a_host_lacks_is_said_for_each_kind() -> None:
    able = parse_needs(said(ROOT)[0])
    by_kind = table({"n1": able}, [example(kind, inside=True) for kind in kinds()])
    why = {kind: hosts["n1"].why for kind, hosts in by_kind.items()}
    assert {kind: each for kind, each in why.items() if each} == {
        "delay": ["the kernel has no sch_netem"],
        "corrupt": ["the kernel has no sch_netem"],
        "side_channel_late": ["the kernel has no sch_netem", "the kernel has no sch_prio"],
    }
    assert notes(example("black_hole", inside=True), able) == [
        "RDMA (mlx5_0) does not notice",
        "no egress hook: families inet and arp instead",
    ]
    assert "mlxlink, which is not installed" in notes(example("link_down", inside=True), able)[0]
    plain = parse_needs(said(ROOT.replace("uid 0", "uid 1000").replace("1ffffffffff", "00000000000"))[0])
    assert lacking(example("link_down", inside=True), plain) == [
        "needs CAP_NET_ADMIN: log in as root; sudo is not used"
    ]
    assert lacking(example("nic_gone", inside=True), plain) == ["needs root: log in as root; sudo is not used"]
    assert lacking(example("stop"), plain) == []
    with pytest.raises(ValueError, match="did not answer"):
        parse_needs(said(ROOT.removesuffix("end\n"))[0])


@pytest.mark.parametrize("answer_text", ["", "192.0.2.9 50122 192.0.2.11", "not-an-address 1 192.0.2.11 22"])
def test_a_controller_that_is_not_known_is_not_cut_off(answer_text: str) -> None:
    with pytest.raises(ValueError, match=r"not reached over SSH|does not appear to be"):
        example("controller_lost").knowing(said(answer_text))


def test_an_ipv6_controller() -> None:
    fault: Any = example("controller_lost").knowing(said("fe80::9%eth0 50122 fe80::1%eth0 2222"))
    assert fault.ends == ("fe80::9", "2222")
    (command,) = fault.inject()
    assert "{ type ipv6_addr ; flags timeout ; }" in command.argv


def test_where_a_fault_acts_is_told_by_the_switch_port() -> None:
    inside = {kind for kind in kinds() if type(example(kind, inside=True)) is not kinds()[kind]}
    some = {"tcp_lost", "udp_lost", "big_packets_lost"}
    assert inside == {"link_down", "flap", "rail_down", "black_hole", "one_way", "loss", "rate", *some}
    for kind in inside:
        assert type(example(kind)) is kinds()[kind]
        assert example(kind).kind == example(kind, inside=True).kind == kind


@pytest.mark.parametrize("method", ["vf", "pci", "queue"])
def test_a_method_belongs_to_its_kinds(method: str) -> None:
    with pytest.raises(ValueError, match="'admin' or 'port'"):
        spec_of_words({**spec_of("link_down", None, "eth1").model_dump(), "method": method})


def test_golden_folders_hold_what_hosts_said() -> None:
    assert {path.name for path in Path(DATA).iterdir()} == {"mlx5", "ethernet", "infiniband", "vf", "virtio"}


def test_other_traffic_may_have_a_rate() -> None:
    (step,) = example("queue_full", rate_mbit=50.0).inject()
    assert " fill --from 10.3.0.2 --rate-mbit 50 " in step.text()


def test_one_helper_fills_all_nics_of_a_host() -> None:
    """Several start one after the other: for a while it is one NIC that is slow, and not what all share."""
    spec = spec_of_words(
        {"id": "f", "kind": "queue_full", "nics": ["h1:*", "h2:eth0"], "at": {"iteration": 3}, "duration_s": 1.0}
    )
    nics = [
        ExampleNic(host, name, f"10.{name[-1]}.0.{host[-1]}", "")
        for host, name in [("h1", f"eth{n}") for n in range(4)]
    ]
    steps = fault_of(spec, [*nics, ExampleNic("h2", "eth0", "10.0.0.2", "")], "h1").inject()
    assert [step.on for step in steps if isinstance(step, Start)] == ["h1", "h2"]
    assert [step.text().count("--from") for step in steps] == [4, 1]


def test_late_side_channels_of_two_nics_of_a_host_do_not_take_each_other_away() -> None:
    """The host's other NIC may be late at the same time: each has a table of its own."""
    one, other = (
        spec_of_words({"id": "f", "kind": "side_channel_late", "host": "n1", "nic": nic, "at": {"time_s": 1.0},
                       "duration_s": 1.0, "delay_ms": 2.0})
        for nic in ("eth0", "eth1")
    )  # fmt: skip
    named = [
        {word for step in fault.inject() for word in step.argv if word.startswith("r2cc_")}  # type: ignore[union-attr]
        for fault in (fault_of(each, [ExampleNic("n1", each.nic, "10.1.0.1", "")], "n1") for each in (one, other))
    ]
    assert [len(each) for each in named] == [1, 1]
    assert not named[0] & named[1]
