"""A server of inference and requests to it; what runs is in harness/workloads/inference."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, StrictInt, StrictStr, model_validator

from harness.workloads.inference import completions
from harness.workloads.kinds import servers
from harness.workloads.kinds.program import Program
from harness.workloads.kinds.workload import Count, Place, Seconds, Small16
from harness.workloads.reading.lines import LineReader
from harness.workloads.reading.served import ServedLines

Length = Small16 | tuple[Small16, Small16]
"""In tokens; two: drawn evenly between them."""
WHOLE_HOSTS = ("vllm", "sglang")
"""Servers with one process a host, which starts what it needs for its GPUs."""


class Inference(Program):
    """An iteration is a request, numbered in the order in which they are sent: the same in every arm."""

    about = "A server of inference (vLLM, SGLang, transformers, or yours) and requests to it; time to first token."
    example: ClassVar[Mapping[str, Any]] = {}
    kind: Literal["inference"]
    server: Literal["transformers", "vllm", "sglang", "command"] = "transformers"
    model: StrictStr = ""
    """A name or a folder. transformers can do without: a small Llama with random weights."""
    argv: tuple[StrictStr, ...] = ()
    """`server: command`: the program. It serves OpenAI's `/v1/models` and `/v1/completions` on 127.0.0.1 of rank 0."""
    args: tuple[StrictStr, ...] = ()
    """More arguments of the server."""
    port: Annotated[StrictInt, Field(ge=1024, le=65535)] = 8000
    iterations: Count = 100
    """How many requests there are."""
    rate: Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)] = 4.0
    """Requests a second, on average. They come at random (Poisson), by the experiment's seed, and wait for nobody."""
    prompt_tokens: Length = 64
    output_tokens: Length = 32
    vocabulary: Annotated[StrictInt, Field(ge=16, le=10_000_000)] = 1000
    """Prompts are random tokens below it."""
    timeout_s: Seconds = 20.0
    """How long a whole answer may take; later the request has failed."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.server == "command") != bool(self.argv):
            raise ValueError("argv is the program of server: command, and needed there")
        if self.server in WHOLE_HOSTS and not self.model:
            raise ValueError(f"server: {self.server} needs a model")
        for name in ("prompt_tokens", "output_tokens"):
            least, most = _both(getattr(self, name))
            if least > most:
                raise ValueError(f"{name}: the smaller length comes first")
        return self

    def problems(self, hosts: int) -> Iterator[tuple[str, str]]:
        yield from super().problems(hosts)
        if self.server in WHOLE_HOSTS and self.ranks_per_host > 1:
            yield "ranks_per_host", f"{self.server} is one process a host: say gpus_per_rank"

    def command(self, place: Place) -> list[str]:
        keeper = place.programs.rank.parent / servers.FOLDER / "keeper.py"
        options: dict[str, object] = {
            "--ranks": place.ranks,
            "--root": place.root,
            "--load": json.dumps(self._load(place.seed), sort_keys=True),
        }
        words = [str(word) for option in options.items() for word in option]
        return self.started(place, [place.programs.python, str(keeper), *words, *self._servers(place)])

    def _servers(self, place: Place) -> list[str]:
        """One command where it is the same for all ranks: a launcher starts all of them alike."""
        every = [list(self._server(replace(place, rank=rank))) for rank in range(place.ranks)]
        if every.count(every[0]) == len(every):
            return ["--", *every[0]]
        return ["--each", *(word for argv in every for word in ("--", *argv))]

    def _load(self, seed: int) -> dict[str, object]:
        return {
            "requests": self.iterations,
            "warmup": self.warmup,
            "rate": self.rate,
            "prompt_tokens": _both(self.prompt_tokens),
            "output_tokens": _both(self.output_tokens),
            "vocabulary": self.vocabulary,
            "seed": seed,
            "seconds": self.seconds,
            "request_s": self.timeout_s,
            "start_s": 0.9 * self.start_s,  # it says more than whoever waits for it
            "port": self.port,
            "tokens": servers.TOKENS.get(self.server, completions.USUAL),
        }

    def _server(self, place: Place) -> Sequence[str]:
        parallel = place.ranks * max(1, self.gpus_per_rank)
        served = servers.Served(self.model, self.port, parallel, self.args)
        if self.server == "command":
            return [*self.argv, *self.args]
        known = {"vllm": servers.vllm, "sglang": servers.sglang, "transformers": servers.transformers}
        return known[self.server](place, served)

    def rank_env(self, base: Mapping[str, str], place: Place) -> dict[str, str]:
        own = servers.vllm_env(place) if self.server == "vllm" and self.preload == "nccl" else {}
        return super().rank_env({**base, "PORT": f"{self.port}", **own}, place)

    def reader(self, rank: int, ranks: int) -> LineReader:
        return ServedLines(rank)


def _both(length: int | tuple[int, int]) -> tuple[int, int]:
    return (length, length) if isinstance(length, int) else length
