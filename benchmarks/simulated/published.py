"""Iteration times that others published, beside what the model says of the same runs: how far it can be trusted.

Two values are fitted, one a generation of GPUs: `kernel_efficiency`, to the runs marked so. All else is given: how the
error changes with model, layout and size is what these rows test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.simulate.training.iteration import Training
from chaos.simulate.training.layout import Layout
from chaos.simulate.training.models import MODELS, Model

A100_TFLOPS, H100_TFLOPS = 312.0, 989.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Hosts of eight GPUs, each with its own NIC. NVLink: bytes a second of a GPU, one way."""

    hosts: int
    rate_gbit: float
    nvlink_GBps: float


@dataclass(frozen=True, slots=True)
class Run:
    name: str
    model: Model
    layout: Layout
    cluster: Cluster
    iteration_s: float
    source: str
    fitted: bool = False
    params: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Compared:
    run: Run
    modelled_s: float

    @property
    def error(self) -> float:
        return self.modelled_s / self.run.iteration_s - 1


SC21 = "Narayanan et al., SC'21 (arXiv 2104.04473)"
# SC21, TABLE_1 and KORTHIKANTI: quoted from memory of the papers, to be checked against them.
KORTHIKANTI = "Korthikanti et al., MLSys'23 (arXiv 2205.05198), table 5"
MEGASCALE = "Jiang et al., NSDI'24 (arXiv 2402.15627): Megatron-LM at MegaScale's 55.2 % MFU / 1.34"
MCORE = "Megatron-LM, README.md (2024): strong scaling of GPT-3 with batch 1,152, MFU 47 % to 42 %; layouts are ours"
LLAMA = "Balaji, SC'24 (Llama 3 405B, 16 M tokens, tp 8, pp 16)"
A100_PARAMS = {"gpu_tflops": A100_TFLOPS, "kernel_efficiency": 0.56, "dp_overlap": 0.0, "tp_overlap": 0.0}
RECOMPUTED = {**A100_PARAMS, "recompute": 1.0}
TABLE_1 = (
    ("7.5B", (36, 4096, 32), (4, 1), 128, 512, 135),
    ("18.4B", (40, 6144, 48), (8, 1), 256, 1024, 135),
    ("39.1B", (48, 8192, 64), (8, 2), 512, 1536, 138),
    ("76.1B", (60, 10240, 80), (8, 4), 1024, 1792, 140),
    ("145.6B", (80, 12288, 96), (8, 8), 1536, 2304, 148),
)
"""SC'21, table 1: (layers, hidden, heads), (tp, pp), GPUs, batch, TFLOP/s a GPU."""


def runs() -> Iterator[Run]:
    yield from _a100()
    yield from _h100()


def compared(
    make: Callable[[Cluster], tuple[Any, Any]], params: Callable[[Mapping[str, float]], Any]
) -> list[Compared]:
    """`make` gives a topology and its solver, `params` the parameters with some changed."""
    return [_compared(run, make, params) for run in runs()]


def _compared(
    run: Run, make: Callable[[Cluster], tuple[Any, Any]], params: Callable[[Mapping[str, float]], Any]
) -> Compared:
    topology, solver = make(run.cluster)
    training = Training(run.model, run.layout, topology, solver, params(run.params))
    return Compared(run, training.iteration("stock").total_s)


def recomputed_flops(model: Model, batch: int) -> float:
    """96 B s l h^2 (1 + s/(6h) + V/(16 l h)): SC'21, equation 3, by which its TFLOP/s are counted."""
    layers, hidden, sequence = model.layers, model.hidden, model.sequence
    rest = 1 + sequence / (6 * hidden) + model.vocabulary / (16 * layers * hidden)
    return 96 * batch * sequence * layers * hidden**2 * rest


def _a100() -> Iterator[Run]:
    gpt = MODELS["gpt-175b"]
    small = Layout(1, 8, 8, 64, interleave=3)
    yield Run("175B, 64 A100", gpt, small, _a100s(64), 13.75, KORTHIKANTI, True, A100_PARAMS)
    yield Run("175B, 64 A100, recomputed", gpt, small, _a100s(64), 18.13, KORTHIKANTI, True, RECOMPUTED)
    for name, (layers, hidden, heads), (tp, pp), gpus, batch, tflops in TABLE_1:
        model = Model(name, layers, hidden, heads, 2048, batch, 51200, SC21)
        took_s = recomputed_flops(model, batch) / (gpus * tflops * 1e12)
        layout = Layout(gpus // (tp * pp), tp, pp, batch)
        yield Run(f"{name}, {gpus} A100", model, layout, _a100s(gpus), took_s, SC21 + ", table 1", True, RECOMPUTED)
    took_s = recomputed_flops(gpt, 1536) / (1024 * 140e12)
    layout = Layout(16, 8, 8, 1536)
    yield Run("175B, 1,024 A100", gpt, layout, _a100s(1024), took_s, SC21 + ", section 5.1", False, RECOMPUTED)
    took_s = gpt.flops(6144) / (12288 * A100_TFLOPS * 1e12 * 0.552 / 1.34)
    layout = Layout(192, 8, 8, 6144, interleave=6)
    yield Run("175B, 12,288 A100", gpt, layout, _a100s(12288), took_s, MEGASCALE, False, A100_PARAMS)


def _h100() -> Iterator[Run]:
    base = MODELS["gpt-175b"]
    gpt = Model("gpt-175b, larger vocabulary", base.layers, base.hidden, base.heads, 2048, 1152, 131072, MCORE)
    for gpus, pp, mfu, fitted in ((96, 12, 0.47, True), (4608, 6, 0.42, False)):
        layout = Layout(gpus // (8 * pp), 8, pp, 1152, interleave=4)
        took_s = gpt.flops(1152) / (gpus * H100_TFLOPS * 1e12 * mfu)
        yield Run(f"175B, {gpus:,} H100", gpt, layout, _h100s(gpus), took_s, MCORE, fitted)
    llama = Model("llama-405b", 128, 16384, 128, 8192, 2048, 128256, LLAMA, known_parameters=405e9)
    for gpus, tflops in ((8192, 430), (16384, 400)):
        layout = Layout(gpus // 128, 8, 16, 2048, interleave=8)
        took_s = llama.flops(2048) / (gpus * tflops * 1e12)
        yield Run(f"405B, {gpus:,} H100", llama, layout, _h100s(gpus), took_s, LLAMA)


def _a100s(gpus: int) -> Cluster:
    return Cluster(gpus // 8, 200.0, 300.0)


def _h100s(gpus: int) -> Cluster:
    return Cluster(gpus // 8, 400.0, 450.0)
