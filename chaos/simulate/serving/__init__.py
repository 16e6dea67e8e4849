"""Serving of language models: prefill and decode on instances over several hosts, while NICs fail.

Modelled, never measured. docs/internals/simulation-serving.md says what is assumed."""

from chaos.simulate.serving.llms import LLMS, Llm, llm
from chaos.simulate.serving.load import MIXES, Length, draw, mix
from chaos.simulate.serving.pace import Paces
from chaos.simulate.serving.result import ServingResult, overhead, recovery_s
from chaos.simulate.serving.service import Service, Slo, check, problems
from chaos.simulate.serving.simulation import simulate

__all__ = [
    "LLMS", "MIXES", "Length", "Llm", "Paces", "Service", "ServingResult", "Slo", "check", "draw", "llm", "mix",
    "overhead", "problems", "recovery_s", "simulate",
]  # fmt: skip
