"""The language models that are served: what a token costs in operations, in memory traffic and in KV cache."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import UsageError

ELEMENT_BYTES = 2


@dataclass(frozen=True, slots=True)
class Llm:
    """A dense decoder in 16 bits. `kv_heads` below `heads`: grouped queries."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    parameters: float
    source: str

    @property
    def weight_bytes(self) -> float:
        return self.parameters * ELEMENT_BYTES

    @property
    def kv_bytes(self) -> float:
        """Of one token: a key and a value of every layer."""
        return 2.0 * self.layers * self.kv_heads * (self.hidden / self.heads) * ELEMENT_BYTES

    @property
    def token_flops(self) -> float:
        """Of one token, but for attention: two a parameter (Kaplan et al. 2020, section 2.1)."""
        return 2.0 * self.parameters

    @property
    def context_flops(self) -> float:
        """Of attention, a token and a token of its context: QK and AV, two operations each, h wide, in every layer."""
        return 4.0 * self.layers * self.hidden

    @property
    def row_bytes(self) -> float:
        """Activations of one token between layers."""
        return float(self.hidden * ELEMENT_BYTES)


LLAMA = "Llama Team 2024 (arXiv 2407.21783), table 3"
LLMS = {
    llm.name: llm
    for llm in (
        Llm("llama-3.1-8b", 32, 4096, 32, 8, 8.03e9, LLAMA),
        Llm("llama-3.1-70b", 80, 8192, 64, 8, 70.6e9, LLAMA),
        Llm("llama-3.1-405b", 126, 16384, 128, 8, 405.9e9, LLAMA),
        Llm("opt-66b", 64, 9216, 72, 72, 65.7e9, "Zhang et al. 2022 (arXiv 2205.01068), table 1"),
        Llm("bloom-176b", 70, 14336, 112, 112, 176.2e9, "BigScience 2022 (arXiv 2211.05100), table 3"),
    )
}


def llm(name: str) -> Llm:
    """Raises UsageError for one that is not there."""
    if name not in LLMS:
        raise UsageError(f"there is no model {name} to serve", f"one of {', '.join(LLMS)}")
    return LLMS[name]
