"""How long a step of an instance takes: the roofline, and communication on what is left of the NICs.

A step advances every request that decodes by a token and prefills pieces of prompts beside them. With pipeline stages
the batch is that many microbatches, one a stage: a step is their whole round, each stage works all the time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from chaos.simulate.cluster.arms import Arm, arm, runs_with, traffic_share
from chaos.simulate.serving.service import GB, Service

Capacities = tuple[float, ...]
REDUCES_A_LAYER = 2
"""AllReduces of tensor parallelism, forward: after attention and after the MLP (Shoeybi et al. 2019, section 3)."""


@dataclass(slots=True)
class Pace:
    """step = max(flops, traffic) x `factor` + communication, at least `least_s` a token (KV streams to a peer).

    Both lines are linear in the tokens of the step and in `context`, the tokens in the cache that it reads."""

    token_s: float
    context_s: float
    weights_s: float
    read_s: float
    sizes: Sequence[int]
    comm_s: Sequence[float]
    factor: float = 1.0
    least_s: float = 0.0
    _known: dict[int, float] = field(default_factory=dict)

    def fixed_s(self, tokens: int) -> float:
        """Communication of a step, between the sizes that were solved."""
        found = self._known.get(tokens)
        if found is None:
            place = min(max(bisect_left(self.sizes, tokens), 1), len(self.sizes) - 1)
            low, high = self.sizes[place - 1], self.sizes[place]
            slope = (self.comm_s[place] - self.comm_s[place - 1]) / (high - low)
            found = self._known[tokens] = self.comm_s[place - 1] + slope * (tokens - low)
        return found

    def step_s(self, tokens: int, flops_context: float, context: float) -> float:
        """`flops_context`: token x context pairs. `context`: cached tokens that are read."""
        busy = max(self.token_s * tokens + self.context_s * flops_context, self.weights_s + self.read_s * context)
        return max(busy * self.factor + self.fixed_s(tokens), self.least_s * tokens)

    def decode_s(self, batch: int, context: float, steps: int) -> float:
        """`steps` steps of decoding, the first with `context`, each with `batch` more than the one before."""
        fixed = self.fixed_s(batch)
        base, least = self.token_s * batch, self.least_s * batch - fixed
        total = lines_s(
            (
                (base * self.factor, self.context_s * self.factor),
                (self.weights_s * self.factor, self.read_s * self.factor),
                (least, 0.0),
            ),
            context,
            batch,
            steps,
        )
        return total + fixed * steps


def lines_s(lines: Sequence[tuple[float, float]], start: float, step: float, count: int) -> float:
    """Sum over j < count of the highest of the lines (value at 0, slope) at start + j step. Slopes are not negative.

    The highest of lines is convex: walk from one to the next that crosses it, by slope."""
    done, total = 0, 0.0
    while done < count:
        at = start + done * step
        base, slope = max(lines, key=lambda line: (line[0] + line[1] * at, line[1]))
        last = count
        for other, rise in lines:
            if rise > slope:
                crosses = (base - other) / (rise - slope)
                if crosses < start + last * step:
                    last = max(int((crosses - start) // step) + 1, done + 1)
        some = last - done
        total += some * (base + slope * at) + slope * step * (some * (some - 1) / 2)
        done = last
    return total


class Paces:
    """Of a service with one solver. Remembers what it made, by arm and what each of an instance's hosts has left."""

    def __init__(self, service: Service, solver: Any, params: Any) -> None:
        self.service, self.solver, self.params = service, solver, params
        self._known: dict[tuple[str, tuple[Capacities, ...]], Pace | None] = {}
        self.whole: Capacities = (1.0,) * service.topology.nics
        self.sizes = [1 << power for power in range(max(2, service.budget - 1).bit_length() + 1)]

    def pace(self, name: str, hosts: tuple[Capacities, ...], how: str | None = None) -> Pace | None:
        """`how`: the arm by whose connections it runs, if not by its own. None where nothing gets through."""
        key = (f"{name}/{how or name}", hosts)
        if key not in self._known:
            self._known[key] = self._make(arm(name), arm(how or name), hosts)
        return self._known[key]

    def _make(self, of: Arm, how: Arm, hosts: tuple[Capacities, ...]) -> Pace | None:
        service, params = self.service, self.params
        if service.on_nics and not all(runs_with(how, left) for left in hosts):
            return None
        comm_s = [self._comm_s(how, hosts, tokens) for tokens in self.sizes]
        if inf in comm_s:
            return None
        always = float(params.healthy_overhead.value) if of.nic == "migrate" and service.on_nics else 0.0
        flops = params.gpu_tflops.value * 1e12 * params.serving_mfu.value * service.gpus
        memory = params.hbm_GBps.value * GB * params.serving_mbu.value * service.tp
        streams = of.name == "kv_replication"
        return Pace(
            token_s=service.llm.token_flops / flops,
            context_s=service.llm.context_flops / flops,
            weights_s=service.llm.weight_bytes / memory,
            read_s=service.llm.kv_bytes / (memory * service.pp),
            sizes=self.sizes,
            comm_s=[each * (1 + always) for each in comm_s],
            factor=1 + (float(params.kv_stream_overhead.value) if streams else 0.0),
            least_s=self._stream_s(of, hosts) if streams else 0.0,
        )

    def _stream_s(self, of: Arm, hosts: tuple[Capacities, ...]) -> float:
        """A token's KV cache to a peer: every host sends its part."""
        rate = min(self.rate(of.name, left) for left in hosts)
        return self.service.llm.kv_bytes / len(hosts) / rate if rate else 0.0

    def rate(self, name: str, left: Capacities) -> float:
        """Bytes a second that one instance gets of a host's NICs for what it sends to another.

        Arms that restart make such connections anew, over what is there."""
        how = "migrate" if arm(name).nic == "restart" else name
        topology, share = self.service.topology, traffic_share(arm(how), left) if any(left) else 0.0
        part = min(1.0, self.service.gpus / topology.gpus)
        return float(topology.nics * topology.rate_gbit / 8 * GB * share * self.params.kv_link_efficiency.value * part)

    def _comm_s(self, how: Arm, hosts: tuple[Capacities, ...], tokens: int) -> float:
        """Of a step with so many tokens: each stage's AllReduces, and what goes from stage to stage."""
        service = self.service
        micro = max(1.0, tokens / service.pp)
        return self._tp_s(how, hosts, micro) + self._pp_s(how, hosts, micro)

    def _tp_s(self, how: Arm, hosts: tuple[Capacities, ...], tokens: float) -> float:
        service = self.service
        if service.tp == 1:
            return 0.0
        size = max(1, int(service.llm.row_bytes * tokens))
        if service.tp_hosts == 1:
            one = self._local_s(size)
            return one * REDUCES_A_LAYER * service.llm.layers
        stages = [hosts[at : at + service.tp_hosts] for at in range(0, len(hosts), service.tp_hosts)]
        each = sum(self._reduce_s(how, stage, size) for stage in stages) / len(stages)
        return each * REDUCES_A_LAYER * service.llm.layers

    def _local_s(self, size: int) -> float:
        params, topology, tp = self.params, self.service.topology, self.service.tp
        rate = topology.nvlink_GBps * GB * params.nvlink_efficiency.value
        return float(params.serving_local_us.value / 1e6 + 2 * (tp - 1) / tp * size / rate)

    def _reduce_s(self, how: Arm, stage: tuple[Capacities, ...], size: int) -> float:
        """Over hosts. Nobody is faster for a NIC that is gone, nor before one is."""
        local = self.service.topology.gpus
        whole = (self.whole,) * len(stage)
        healthy = self.solver.collective("allreduce", size, whole, "stock", ranks_per_node=local, groups=1).time_us
        if stage == whole:
            return float(healthy) / 1e6
        found = self.solver.collective("allreduce", size, stage, how.solver, ranks_per_node=local, groups=1).time_us
        return max(float(found), float(healthy)) / 1e6

    def _pp_s(self, how: Arm, hosts: tuple[Capacities, ...], tokens: float) -> float:
        """pp sends in a round, the last with the tokens back to the first stage; every GPU sends its share."""
        service, params = self.service, self.params
        if service.pp == 1:
            return 0.0
        size = service.llm.row_bytes * tokens
        if not service.pp_crosses:
            rate = service.topology.nvlink_GBps * GB * params.nvlink_efficiency.value
            return float(service.pp * (params.local_hop_us.value / 1e6 + size / service.tp / rate))
        share = min(traffic_share(how, left) for left in hosts)
        if not share:
            return inf
        rate = service.topology.nics * service.topology.rate_gbit / 8 * GB * share
        return float(service.pp * (params.hop_us.value / 1e6 + size / rate))
