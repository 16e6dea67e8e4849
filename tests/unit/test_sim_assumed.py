"""Ranges over what is assumed, and what no simulated figure has in it: both stand at every figure."""

from __future__ import annotations

import json
import re
import sys
from math import inf, nan
from pathlib import Path

import pytest
import sim_files
import yaml
from click.testing import CliRunner

from chaos.simulate import assumed, params
from chaos.simulate.unmodelled import NOT_MODELLED
from chaos.simulate.validate import checking
from chaos.simulate.validate.checks import Checked, near
from harness.schemas import dumped
from reports.simulation import model, write

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from sim_tables import head, printing, ranged, row

ROOT = Path(__file__).parents[2]
SHIPPED = params.load()
PAGES = sorted((ROOT / "docs" / "results").glob("simulated-*.md"))
FILES = sorted((ROOT / "experiments" / "sim").glob("*.yaml"))
OF_NO_NETWORK = ("| source | kind |", "| layout | requests | time |")
"""Tables without figures that a network decides: what becomes of a kind of failure, and how fast the simulator is."""
VARIED = {
    "job": tuple(name for name in (*assumed.rates(SHIPPED), *assumed.repairs(SHIPPED)) if name != "host_repair_s"),
    "training": assumed.OVERLAPS,
    "serving": assumed.RESTARTS,
}
"""By kind of workload. Hosts do not fail as shipped, so what their repair takes plays no part."""


def test_what_is_assumed_is_found_by_its_basis() -> None:
    rates, repairs = assumed.rates(SHIPPED), assumed.repairs(SHIPPED)
    assert {"flap_clusters_per_month", "slow_per_month"} <= set(rates)
    assert not {"nic_tor_per_month", "host_per_month"} & set(rates)  # published, switched off
    assert {"card_repair_s", "lemon_s"} <= set(repairs)
    assert "nic_tor_repair_s" not in repairs
    assert all(SHIPPED[name].basis == "assumed" for name in (*rates, *repairs, *assumed.OVERLAPS, *assumed.RESTARTS))


def test_a_factor_is_of_what_costs() -> None:
    found = assumed.scaled(SHIPPED, ("card_repair_s", "dp_overlap", "tp_overlap", "weight_load_GBps"), 3.0)
    assert found["card_repair_s"] == 3 * SHIPPED.card_repair_s.value
    assert found["dp_overlap"] == pytest.approx(1 - 3 * (1 - SHIPPED.dp_overlap.value))
    assert found["tp_overlap"] == 0  # no less is hidden than nothing
    assert found["weight_load_GBps"] == pytest.approx(SHIPPED.weight_load_GBps.value / 3)


def test_groups_are_varied_alone_and_together() -> None:
    one, other = ("card_repair_s",), ("slow_per_month",)
    assert [sorted(each) for each in assumed.variants(SHIPPED, one, other)] == [
        *[[*one]] * 2, *[[*other]] * 2, *[[*one, *other]] * 2,
    ]  # fmt: skip
    assert len(list(assumed.variants(SHIPPED, one))) == 2


def test_a_range_has_what_is_shipped_in_it() -> None:
    found = assumed.over(lambda changes: [changes.get("restart_s", 1.0) / 4080], SHIPPED, ("restart_s",))
    assert found == [pytest.approx((1 / 4080, 1 / 4080, 3.0))]
    assert assumed.span(2.0, [nan, 3.0]) == (2.0, 2.0, 3.0)
    assert assumed.spans([1.0, 5.0], [[2.0, 4.0], [0.5, 6.0]]) == [(0.5, 1.0, 2.0), (4.0, 5.0, 6.0)]
    assert ranged(assumed.Span(0.01, 0.02, 0.05)) == "2.00 % (1.00 to 5.00 %)"
    assert ranged(assumed.Span(0.02, 0.02, 0.02)) == "2.00 %"
    assert ranged(assumed.Span(inf, inf, inf)) == "-"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_shipped_files_vary_what_is_assumed_of_their_kind(file: Path) -> None:
    value = yaml.safe_load(file.read_text())
    names = VARIED.get(value["workload"]["kind"])
    axis = value.get("axes", {}).get(assumed.AXIS)
    if names is None:
        assert axis is None
        return
    assert list(axis) == [*assumed.FACTORS, assumed.SHIPPED]
    for label, factor in (*assumed.FACTORS.items(), (assumed.SHIPPED, 1.0)):
        wanted = {f"params.{name}": value for name, value in assumed.scaled(SHIPPED, names, factor).items()}
        exact = 1e-9 if label == assumed.SHIPPED else 0.05
        assert axis[label] == pytest.approx(wanted, rel=exact, abs=1e-12), label


def test_every_report_says_what_is_not_modelled(tmp_path: Path) -> None:
    for number, value in enumerate((sim_files.simulation(), sim_files.serving())):
        sim = model.load(sim_files.run_dir(tmp_path / str(number), value))
        assert NOT_MODELLED in write.terminal(sim)
        assert NOT_MODELLED in write.html(sim)
        assert NOT_MODELLED in write.markdown(sim).replace("\\", "")
    found = [near("a", 1.0, 1.0, 0.01, "")]
    assert checking.text(found, quiet=False).endswith(NOT_MODELLED)
    assert json.loads(dumped(Checked("holds", found)))["not_modelled"] == NOT_MODELLED


def test_every_printed_table_says_what_is_not_modelled() -> None:
    def two() -> list[str]:
        return [*head(("a",)), row((1,)), "", *head(("b",)), row((2,)), ""]

    main = printing({"two": lambda: iter(two()), "speed": lambda: iter(two())}, plain=("speed",))
    told = CliRunner().invoke(main, ["two"]).output
    assert told.count(NOT_MODELLED) == 2
    assert NOT_MODELLED not in CliRunner().invoke(main, ["speed"]).output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_table_of_a_page_says_what_is_not_modelled(page: Path) -> None:
    assert NOT_MODELLED in page.read_text()
    blocks = re.split(r"\n{2,}", page.read_text())
    for block, after in zip(blocks, [*blocks[1:], ""], strict=True):
        figures = block.lstrip().startswith(("| ", "```")) and not block.startswith(OF_NO_NETWORK)
        assert not figures or NOT_MODELLED in block or after.startswith(NOT_MODELLED), block[:80]
