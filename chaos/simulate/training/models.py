"""The language models that are trained, and how many floating-point operations they take."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import UsageError


@dataclass(frozen=True, slots=True)
class Model:
    """A GPT-3-like decoder. `batch`: sequences of an iteration, all GPUs together, as published.

    `known_parameters`: of a model that is not quite GPT-like (other MLP, grouped queries), instead of the formula."""

    name: str
    layers: int
    hidden: int
    heads: int
    sequence: int
    batch: int
    vocabulary: int
    source: str
    known_parameters: float | None = None

    @property
    def parameters(self) -> float:
        """12 l h^2 (1 + 13/(12h) + (V+s)/(12 l h)): Narayanan et al., SC'21, equation 2."""
        if self.known_parameters is not None:
            return self.known_parameters
        layers, hidden = self.layers, self.hidden
        embedding = (self.vocabulary + self.sequence) / (12 * layers * hidden)
        return 12 * layers * hidden**2 * (1 + 13 / (12 * hidden) + embedding)

    def flops(self, batch: int) -> float:
        """Of one iteration without recomputation: 6 N for each token, and attention's 12 l h s.

        For GPT this is 72 B s l h^2 (1 + s/(6h) + V/(12 l h)) to 0.1 %: Korthikanti et al. 2022, equation 7."""
        tokens = batch * self.sequence
        return tokens * (6 * self.parameters + 12 * self.layers * self.hidden * self.sequence)

    def activation_bytes(self, micro_batch: int) -> float:
        """What goes from a layer to the next for one microbatch: b s h elements of 16 bits (SC'21, section 3.2)."""
        return float(micro_batch * self.sequence * self.hidden * 2)


GPT3 = "Brown et al. 2020, table 2.1; vocabulary padded to 51,200 as in Narayanan et al., SC'21"
MODELS = {
    model.name: model
    for model in (
        Model("gpt-7b", 32, 4096, 32, 2048, 1024, 51200, GPT3 + " (GPT-3 6.7B, 2 M tokens)"),
        Model("gpt-13b", 40, 5120, 40, 2048, 1024, 51200, GPT3 + " (GPT-3 13B, hidden 5,120 as it divides by 40)"),
        Model("gpt-175b", 96, 12288, 96, 2048, 1536, 51200, GPT3 + " (batch 1,536 as SC'21, section 5.1)"),
    )
}


def model(name: str) -> Model:
    """Raises UsageError for one that is not there."""
    if name not in MODELS:
        raise UsageError(f"there is no model {name}", f"one of {', '.join(MODELS)}")
    return MODELS[name]
