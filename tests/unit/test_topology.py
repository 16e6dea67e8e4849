"""Topology files: what they mean, and that every mistake of a file is reported at once with its line."""

from __future__ import annotations

import json
from dataclasses import asdict
from ipaddress import ip_interface
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InputErrors, UsageError
from harness.lab import topology as module
from harness.lab.network.batch import batch
from harness.lab.plan import (
    Plan,
    describe,
    initial_window,
    largest_packet,
    largest_window,
    plan_from_json,
    shaping,
    too_many_neighbours,
)
from harness.lab.topology import MAX_RATE_GBIT, SHIPPED, Topology, parse, shipped_names

REPO = Path(__file__).parents[2]
SCHEMA = REPO / "harness" / "schemas" / "topology.schema.json"
EXAMPLE = REPO / "docs" / "examples" / "topology.yaml"


def errors_of(text: str) -> list[str]:
    with pytest.raises(InputErrors) as caught:
        parse(text, "t.yaml")
    assert caught.value.exit_code == 2
    return caught.value.errors


def test_default_is_the_demos() -> None:
    default = Topology.load("default")
    assert (default.hosts, default.nics, default.rate_gbit, default.mtu) == (4, 4, 1.0, 9000)


@pytest.mark.parametrize("name", shipped_names())
def test_every_shipped_topology_loads_and_is_called_like_its_file(name: str) -> None:
    assert Topology.load(name).name == name


def test_files_text_and_overrides(tmp_path: Path) -> None:
    example = Topology.load(EXAMPLE)
    assert example.rate_of("h1", "eth2") == 0.25
    assert example.rate_of("h0", "eth2") == example.rate_gbit
    assert Topology.load(str(EXAMPLE)) == Topology.load(EXAMPLE.read_text()) == example
    with pytest.raises(UsageError, match="cannot read the lab's topology"):
        Topology.load(tmp_path / "absent.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot read the lab's topology"):
        Topology.load(tmp_path / "binary.yaml")


def test_all_mistakes_at_once_with_their_lines() -> None:
    text = """\
schema: 1
hosts: 4
nics: two
rate_gbit: 0
mtu: 90
colour: red
overrides:
  - host: h1
    nic: eth0
    rate_gbit: -1
  - {host: h9, nic: eth0, rate_gbit: 1.0}
  - host: h1
    nic: eth0
    rate_gbit: 1
    rate_gbit: 0.5
  - {host: h2, rate: 3}
"""
    errors = errors_of(text)
    expected = [
        ("t.yaml:3: ", "nics: input should be a valid integer, not 'two'"),
        ("t.yaml:4: ", "rate_gbit: input should be greater than 0, not 0"),
        ("t.yaml:5: ", "mtu: input should be greater than or equal to 1280, not 90"),
        (
            "t.yaml:6: ",
            "colour: unknown key;"
            " known here: schema, name, hosts, nics, gpus, rate_gbit, mtu, one_subnet, overrides, placement",
        ),
        ("t.yaml:10: ", "overrides.0.rate_gbit: input should be greater than 0, not -1"),
        ("t.yaml:11: ", "no host 'h9': with hosts: 4 the last is h3"),
        ("t.yaml:12: ", "duplicate override for h1 eth0"),
        ("t.yaml:15: ", "duplicate key 'rate_gbit'"),
        ("t.yaml:16: ", "overrides.3.nic: this is required"),
        ("t.yaml:16: ", "overrides.3.rate: unknown key (did you mean rate_gbit?); known here: host, nic, rate_gbit"),
        ("t.yaml:16: ", "overrides.3.rate_gbit: this is required"),
    ]
    assert errors == [line + message for line, message in expected]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("hosts: 0", "greater than or equal to 1"),
        ("hosts: 65", "less than or equal to 64"),
        ("hosts: true", "valid integer"),
        ("hosts: 2.5", "valid integer"),
        ("nics: 17", "less than or equal to 16"),
        ("rate_gbit: .nan", "finite number"),
        ("rate_gbit: .inf", "finite number"),
        ("rate_gbit: '1'", "valid number"),
        (f"rate_gbit: {MAX_RATE_GBIT + 1}", "less than or equal to 32"),
        ("mtu: 100000", "less than or equal to 65000"),
        ("mtu: 1500.5", "valid integer"),
        ("schema: 2", "should be 1"),
        ("name: Über Lab", "match pattern"),
        ("overrides: 3", "valid list"),
        ("overrides: [3]", "valid dictionary"),
        ("overrides: [{host: eth0, nic: h0, rate_gbit: 1}]", "match pattern"),
        ("overrides: [{host: h0, nic: eth2, rate_gbit: 1}]", "no nic 'eth2': with nics: 2 the last is eth1"),
    ],
)
def test_bad_values(line: str, says: str) -> None:
    good = {"hosts": "hosts: 2", "nics": "nics: 2"}
    good.pop(line.split(":", maxsplit=1)[0], None)
    errors = errors_of("\n".join([*good.values(), line]) + "\n")
    assert any(says in error and error.startswith(f"t.yaml:{len(good) + 1}:") for error in errors), errors


@pytest.mark.parametrize("text", ["", "[]\n", "just text\n", "3\n"])
def test_not_a_mapping(text: str) -> None:
    assert errors_of(text)


@pytest.mark.parametrize(
    ("text", "line"), [("hosts: [1\nnics: 2\n", 2), ("a: b: c\n", 1), ("hosts: 1\n\tnics: 2\n", 2), ("x: \x07\n", 1)]
)
def test_broken_yaml_names_the_line(text: str, line: int) -> None:
    errors = errors_of(text)
    assert errors[0].startswith(f"t.yaml:{line}: not valid YAML: ")


def test_aliases_cannot_hide_code() -> None:
    assert errors_of("hosts: !!python/object/apply:os.getcwd []\nnics: 1\n")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda x: (
            st.lists(x)
            | st.dictionaries(
                st.sampled_from(["hosts", "nics", "overrides", "placement", "host", "nic", "numa", "x"]), x
            )
        ),
        max_leaves=12,
    )
)
def test_any_yaml_gives_a_topology_or_errors_with_lines(value: object) -> None:
    text = yaml.safe_dump(value)
    try:
        parse(text, "t.yaml")
    except InputErrors as error:
        assert all(message.startswith("t.yaml:") for message in error.errors)
        lines = [int(message.split(":")[1]) for message in error.errors]
        assert lines == sorted(lines)
        assert 1 <= lines[0] <= lines[-1] <= len(text.splitlines()) + 1


def test_the_plan_of_a_small_topology() -> None:
    plan = describe(Topology(hosts=2, nics=1, rate_gbit=2.0, mtu=1500))
    assert plan.hosts == ("h0", "h1")
    assert [bridge.name for bridge in plan.bridges] == ["rail0", "mgmt"]
    rows = [(c.host, c.nic, c.address, c.port, c.bridge, c.rail, c.shaping is not None) for c in plan.cables]
    assert rows == [
        ("h0", "eth0", "10.1.0.1", "h0-eth0", "rail0", 0, True),
        ("h1", "eth0", "10.1.0.2", "h1-eth0", "rail0", 0, True),
        ("h0", "mgmt0", "10.250.0.1", "h0-mgmt0", "mgmt", None, False),
        ("h1", "mgmt0", "10.250.0.2", "h1-mgmt0", "mgmt", None, False),
    ]


@given(st.integers(1, 64), st.integers(1, 16), st.floats(0.001, MAX_RATE_GBIT), st.integers(1280, 65000))
def test_plans_are_sound(hosts: int, nics: int, rate_gbit: float, mtu: int) -> None:
    plan = describe(Topology(hosts=hosts, nics=nics, rate_gbit=rate_gbit, mtu=mtu))
    assert len({c.address for c in plan.cables}) == len({c.port for c in plan.cables}) == hosts * (nics + 1)
    assert all(len(c.port) <= 15 for c in plan.cables)  # the kernel's limit for a NIC's name
    shapes = [c.shaping for c in plan.cables if c.shaping]
    assert all(s.burst_bytes >= mtu + 14 and s.limit_bytes >= mtu + 14 for s in shapes)


def test_one_subnet_holds_all_rails_and_not_the_management_network() -> None:
    plan = describe(Topology(hosts=64, nics=16, one_subnet=True))
    data = [cable for cable in plan.cables if cable.rail is not None]
    (network,) = {ip_interface(f"{cable.address}/{cable.prefix}").network for cable in data}
    assert [bridge.name for bridge in plan.bridges] == ["rail0", "mgmt"]
    assert {cable.bridge for cable in data} == {"rail0"}
    assert all(ip_interface(cable.address).ip not in network for cable in plan.cables if cable.rail is None)
    assert plan_from_json(json.loads(json.dumps(asdict(plan)))) == plan


def test_a_plan_survives_json() -> None:
    plan = describe(Topology.load("incast"))
    again: Plan = plan_from_json(json.loads(json.dumps(asdict(plan))))
    assert again == plan


def test_shaping_at_the_demos_rate() -> None:
    one = shaping(1.0, 9000)
    assert one.burst_bytes == 125000
    assert one.limit_bytes == 250000  # 2 ms: docs/results/lab.md says why


def test_one_flow_does_not_fill_the_queue_of_a_slow_wire() -> None:
    for rate, most in ((1.0, None), (0.5, 24), (0.25, 12), (0.04, 6)):
        topology = Topology.load("incast").model_copy(update={"rate_gbit": rate})
        cable = next(cable for cable in describe(topology).cables if cable.shaping is not None)
        assert largest_window(cable) == most
        assert cable.shaping is not None
        assert (most or 0) * cable.mtu < cable.shaping.limit_bytes


def test_a_burst_fits_in_the_switchs_queue() -> None:
    for rate, segments in ((10.0, 24), (1.0, 24), (0.25, 12)):
        topology = Topology.load("incast").model_copy(update={"rate_gbit": rate})
        cable = next(cable for cable in describe(topology).cables if cable.shaping is not None)
        assert cable.mtu == 9000
        assert initial_window(cable) == segments


def test_a_packet_takes_a_millisecond_of_a_slow_wire() -> None:
    for rate, size in ((10.0, 65536), (1.0, 65536), (0.25, 31250), (0.01, 18000)):
        assert largest_packet(shaping(rate, 9000), 9000) == size


def test_more_neighbours_than_the_machine_keeps_are_warned_of() -> None:
    """33 hosts x 2 NICs, all-to-all: connections waited for ever at the kernel's usual 1024 entries."""
    plan = describe(Topology(hosts=33, nics=2, rate_gbit=0.25))
    (warning,) = too_many_neighbours(plan, 1024)
    assert "2112" in warning and "gc_thresh3=4224" in warning
    assert too_many_neighbours(plan, 2112) == []
    assert too_many_neighbours(describe(Topology.load("incast")), 1024) == []


def test_the_schema_is_what_the_code_accepts() -> None:
    schema = json.loads(SCHEMA.read_text())
    for path in (*SHIPPED.glob("*.yaml"), EXAMPLE):
        jsonschema.validate(yaml.safe_load(path.read_text()), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"hosts": 2, "nics": 2, "colour": "red"}, schema)


def test_shipped_names_do_not_shadow_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("default").mkdir()
    assert module.find("default") == SHIPPED / "default.yaml"
    assert module.find("./default") == Path("default")


@pytest.mark.parametrize(("program", "says"), [("false", "exit code 1"), ("r2cc-no-such-program", "no program")])
def test_a_batch_that_failed_says_why(program: str, says: str) -> None:
    assert says in batch(program, ["nothing"])
    assert batch("true", []) == ""
