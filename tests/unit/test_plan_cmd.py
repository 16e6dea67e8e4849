"""`r2cc plan`: what it prints, and what it says to input that makes no sense."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.build import build_net
from harness.cli import cli
from harness.commands.plan import SCHEDULES
from harness.errors import UsageError
from harness.progress import silent
from harness.schedules.plan_text import render
from harness.schedules.planner import Plan
from harness.schemas import load, validate
from harness.units import parse_bytes, show_bytes

ROOT = Path(__file__).resolve().parents[2]


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, ["plan", *words])


def error_of(*words: str) -> str:
    error = call(*words).exception
    assert isinstance(error, UsageError) and error.exit_code == 2
    return str(error)


@pytest.fixture(scope="module")
def library() -> None:
    build_net(progress=silent)


@pytest.mark.build
@pytest.mark.usefixtures("library")
def test_prints_what_would_run_and_why() -> None:
    text = call("--nodes", "4", "--nics", "2", "--down", "h1:eth0").stdout
    assert "allreduce of 64 MiB: chain\n" in text
    assert "node h1 has 50 % of the others' bandwidth" in text
    rows = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert rows["lower bound"][2:6] == ["536.87", "ms", "1.316", "by"]
    assert rows["healthy"][1:5] == ["407.92", "ms", "1.000", "0.760"]
    assert "Costs: lab (" in text
    assert rows["ring"][1:5] == ["814.64", "ms", "1.997", "1.517"]
    assert rows["h1"][1:4] == ["1", "64", "MiB"]
    assert "head first, tail last" in text


@pytest.mark.build
@pytest.mark.usefixtures("library")
def test_json_is_the_planners_own() -> None:
    made = json.loads(call("--nodes", "4", "--nics", "2", "--down", "h1:eth0=0.5,h2:eth1", "--json").stdout)
    validate("plan", made)
    assert [node["rate_gbit"] for node in made["nodes"]] == [2, 1.5, 1, 2]


@pytest.mark.build
@pytest.mark.usefixtures("library")
def test_takes_nodes_and_rates_from_a_topology() -> None:
    made = json.loads(call("--inventory", "lab:docs/examples/topology.yaml", "--json").stdout)
    assert [node["rate_gbit"] for node in made["nodes"]] == [4, 3.25, 4]
    healthy = json.loads(call("--json").stdout)
    assert healthy["schedule"] == "ring" and len(healthy["nodes"]) == 4
    assert made["healthy_us"] > 0


@pytest.mark.build
@pytest.mark.usefixtures("library")
def test_costs_and_sizes_reach_the_planner() -> None:
    words = ("--nodes", "4", "--nics", "2", "--down", "h1:eth0", "--schedule", "chain", "--json")
    quick = json.loads(call(*words, "--bytes", "1KiB", "--cost", "hop_us=1,local_hop_us=0,chunk_bytes=1024").stdout)
    slow = json.loads(call(*words, "--bytes", "1KiB", "--cost", "hop_us=100000,chunk_bytes=1024").stdout)
    assert quick["bytes"] == 1024 and quick["predicted_us"] * 100 < slow["predicted_us"]
    assert quick["threshold_bytes"] < slow["threshold_bytes"]


@pytest.mark.build
@pytest.mark.usefixtures("library")
def test_many_nodes_are_cut_short() -> None:
    text = call("--nodes", "100", "--down", "h40:eth0=0.5", "--schedule", "optcc").stdout
    assert "... 84 more" in text and "\nh40 " in text and "(--json has all)" in text
    assert max(map(len, text.splitlines())) < 150


@pytest.mark.build
@pytest.mark.usefixtures("library")
def test_what_the_planner_refuses_is_bad_input() -> None:
    assert "node h1 has no capacity at all" in error_of("--nodes", "4", "--down", "h1:eth0")
    assert "capacity of h1:eth0 must be from 0 to 1, not 1.5" in error_of("--nodes", "4", "--down", "h1:eth0=1.5")
    assert "there is no datatype float12" in error_of("--nodes", "4", "--datatype", "float12")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--nics", "2"), "give --nodes as well"),
        (("--nodes", "2", "--inventory", "lab"), "exclude each other"),
        (("--nodes", "2", "--down", "h2:eth0"), "there is no NIC h2:eth0"),
        (("--nodes", "2", "--down", "h1:eth0,h1:eth0"), "--down has h1:eth0 twice"),
        (("--nodes", "2", "--down", "h1:eth0=much"), "'much' is no number"),
        (("--nodes", "2", "--down", "h1:eth0=nan"), "'nan' is no number"),
        (("--nodes", "2", "--cost", "hops=1"), "there is no parameter hops"),
        (("--inventory", "lab:nowhere.yaml"), "cannot read the lab's topology"),
        (("--inventory", "moon"), "no inventory 'moon'"),
    ],
)
def test_what_makes_no_sense_is_refused(words: tuple[str, ...], says: str) -> None:
    assert says in error_of(*words)


def test_a_size_is_held_against_its_form_before_anything_is_done() -> None:
    result = call("--nodes", "2", "--bytes", "much")
    assert result.exit_code == 2
    assert "'much' is no size" in result.output


def test_help_has_examples_and_loads_nothing_heavy() -> None:
    assert "r2cc plan --nodes 4 --nics 2 --down h1:eth0" in call("--help").stdout
    code = (
        "import sys, harness.commands.plan; "
        "print([m for m in ('pydantic', 'yaml', 'rich', 'ctypes') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_schedules_are_the_schemas() -> None:
    assert list(SCHEDULES) == load("plan_request")["properties"]["schedule"]["enum"]


def test_every_kind_of_part_has_words() -> None:
    made = Plan.of((ROOT / "docs" / "examples" / "plan.json").read_text())
    text = "\n".join(render(made, dict(enumerate(("a", "b", "c", "d")))))
    assert "b d c a  (head first, tail last)" in text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("8B", 8),
        ("64MiB", 64 << 20),
        ("64M", 64 << 20),
        ("64 mb", 64_000_000),
        ("1.5GiB", 3 << 29),
        ("2T", 2 << 40),
    ],
)
def test_sizes_as_people_write_them(text: str, value: int) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1.0001K", "1X", "1MiBs", "1e6", "inf"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError):
        parse_bytes(text)


def test_sizes_as_shown() -> None:
    assert [show_bytes(value) for value in (0, 1023, 1536, 64 << 20, 5 << 40)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "64 MiB",
        "5 TiB",
    ]


@pytest.mark.build
@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("op", ["allreduce", "allgather"])
def test_a_ring_in_another_order_is_no_ring_of_nccls(op: str) -> None:
    """NCCL's own ring keeps two neighbours together that lost different NICs."""
    words = ("--nodes", "4", "--nics", "4", "--down", "h1:eth0,h2:eth3", "--nccl", "hopper", "--op", op, "--json")
    made = json.loads(call(*words).stdout)
    rows = {each["schedule"]: each["predicted_us"] for each in made["candidates"]}
    times = {name: us / made["healthy_us"] for name, us in rows.items() if us is not None}
    assert made["schedule"] == "reranked" and made["parts"][0]["order"] == [0, 1, 3, 2]
    assert times["ring"] == pytest.approx(2, rel=0.02) and times["reranked"] == pytest.approx(4 / 3, rel=0.02)


@pytest.mark.build
@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("down", ["h1:eth0", "h1:eth0,h2:eth3", "h1:eth0=0.5,h5:eth2", "h0:eth1,h3:eth1,h4:eth2=0.25"])
@pytest.mark.parametrize("costs", [("--nccl", "hopper"), ("--costs", "nvlink"), ("--costs", "lab")])
def test_what_is_slower_than_another_row_says_why_it_runs(down: str, costs: tuple[str, str]) -> None:
    for size in ("64KiB", "1MiB", "4MiB", "64MiB", "1GiB"):
        words = ("--nodes", "8", "--nics", "4", "--rate", "25", "--down", down, "--bytes", size, *costs, "--json")
        made = json.loads(call(*words).stdout)
        rows = {each["schedule"]: each["predicted_us"] for each in made["candidates"]}
        least = made["predicted_us"] if made["schedule"] == "ring" else rows[made["schedule"]]
        for each in made["candidates"]:
            if each["predicted_us"] is None or each["predicted_us"] >= least * (1 - 1e-6):
                continue
            said = "NCCL goes by its table" if each["schedule"] == "ring" else f"{each['schedule']} is faster, but by"
            assert said in made["why"] or "as nothing else is faster by more than 2 %" in made["why"], (size, each)


@pytest.mark.build
@pytest.mark.usefixtures("library")
def test_an_all_to_all_is_no_ring() -> None:
    text = call("--nodes", "4", "--nics", "4", "--down", "h1:eth0", "--op", "alltoall").stdout
    assert text.startswith("alltoall of 64 MiB: direct\n") and "ring" not in text
