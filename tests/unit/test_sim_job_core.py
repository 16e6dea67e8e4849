"""Jobs and iterations on the compiled core, with generated faults: the claims of docs/internals/simulation-jobs.md."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.simulate.cluster.topology import Topology
from chaos.simulate.cluster.topology_files import load
from chaos.simulate.core.solver import Solver
from chaos.simulate.faults.generators import generate
from chaos.simulate.faults.timeline import timeline
from chaos.simulate.jobs.job import Job, prepared, simulate
from chaos.simulate.params import load as parameters
from chaos.simulate.training.iteration import Training
from chaos.simulate.training.layout import default_layout
from chaos.simulate.training.models import MODELS
from harness.build import build_net
from harness.progress import silent

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from simulated.overhead import PAPER_TRAINING, curve

pytestmark = [pytest.mark.build, pytest.mark.timeout(400)]
PARAMS = parameters()


@pytest.fixture(scope="module", autouse=True)
def _library() -> Iterator[None]:
    """Built already in `make test`; from nothing otherwise."""
    build_net(progress=silent)
    yield


def cluster(gpus: int) -> Topology:
    return load({"hosts": gpus // 8, "fabric": {"kind": "rail", "pod": min(64, gpus // 8)}})


@pytest.mark.parametrize(("name", "gpus"), [("gpt-7b", 64), ("gpt-13b", 64), ("gpt-175b", 256), ("gpt-175b", 1024)])
def test_a_nic_gone_costs_less_than_the_papers_percent(name: str, gpus: int) -> None:
    topology = cluster(gpus)
    made = Training(MODELS[name], default_layout(MODELS[name], gpus), topology, Solver(topology, PARAMS), PARAMS)
    schedules, balance, migrate = curve(made, ["allreduce", "balance", "migrate"], [1], "host")
    assert schedules.overhead <= balance.overhead < PAPER_TRAINING
    assert balance.overhead < migrate.overhead


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("gpus", [64, 256, 1024])
def test_no_overhead_is_nought_where_the_collective_is_slower(name: str, gpus: int) -> None:
    """What is floored is what is no slower than healthy, and nothing else: each group by the solver's own answer."""
    topology, layout = cluster(gpus), default_layout(MODELS[name], gpus)
    solver = Solver(topology, PARAMS)
    made = Training(MODELS[name], layout, topology, solver, PARAMS)
    place, healthy = made.placement, made.iteration("stock")
    if layout.dp == 1:
        return
    grads = int(MODELS[name].parameters / (layout.tp * layout.pp) * PARAMS.gradient_bytes.value)
    for lost in (1, 4):
        left = (0.0,) * lost + (1.0,) * (topology.nics - lost)
        nodes = (left,) + ((1.0,) * topology.nics,) * (place.nodes - 1)
        for arm in ("balance", "allreduce", "optcc"):
            found = solver.collective("allreduce", grads, nodes, arm, ranks_per_node=place.ranks, groups=place.groups)
            slower_s = found.time_us / 1e6 - healthy.dp_s
            iteration = made.iteration(arm, ((0, left),))
            assert iteration.floored == (slower_s < 0), (arm, lost)
            least = max(0.0, slower_s) * (1 - PARAMS.dp_overlap.value) / healthy.total_s
            assert made.overhead(arm, ((0, left),)) >= least * (1 - 1e-9), (arm, lost)


def test_a_month_of_generated_faults() -> None:
    topology = cluster(1024)
    solver = Solver(topology, PARAMS)
    job = Job(MODELS["gpt-175b"], default_layout(MODELS["gpt-175b"], 1024), topology)
    found = {name: [0.0, 0.0] for name in ("stock", "migrate", "balance", "allreduce")}
    for index in range(8):
        trace = generate(topology, PARAMS, days=30, seed=3, index=index)
        ready = prepared(job, timeline(trace, topology), solver, PARAMS)
        for name, sums in found.items():
            result = simulate(job, name, ready, solver, PARAMS)
            sums[0] += result.gpu_hours_lost
            sums[1] += result.restarts
    lost = [sums[0] for sums in found.values()]
    assert lost == sorted(lost, reverse=True)
    assert lost[-1] < lost[0] / 20
    assert found["stock"][1] > 0
    assert found["migrate"][1] == found["balance"][1] == found["allreduce"][1] == 0
