"""Experiment files: everything wrong with one is said at once, with its line, and nothing that is right is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.experiment.file import dump, load, loads
from harness.errors import InputErrors, R2ccError, UsageError

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((ROOT / "experiments").glob("*.yaml"))

GOOD = """\
name: good
topology: {hosts: 2, nics: 2}
workload: {iterations: 10}
faults:
  - {id: a, kind: link_down, host: h1, nic: eth0, at: {iteration: 3}, duration_s: 1.0}
arms:
  migrate: {expect: holds}
"""


def errors_of(text: str) -> list[str]:
    with pytest.raises(InputErrors) as caught:
        loads(text, Path("x.yaml"))
    assert caught.value.exit_code == 2
    return caught.value.errors


def with_fault(fault: str, topology: str = "{hosts: 2, nics: 2}") -> str:
    head = GOOD.split("faults:", maxsplit=1)[0].replace("{hosts: 2, nics: 2}", topology)
    return f"{head}faults:\n{fault}\narms: {{migrate: {{expect: holds}}}}\n"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_experiments_load_and_survive_a_round_trip(path: Path) -> None:
    experiment = load(path)
    assert experiment.name == path.stem
    assert loads(dump(experiment), path) == experiment
    assert [arm.expect for arm in experiment.arms.values()] == ["deviates", "holds"]


def test_there_are_the_three_shipped_experiments() -> None:
    assert [path.stem for path in SHIPPED] == ["black_hole", "flap", "nic_down"]


def test_the_main_job_is_what_the_demo_promises() -> None:
    experiment = load(ROOT / "experiments" / "nic_down.yaml")
    assert experiment.topology == {"hosts": 4, "nics": 4}
    assert (experiment.workload.op, experiment.workload.bytes, experiment.workload.iterations) == (
        "allreduce",
        2**26,
        22,
    )
    (fault,) = experiment.faults
    assert (fault.kind, fault.at.iteration, fault.at.fraction, fault.duration_s) == ("link_down", 8, 0.5, 2.5)
    assert experiment.hypothesis_of("migrate").stall_ms_max == 10.0


def test_every_error_at_once_with_its_line() -> None:
    text = """\
name: Bad Name
tpyo: 1
topology:
  hosts: 2
  nics: 1
  rate_gbit: 0
  foo: 3
workload:
  op: allgather
  bytes: "many"
  iterations: 10
  iterationz: 3
faults:
  - {id: a, kind: link_down, host: h1, nic: eth0, at: {iteration: 3, time_s: 1}, duration_s: 4}
  - {id: b, kind: flap, host: h0, nic: eth0, at: {iteration: 3}, duration_s: 4}
  - id: c
    kind: link_down
    host: h1
    nic: eth0
    at: {iteration: 12}
    duration_s: 1
    zzz: 1
  - id: c
    kind: black_hole
    host: h0
    nic: eth0
    at: {iteration: 12}
    duration_s: 1
hypothesis: {stal_ms: 3}
arms:
  stock: {expect: deviate}
  foo: {expect: holds}
  migrate: {expect: holds, hypothesis: {stall_max: 3}}
repeats: 0
"""
    expected = [
        (1, "name: "), (2, "tpyo: unknown key"), (6, "rate_gbit"), (7, "foo: unknown key"), (9, "workload.op: "),
        (10, "workload.bytes: "), (12, "workload.iterationz: unknown key"), (14, "faults.0.at: give one of"),
        (15, "faults.1.down_s: this is required"), (15, "faults.1.times: this is required"),
        (15, "faults.1.up_s: this is required"), (22, "faults.2.zzz: unknown key"),
        (27, "faults.3.at.iteration: iteration 12 is never reached"), (29, "hypothesis.stal_ms: unknown key"),
        (31, "arms.stock.expect: "), (32, "arms.foo: no such arm"), (33, "arms.migrate.hypothesis.stall_max: unknown"),
        (34, "repeats: "),
    ]  # fmt: skip
    found = errors_of(text)
    for (line, start), error in zip(expected, found, strict=True):
        assert error.startswith(f"x.yaml:{line}: "), (line, error)
        assert start in error


@pytest.mark.parametrize(
    ("fault", "topology", "message"),
    [
        ("  - {id: a, kind: link_down, host: h9, nic: eth0, at: {iteration: 1}, duration_s: 1}",
         "{hosts: 2, nics: 2}", "x.yaml:5: faults.0.host: the topology has no host h9; it has h0, h1"),
        ("  - {id: a, kind: link_down, host: h1, nic: eth7, at: {iteration: 1}, duration_s: 1}",
         "{hosts: 2, nics: 2}", "x.yaml:5: faults.0.nic: h1 has no NIC eth7; it has eth0, eth1"),
        ("  - {id: a, kind: link_down, host: h1, nic: eth0, at: {iteration: 1}, duration_s: 1}",
         "{hosts: 2, nics: 1}", "x.yaml:5: faults.0: leaves h1 without any path; say allow_total_loss: true"),
        ("  - {id: a, kind: link_down, host: h1, nic: eth0, at: {iteration: 10}, duration_s: 1}",
         "{hosts: 2, nics: 2}", "x.yaml:5: faults.0.at.iteration: iteration 10 is never reached: the last one is 9"),
        ("  - {id: a, kind: link_down, host: h1, nic: eth0, at: {time_s: 1}, duration_s: 2}\n"
         "  - {id: b, kind: flap, host: h1, nic: eth0, at: {time_s: 2.5}, times: 1, down_s: 1, up_s: 1}",
         "{hosts: 2, nics: 2}", "x.yaml:6: faults.1.at: overlaps a on h1 eth0"),
        ("  - {id: a, kind: link_down, host: h1, nic: eth0, at: {iteration: 3}, duration_s: 2}\n"
         "  - {id: b, kind: link_down, host: h1, nic: eth0, at: {iteration: 3, fraction: 0.9}, duration_s: 2}",
         "{hosts: 2, nics: 2}", "x.yaml:6: faults.1.at: overlaps a on h1 eth0"),
        ("  - {id: a, kind: link_down, host: h1, nic: eth0, at: {iteration: 3}, duration_s: 0}",
         "{hosts: 2, nics: 2}", "x.yaml:5: faults.0.duration_s: input should be greater than 0, not 0"),
        ("  - {id: a, kind: link_down, host: h1, nic: eth0, at: {iteration: 3}}",
         "{hosts: 2, nics: 2}", "x.yaml:5: faults.0: a link_down needs duration_s"),
        ("  - {id: a, kind: link_down, host: h1, nic: eth0, at: {time_s: .nan}, duration_s: 1}",
         "{hosts: 2, nics: 2}", "x.yaml:5: faults.0.at.time_s: "),
        ("  - {id: a, kind: nuke, host: h1, nic: eth0, at: {time_s: 1}, duration_s: 1}",
         "{hosts: 2, nics: 2}", "x.yaml:5: faults.0.kind: there is no fault nuke; there are address_removed, "),
        ("  - {id: a, id: b, kind: link_down, host: h1, nic: eth0, at: {time_s: 1}, duration_s: 1}",
         "{hosts: 2, nics: 2}", "x.yaml:5: duplicate key 'id'"),
    ],
)  # fmt: skip
def test_one_wrong_fault(fault: str, topology: str, message: str) -> None:
    (found,) = errors_of(with_fault(fault, topology))
    assert found.startswith(message)


def test_two_faults_that_leave_a_host_without_a_path_by_time() -> None:
    both = (
        "  - {id: a, kind: link_down, host: h1, nic: eth0, at: {time_s: 1}, duration_s: 2}\n"
        "  - {id: b, kind: black_hole, host: h1, nic: eth1, at: {time_s: %s}, duration_s: 2%s}"
    )
    assert len(errors_of(with_fault(both % ("2", "")))) == 2
    loads(with_fault(both % ("3", "")), Path("x.yaml"))
    asked = with_fault((both % ("2", ", allow_total_loss: true")).replace("duration_s: 2}", "duration_s: 2, ALLOW}"))
    asked = asked.replace("ALLOW", "allow_total_loss: true")
    loads(asked, Path("x.yaml"))


def test_faults_one_after_the_other_on_one_nic_are_no_contradiction() -> None:
    fault = (
        "  - {id: a, kind: link_down, host: h1, nic: eth0, at: {time_s: 1}, duration_s: 2}\n"
        "  - {id: b, kind: link_down, host: h1, nic: eth0, at: {time_s: 3.5}, duration_s: 2}"
    )
    assert [each.id for each in loads(with_fault(fault), Path("x.yaml")).faults] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.yaml:1: an experiment is a mapping with name, topology, workload, arms"),
        ("- 1", "x.yaml:1: an experiment is a mapping"),
        ("name: x\n  y: [", "x.yaml:2: not valid YAML"),
        ("name: !!python/object:os.system x", "x.yaml:1: not valid YAML"),
    ],
)
def test_files_that_are_no_experiment_at_all(text: str, message: str) -> None:
    assert errors_of(text)[0].startswith(message)


def test_a_block_topology_keeps_its_lines_when_it_comes_last() -> None:
    text = GOOD.replace("topology: {hosts: 2, nics: 2}\n", "") + "topology:\n  hosts: 2\n  # none\n  nics: zero\n"
    (error,) = errors_of(text)
    assert error.startswith("x.yaml:10: nics: ")


def test_topology_from_a_file_beside_the_experiment_or_a_shipped_one(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    (tmp_path / "mine.yaml").write_text("hosts: 3\nnics: 2\n")
    for name, host in (("mine.yaml", "h2"), ("default", "h3")):
        path.write_text(GOOD.replace("{hosts: 2, nics: 2}", name).replace("host: h1", f"host: {host}"))
        assert loads(dump(load(path)), tmp_path / "elsewhere.yaml").faults[0].host == host
    path.write_text(GOOD.replace("{hosts: 2, nics: 2}", "nowhere.yaml"))
    with pytest.raises(InputErrors, match=r"e\.yaml:2: topology: cannot read the lab's topology"):
        load(path)


def test_a_missing_file_is_bad_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the experiment"):
        load(tmp_path / "none.yaml")


def test_arms_override_single_entries_of_the_hypothesis() -> None:
    own = "  stock: {expect: any, hypothesis: {exact: false, stall_ms_max: 5000}}\n"
    text = GOOD + own + "hypothesis: {stall_ms_max: 10, return_ms_max: 7}\n"
    experiment = loads(text, Path("x.yaml"))
    stock, migrate = experiment.hypothesis_of("stock"), experiment.hypothesis_of("migrate")
    assert (stock.exact, stock.stall_ms_max, stock.return_ms_max) == (False, 5000, 7)
    assert (migrate.exact, migrate.stall_ms_max, migrate.return_ms_max) == (True, 10, 7)


def test_flap_cycles() -> None:
    fault = "  - {id: a, kind: flap, host: h1, nic: eth0, at: {time_s: 1}, times: 3, down_s: 1.0, up_s: 1.5}"
    (flap,) = loads(with_fault(fault), Path("x.yaml")).faults
    assert flap.cycles == [(0.0, 1.0), (2.5, 3.5), (5.0, 6.0)]
    assert flap.lasts_s == 6.0


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["name", "topology", "workload", "faults", "hypothesis", "arms", "repeats", "seed"]), VALUES)
def test_any_value_anywhere_is_accepted_or_refused_but_never_crashes(key: str, value: Any) -> None:
    document = {**yaml.safe_load(GOOD), key: value}
    try:
        loads(yaml.safe_dump(document), Path("x.yaml"))
    except R2ccError as error:
        assert error.exit_code == 2
        assert "x.yaml" in str(error) or "topology" in str(error)


def test_all_reduces_in_a_row_need_sums_that_stay_exact() -> None:
    why = "all-reduces need 2, 4, 8, ... hosts for it: sums of sums are exact there"
    row = GOOD.replace("{iterations: 10}", "{iterations: 10, in_a_row: 16}")
    assert loads(row, Path("x.yaml"))
    three = row.replace("{hosts: 2", "{hosts: 3")
    assert errors_of(three) == [f"x.yaml:3: workload.in_a_row: {why}"]
    assert loads(three.replace("in_a_row: 16", "in_a_row: 16, op: stream"), Path("x.yaml"))


def test_a_file_says_of_which_form_it_is() -> None:
    assert loads(GOOD, Path("x.yaml")) == loads(f"schema: 1\n{GOOD}", Path("x.yaml")), "a file of yesterday says none"
    assert errors_of(f"schema: 2\n{GOOD}") == ["x.yaml:1: schema: input should be 1, not 2"]
    assert dump(loads(GOOD, Path("x.yaml"))).startswith("schema: 1\n")


def test_every_shipped_file_says_of_which_form_it_is() -> None:
    root = Path(__file__).parents[2]
    files = [*(root / "experiments").rglob("*.yaml"), *(root / "docs" / "examples").glob("*.yaml")]
    assert [str(file) for file in files if "\nschema: 1\n" not in f"\n{file.read_text()}"] == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("topology:", "topolgy:", "topolgy: unknown key (did you mean topology?); an experiment has"),
        ("kind: link_down", "kind: linkdown", "there is no fault linkdown (did you mean link_down?); there are"),
        ("kind: link_down", "kind: earthquake", "there is no fault earthquake; there are"),
        ("stall_ms_max:", "stall_max_ms:", "stall_max_ms: unknown key (did you mean stall_ms_max?); known here"),
    ],
)
def test_a_name_that_is_near_is_proposed(old: str, new: str, said: str) -> None:
    text = """
        {name: one, topology: {hosts: 2, nics: 2}, workload: {iterations: 5}, arms: {migrate: {expect: holds}},
         faults: [{id: f0, kind: link_down, host: h1, nic: eth1, at: {iteration: 3}, duration_s: 1.0}],
         hypothesis: {stall_ms_max: 3.0}}
    """
    with pytest.raises(InputErrors) as caught:
        loads(text.replace(old, new, 1), Path("one.yaml"))
    assert any(said in error for error in caught.value.errors), caught.value.errors
