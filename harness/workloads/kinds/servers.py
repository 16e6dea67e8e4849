"""Servers of inference: their command lines on each of several hosts. Pure.

vLLM: `vllm serve`, several hosts by its own processes (`--nnodes`, `--node-rank`, `--headless`). SGLang:
`sglang.launch_server` (`--dist-init-addr`). Ours on transformers: harness/workloads/inference/transformers_server.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.workloads.inference import completions
from harness.workloads.kinds.workload import Place

FOLDER = "inference"
"""Beside the ranks of workloads on torch."""
TOKENS: Mapping[str, str] = {"vllm": completions.ALL, "sglang": completions.WITH_TEXT}
"""Which chunks each server's own benchmark takes for tokens."""


@dataclass(frozen=True)
class Served:
    """What is served; `parallel`: over how many GPUs a layer is divided."""

    model: str
    port: int
    parallel: int
    args: Sequence[str] = ()


def vllm(place: Place, served: Served) -> list[str]:
    """A process a host; those but the first have no HTTP."""
    rank, (address, _, port) = place.rank or 0, place.root.rpartition(":")
    several = ["--distributed-executor-backend", "mp", "--nnodes", f"{place.ranks}", "--node-rank", f"{rank}"]
    several += ["--master-addr", address, "--master-port", port, *(["--headless"] if rank else [])]
    words = ["--tensor-parallel-size", f"{served.parallel}", "--host", "127.0.0.1", "--port", f"{served.port}"]
    return ["vllm", "serve", served.model, *words, *(several if place.ranks > 1 else []), *served.args]


def vllm_env(place: Place) -> Mapping[str, str]:
    """vLLM opens an NCCL of its own besides torch's, which has to be told."""
    return {"VLLM_NCCL_SO_PATH": str(place.programs.nccl)}


def sglang(place: Place, served: Served) -> list[str]:
    several = ["--dist-init-addr", place.root, "--nnodes", f"{place.ranks}", "--node-rank", f"{place.rank or 0}"]
    words = ["--model-path", served.model, "--tp", f"{served.parallel}", "--host", "127.0.0.1", "--port"]
    words += [f"{served.port}", *(several if place.ranks > 1 else []), *served.args]
    return [place.programs.python, "-m", "sglang.launch_server", *words]


def transformers(place: Place, served: Served) -> list[str]:
    """A process a rank, as torchrun starts them."""
    program = place.programs.rank.parent / FOLDER / "transformers_server.py"
    model = ["--model", served.model] if served.model else []
    return [place.programs.python, str(program), "--port", f"{served.port}", *model, *served.args]
