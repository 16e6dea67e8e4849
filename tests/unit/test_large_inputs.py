"""Inputs that mean far more than they say: refused before they are written out. And large ones that are right."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from chaos.campaign.load import load as load_campaign
from chaos.simulate.run.experiment import load as load_simulation
from harness.errors import InputErrors
from harness.sites.inventory_file import load as load_inventory
from harness.sites.ranges import MOST_NAMES, expand

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "text",
    [
        f"a[{','.join(['1-4096'] * 5_000)}]",
        ",".join(f"a{n}[1-4096]" for n in range(5_000)),
        "a[1-4096]b[1-4096]c[1-4096]",
        "a[1-99999999999999999999]",
    ],
)
def test_ranges(text: str) -> None:
    with pytest.raises(ValueError, match=f"means more than {MOST_NAMES} names") as caught:
        expand(text)
    assert len(str(caught.value)) < 200


def test_an_inventory(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("hosts:\n" + "".join(f"- name: a{n}[1-4096]\n" for n in range(2_000)))
    with pytest.raises(InputErrors) as caught:
        load_inventory(file)
    assert caught.value.errors == [f"{file}:6: there are more than 16384 hosts, which is the most"]


def test_a_campaign(tmp_path: Path) -> None:
    file = tmp_path / "campaign.yaml"
    matrix = "".join(f"      workload.k{n}: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n" for n in range(9))
    experiment = ROOT / "experiments" / "nic_down.yaml"
    file.write_text(f"name: big\ncells:\n  - experiment: {experiment}\n    matrix:\n{matrix}")
    with pytest.raises(InputErrors, match="it makes 1000000000 cells, and 10000 is the most"):
        load_campaign(file)


def calls(work: Callable[[], object]) -> int:
    """Python functions that it calls, whatever else the machine does."""
    count = 0

    def heard(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(heard)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def test_twice_as_many_points_are_twice_as_much_work(tmp_path: Path) -> None:
    def simulation(points: int) -> Path:
        file = tmp_path / f"{points}.yaml"
        sizes = ", ".join(str(1024 * (n + 1)) for n in range(points))
        file.write_text(
            "schema: 1\nname: many\ntopology: {hosts: 16}\narms: [balance]\n"
            f"workload: {{kind: collective, op: allreduce, bytes: 1024}}\naxes:\n  workload.bytes: [{sizes}]\n"
        )
        return file

    load_simulation(simulation(10))
    short, long = (calls(partial(load_simulation, simulation(count))) for count in (200, 400))
    assert long < 2.2 * short
