"""Files of costs, and what calibration makes of rows whose costs are known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner, Result

from harness.build import build_net
from harness.commands.plan import plan as plan_command
from harness.errors import UsageError
from harness.progress import silent
from harness.schedules.costs import fit, measured, model
from harness.schedules.costs.measured import Measured
from harness.schedules.planner import AlgorithmCost, Nic, Node, Plan, Request, plan

pytestmark = [pytest.mark.build, pytest.mark.timeout(400)]
NODES = fit.Nodes(8, 400.0)
GPUS = 8
NOISE = 0.03
OURS = {
    "ring": AlgorithmCost(8.4, 10.0, 2.0, 0.93),
    "tree": AlgorithmCost(12.0, 20.0, 5.0, 0.8),
    "nvls_tree": AlgorithmCost(40.0, 15.0, None, 0.9),
}
"""Of a cluster that NCCL's constants do not describe."""
HEAD = "#  size  count  type  redop  root" + "  time  algbw  busbw  #wrong" * 2 + "\n"
FORM = "  {size}  {count}  float  sum  -1  {us:.2f}  {alg:.2f}  {bus:.2f}  0  {us:.2f}  {alg:.2f}  {bus:.2f}  0\n"


@pytest.fixture(scope="module", autouse=True)
def _library() -> Iterator[None]:
    build_net(progress=silent)
    yield


def nodes_of(count: int, gpus: int = GPUS) -> tuple[Node, ...]:
    nics = tuple(Nic(f"n{nic}", NODES.rate_gbit) for nic in range(NODES.nics))
    return tuple(Node(f"h{node}", tuple(range(node * gpus, (node + 1) * gpus)), nics) for node in range(count))


def there() -> model.Costs:
    base = model.load("nvlink")
    assert base.nccl is not None
    return replace(base, nccl=replace(base.nccl, **OURS))  # type: ignore[arg-type]


def healthy(costs: model.Costs, count: int, size: int) -> Plan:
    return plan(Request(nodes_of(count), size, **costs.values))


def text_of(count: int, seed: int) -> str:
    """As all_reduce_perf prints it on so many nodes, where the costs are OURS and times scatter."""
    noise, ranks = Random(seed), count * GPUS
    lines = ["# Collective test starting: all_reduce_perf\n"]
    lines += [
        f"#  Rank {rank} Group 0 Pid 1 on node{rank // GPUS} device {rank % GPUS} [0] X\n" for rank in range(ranks)
    ]
    lines.append(HEAD)
    for power in range(12, 34):
        us = healthy(there(), count, 1 << power).healthy_us * (1 + noise.gauss(0, NOISE))
        alg = (1 << power) / us / 1e3
        lines.append(
            FORM.format(size=1 << power, count=1 << (power - 2), us=us, alg=alg, bus=alg * 2 * (ranks - 1) / ranks)
        )
    return "".join(lines)


def call(*words: str) -> Result:
    return CliRunner().invoke(plan_command, list(words), standalone_mode=False)


def test_each_profile_is_one_that_the_option_names_and_says_where_values_are_from() -> None:
    told = next(param for param in plan_command.params if param.name == "costs_name").help or ""  # type: ignore[attr-defined]
    for name in model.profiles():
        costs = model.load(name)
        assert costs.name == name and name in told
        for key in costs.cost:
            if key not in ("base_us", "most_chunk_bytes"):
                assert f"cost.{key}" in costs.sources


def test_the_lab_is_what_the_planner_has_without_costs() -> None:
    nodes = tuple(replace(node, ranks=(index,)) for index, node in enumerate(nodes_of(4)))
    lost = (replace(nodes[0], nics=nodes[0].nics[1:]), *nodes[1:])
    assert plan(Request(lost, 1 << 20)) == plan(Request(lost, 1 << 20, cost=model.load("lab").cost))


@pytest.mark.parametrize(
    ("rate_gbit", "gpus", "name"), [(0.2, 1, "lab"), (100, 8, "roce-100g"), (400, 1, "ib-400g"), (400, 8, "nvlink")]
)
def test_without_a_word_costs_go_by_rate_and_gpus(rate_gbit: float, gpus: int, name: str) -> None:
    assert model.usual(rate_gbit, gpus).name == name


@pytest.mark.parametrize(
    ("count", "size", "least_us", "most_us"),
    [(64, 1 << 30, 5300, 6200), (248, 512 << 20, 3100 * 0.85, 3100 * 1.15)],
    ids=["64 nodes", "248 H200 nodes as published: 3.1 ms"],
)
def test_large_clusters(count: int, size: int, least_us: float, most_us: float) -> None:
    words = ("--nodes", str(count), "--nics", "8", "--gpus", "8", "--rate", "400", "--bytes", str(size))
    made = json.loads(_printed(*words, "--json"))
    assert least_us <= made["healthy_us"] <= most_us
    assert made["nccl_runs"] == "nvlstree/simple"
    assert made["predicted_us"] == made["healthy_us"]


def _printed(*words: str) -> str:
    runner = CliRunner()
    done = runner.invoke(plan_command, list(words))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done.stdout


def test_rows_of_two_node_counts_foretell_a_third(tmp_path: Path) -> None:
    files = []
    for count in (4, 16):
        files.append(tmp_path / f"rows-{count}.txt")
        files[-1].write_text(text_of(count, seed=count))
    out = tmp_path / "ours.json"
    told = _printed("calibrate", *map(str, files), "--nics", "8", "--rate", "400", "--name", "ours", "--out", str(out))
    costs = model.load(out)
    assert "44 of 44 rows on 4, 16 nodes" in told
    assert costs.fitted is not None and costs.fitted.mean_error < NOISE
    for power in (12, 20, 28, 33):
        foretold, true = (healthy(each, 64, 1 << power).healthy_us for each in (costs, there()))
        assert foretold == pytest.approx(true, rel=0.15)
        shipped = healthy(model.load("nvlink"), 64, 1 << power).healthy_us
        assert abs(foretold / true - 1) < abs(shipped / true - 1) or abs(shipped / true - 1) < NOISE
    assert costs.sources["nccl.nvls_tree.hop_us"].basis == "measured"


def test_json_rows_say_what_nccl_chose(tmp_path: Path) -> None:
    devices = [{"rank": rank, "hostname": f"node{rank // 2}"} for rank in range(8)]
    timed = {"time": 100.0, "alg_bw": 1.0, "bus_bw": 1.5, "nwrong": 0}
    row = {"size": 4096, "count": 1024, "type": "float", "redop": "sum", "root": "-1", "out_of_place": timed}
    rows = [{**row, "tuning": {"algo": "TREE", "proto": "LL"}}]
    file = tmp_path / "rows.json"
    file.write_text(
        json.dumps({"args": ["./all_reduce_perf"], "config": {"devices": devices}, "results": rows, "end_time": "x"})
    )
    assert measured.read(file, None, "") == [Measured(4, 2, 4096, 100.0, "tree/ll")]


def table(ranks: int, nodes: int, cells: dict[str, tuple[float, float]]) -> str:
    """As NCCL prints it: three algorithms a block, three protocols each, the last of them Simple."""
    names = [*cells, *["CollNetDirect"] * (-len(cells) % 3)]
    lines = [f"n0:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks {ranks} nNodes {nodes} localRanks {ranks // nodes}"]
    for first in range(0, len(names), 3):
        block = names[first : first + 3]
        lines.append(
            "n0:1:1 [0] NCCL INFO   Algorithm   |" + "".join(f" {'':14}   {name:14}   {'':14} |" for name in block)
        )
        pairs = [pair for name in block for pair in ((1.0, 0.5), (1.0, 0.5), cells.get(name, (0.0, 0.0)))]
        lines.append("n0:1:1 [0] NCCL INFO     AllReduce |" + "".join(f"{us:8.1f}/{bw:6.1f} |" for us, bw in pairs))
    return "\n".join(lines)


def test_the_table_that_nccl_prints_at_its_start(tmp_path: Path) -> None:
    rows = []
    for nodes in (4, 16):
        file = tmp_path / f"init-{nodes}.log"
        known = {each.name: each for each in healthy(there(), nodes, 1).baselines or ()}
        large = {each.name: each for each in healthy(there(), nodes, 1 << 36).baselines or ()}
        cells = {
            shown: (known[name].healthy_us, (1 << 36) / 1e3 / (large[name].healthy_us - known[name].healthy_us))
            for shown, name in (("Tree", "tree/simple"), ("Ring", "ring/simple"), ("NVLSTree", "nvlstree/simple"))
        }
        file.write_text(table(nodes * GPUS, nodes, cells))
        rows += measured.read(file, None, "")
    assert {row.way for row in rows} == {"tree/simple", "ring/simple", "nvlstree/simple"}
    found = fit.fit(rows, model.load("nvlink"), NODES, "x", "the table")
    for power in (10, 20, 30):
        assert healthy(found.costs, 64, 1 << power).healthy_us == pytest.approx(
            healthy(there(), 64, 1 << power).healthy_us, rel=0.1
        )


def test_rows_without_a_list_of_devices_have_their_ranks_in_the_bandwidths(tmp_path: Path) -> None:
    file = tmp_path / "rows.txt"
    row = FORM.format(size=1 << 30, count=1 << 28, us=10000, alg=107.37, bus=107.37 * 2 * 31 / 32)
    file.write_text(HEAD + row)
    assert measured.read(file, 8, "ring") == [Measured(4, 8, 1 << 30, 10000.0, "ring")]
    with pytest.raises(UsageError, match="does not say how many nodes") as caught:
        measured.read(file, None, "")
    assert "--gpus" in str(caught.value)
    file.write_text(HEAD + FORM.format(size=1 << 10, count=1 << 8, us=100, alg=0.01, bus=0.01))
    with pytest.raises(UsageError, match="does not say how many nodes") as caught:
        measured.read(file, 8, "")
    assert "--gpus" not in str(caught.value)


def test_a_rate_that_the_rows_cannot_have_is_said(tmp_path: Path) -> None:
    rows = []
    for nodes in (4, 16):
        file = tmp_path / f"rows-{nodes}.txt"
        file.write_text(text_of(nodes, nodes))
        rows += measured.read(file, None, "ring")
    with pytest.raises(UsageError, match=r"the rows do not fit nodes with 8 NICs of 40 Gbit/s: .*efficiency"):
        fit.fit(rows, model.load("nvlink"), fit.Nodes(8, 40.0), "x", "rows")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no all-reduces"),
        ("# Collective test starting: all_gather_perf\n" + HEAD, "rows of all_gather_perf"),
        ('{"args": ["x/sendrecv_perf"]}', "rows of sendrecv_perf"),
        ("{", "has no all-reduces"),
    ],
)
def test_what_has_no_all_reduces_is_told(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "rows.txt"
    file.write_text(text)
    with pytest.raises(UsageError, match=said):
        measured.read(file, 8, "")


def test_one_number_of_nodes_tells_no_hops_from_bytes() -> None:
    rows = [Measured(count, 8, 1 << power, 100.0) for count in (2, 4) for power in (10, 20)]
    with pytest.raises(UsageError, match="there are of 2, 4"):
        fit.fit(rows, model.load("nvlink"), NODES, "x", "y")


def test_bad_files_are_told(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    for text, said in (
        ("{", "is no JSON"),
        ('{"schema": 1, "name": "x", "title": "", "cost": {"hop_us": -1}}', "hop_us"),
    ):
        bad.write_text(text)
        model._read.cache_clear()
        with pytest.raises(UsageError, match=said):
            model.load(bad)
    with pytest.raises(UsageError, match="ib-400g, lab, nvlink, roce-100g"):
        model.load("nope")
    done = call("--nodes", "4", "--costs", "lab", "--nccl", "hopper")
    assert isinstance(done.exception, UsageError)
