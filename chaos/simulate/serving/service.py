"""What is served, on which hosts, and what counts as good enough."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from chaos.simulate.serving.llms import Llm
from chaos.simulate.serving.load import MIXES, Length
from harness.errors import InputErrors

GB = 1e9


@dataclass(frozen=True, slots=True)
class Slo:
    """What a request must keep: time to the first token, and mean time a token after it."""

    ttft_ms: float = 2000.0
    tpot_ms: float = 100.0


@dataclass(frozen=True)
class Service:
    """`instances` copies of the model, each of `tp` x `pp` GPUs, on hosts from 0 on; hosts beyond them are spares.

    `prefills`: so many of the instances only prefill, and hand KV caches over NICs to the others; 0: all do both.
    `budget`: tokens of a step at most, prompts in pieces beside decoding (Sarathi-Serve, OSDI'24)."""

    llm: Llm
    topology: Any
    tp: int = 8
    pp: int = 1
    instances: int = 1
    prefills: int = 0
    requests: int = 10_000
    rate: float = 1.0
    prompt: Length = MIXES["conversation"].prompt
    output: Length = MIXES["conversation"].output
    max_batch: int = 256
    budget: int = 2048
    queue: int | None = None
    """Requests that wait at one instance at most; who finds more is rejected. None: no limit."""
    slo: Slo = field(default_factory=Slo)

    @property
    def gpus(self) -> int:
        return self.tp * self.pp

    @cached_property
    def hosts_each(self) -> int:
        """0 where an instance is a part of a host."""
        local = int(self.topology.gpus)
        return self.gpus // local if self.gpus >= local else 0

    @property
    def hosts(self) -> int:
        return -(-self.instances * self.gpus // int(self.topology.gpus))

    def hosts_of(self, instance: int) -> tuple[int, ...]:
        """By stage, and in it by rank."""
        if not self.hosts_each:
            return (instance * self.gpus // self.topology.gpus,)
        return tuple(range(instance * self.hosts_each, (instance + 1) * self.hosts_each))

    @property
    def tp_hosts(self) -> int:
        """Hosts over which one stage's AllReduces go; 1: they stay inside."""
        return max(1, self.tp // int(self.topology.gpus))

    @property
    def pp_crosses(self) -> bool:
        return self.pp > 1 and self.gpus > self.topology.gpus

    @property
    def on_nics(self) -> bool:
        """Whether instances need NICs at all to go on."""
        return self.tp_hosts > 1 or self.pp_crosses or self.prefills > 0

    def role(self, instance: int) -> str:
        if not self.prefills:
            return "both"
        return "prefill" if instance < self.prefills else "decode"

    def capacity(self, params: Any) -> int:
        """Tokens of KV cache that an instance holds. Below 1: the weights do not fit."""
        room = self.gpus * params.hbm_GB.value * GB * params.hbm_share.value - self.llm.weight_bytes
        return int(room // self.llm.kv_bytes)


def problems(service: Service, params: Any) -> Iterator[tuple[str, str]]:
    """(key, what) for everything that does not fit."""
    local, have = service.topology.gpus, service.topology.hosts
    for key in ("tp", "pp", "instances", "requests", "max_batch"):
        if getattr(service, key) < 1:
            yield key, "at least 1 is needed"
            return
    if not service.rate > 0:
        yield "rate", "requests a second, above 0"
    if max(service.tp, local) % min(service.tp, local):
        yield "tp", f"{service.tp} GPUs are no whole part and no multiple of a host's {local}"
    elif max(service.gpus, local) % min(service.gpus, local):
        yield "pp", f"an instance's {service.gpus} GPUs are no whole part and no multiple of a host's {local}"
    if service.hosts > have:
        yield "instances", f"{service.hosts} hosts are needed, and the topology has {have}"
    if service.prefills and not 0 < service.prefills < service.instances:
        yield "prefills", f"of {service.instances} instances some must prefill and some decode"
    if service.budget <= service.max_batch:
        yield "budget", f"more than max_batch ({service.max_batch}) tokens are needed, or prompts may starve"
    if service.capacity(params) < 1:
        need = service.llm.weight_bytes / GB
        yield "tp", f"{service.gpus} GPUs do not hold the {need:.0f} GB of {service.llm.name}"


def check(service: Service, params: Any) -> None:
    """Raises InputErrors with all that is wrong."""
    if errors := [f"{key}: {text}" for key, text in problems(service, params)]:
        raise InputErrors(errors)
