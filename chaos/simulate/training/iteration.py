"""One training iteration: compute, pipeline bubble, and what compute does not hide of each parallelism's communication.

Formulas: Narayanan et al., SC'21 (Megatron-LM, arXiv 2104.04473), where no other source is named. All is *modelled*."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

from chaos.simulate.cluster.arms import Arm, arm, runs_with, traffic_share
from chaos.simulate.training.layout import Layout, check, placement
from chaos.simulate.training.models import Model
from chaos.simulate.training.statekey import Capacities, Key, StateKeys, canonical

Sync = Literal["allreduce", "sharded"]
BACKWARD = 2 / 3
"""Of a microbatch's compute: backward does twice the work of forward (SC'21, appendix)."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """`exposed_comm_s` is what of tp, pp and dp adds to the iteration. `total_s` inf: nothing runs in this state.

    `dp_s`: the slowest group's collective, hidden or not, healthy ones among them: where several ranks share a host,
    a schedule of ours can beat what NCCL runs on whole NICs (docs/internals/schedules.md), which is no merit of a
    failure. `alive`: replicas at work."""

    total_s: float
    compute_s: float
    bubble_s: float
    tp_s: float
    pp_s: float
    dp_s: float
    exposed_dp_s: float
    mfu: float
    alive: float = 1.0
    floored: bool = False
    """The groups that are hit take no longer than the healthy ones, by their schedule: what these take is counted."""

    @property
    def exposed_comm_s(self) -> float:
        return self.tp_s + self.pp_s + self.exposed_dp_s


NOTHING = Iteration(inf, 0, 0, 0, 0, 0, 0, 0, alive=0)


class Training:
    """A model in a layout on a topology. Iterations are remembered by arm and by what is canonical of a state."""

    def __init__(
        self, model: Model, layout: Layout, topology: Any, solver: Any, params: Any, *, sync: Sync = "allreduce"
    ) -> None:
        check(layout, model, topology)
        self.model, self.layout, self.topology, self.solver, self.params, self.sync = (
            model,
            layout,
            topology,
            solver,
            params,
            sync,
        )
        self.placement = placement(layout, topology)
        self.keys = StateKeys(self.placement, topology.nics)
        self._iterations: dict[tuple[str, Key], Iteration] = {}
        self._collectives: dict[tuple[object, ...], float] = {}

    def iteration(self, name: str, state: Sequence[tuple[int, Capacities]] = ()) -> Iteration:
        """`state`: the hosts that are not whole, with what is left of each NIC."""
        return self.by_key(name, self.keys.key(state))

    def by_key(self, name: str, key: Key) -> Iteration:
        found = self._iterations.get((name, key))
        if found is None:
            found = self._iterations[name, key] = self._solve(arm(name), key)
        return found

    @property
    def solved(self) -> int:
        """Collectives that the solver was asked for."""
        return len(self._collectives)

    def overhead(self, name: str, state: Sequence[tuple[int, Capacities]]) -> float:
        """Share by which the iteration is longer than stock NCCL's with everything whole."""
        return self.iteration(name, state).total_s / self.iteration("stock").total_s - 1

    def _solve(self, of: Arm, key: Key) -> Iteration:
        dp, lost = self.layout.dp, key.replicas_lost if of.excludes else 0
        if lost >= dp or not all(runs_with(of, left) for left in key.hosts):
            return NOTHING
        compute_s, tp_s = self._compute_s(), self._tp_s(of, key)
        bubble_s = (compute_s + tp_s) * (self.layout.pp - 1) / (self.layout.interleave * self.layout.microbatches)
        more = dp / (dp - lost)
        whole_s, hit_s = self._dp_s(of, ()), max((self._dp_s(of, group) for group in key.groups), default=0.0)
        dp_s = max(whole_s, hit_s) * self._always(of)
        exposed_s = self._exposed_dp_s(dp_s)
        pp_s = self._pp_s(of, key)
        total_s = (compute_s + tp_s) * more + bubble_s + pp_s + exposed_s
        return Iteration(
            total_s=total_s,
            compute_s=compute_s * more,
            bubble_s=bubble_s,
            tp_s=tp_s * more,
            pp_s=pp_s,
            dp_s=dp_s,
            exposed_dp_s=exposed_s,
            mfu=self.model.flops(self.layout.batch) / (self.layout.gpus * self._peak_flops() * total_s),
            alive=(dp - lost) / dp,
            floored=bool(key.groups) and hit_s < whole_s,
        )

    def _always(self, of: Arm) -> float:
        """What our library costs while nothing is broken, of a collective's time."""
        return 1 + (float(self.params.healthy_overhead.value) if of.nic == "migrate" else 0.0)

    def _peak_flops(self) -> float:
        return float(self.params.gpu_tflops.value) * 1e12

    def _compute_s(self) -> float:
        """Kernels alone. `recompute` 1: activations are computed again, a third more (SC'21, section 3.5)."""
        flops = self.model.flops(self.layout.batch) * (1 + float(self.params.recompute.value) / 3)
        return flops / (self.layout.gpus * self._peak_flops() * float(self.params.kernel_efficiency.value))

    def _tp_s(self, of: Arm, key: Key) -> float:
        """Each layer reduces b s h elements twice forward and twice backward (SC'21, section 3.2); that in sight."""
        tp, local = self.layout.tp, self.topology.gpus
        if tp == 1:
            return 0.0
        size = self.model.activation_bytes(self.layout.micro_batch)
        layers = self.model.layers / self.layout.pp
        one_s = self._nvlink_s(size, tp) if tp <= local else self._tp_over_nics_s(of, key, size)
        return one_s * 4 * layers * self.layout.microbatches * (1 - float(self.params.tp_overlap.value))

    def _tp_over_nics_s(self, of: Arm, key: Key, size: float) -> float:
        """Tensor parallelism over several hosts; one of them, at worst, is degraded."""
        nodes, whole = self.layout.tp // self.topology.gpus, (1.0,) * self.topology.nics
        hosts = [_without_lost(left) for left in key.hosts] if of.excludes else list(key.hosts)
        cases = [(left,) + (whole,) * (nodes - 1) for left in hosts] or [(whole,) * nodes]
        return max(self._collective_s("allreduce", int(size), case, of.solver, self.topology.gpus, 1) for case in cases)

    def _nvlink_s(self, size: float, ranks: int) -> float:
        rate = float(self.topology.nvlink_GBps) * 1e9 * float(self.params.nvlink_efficiency.value)
        return 2 * (ranks - 1) / ranks * size / rate

    def _pp_s(self, of: Arm, key: Key) -> float:
        """Sends between stages: those that fill and drain the pipeline, and what is not hidden of the others.

        A GPU sends its share b s h / t (SC'21, section 4.1) over its share of the host's NICs."""
        layout, topology = self.layout, self.topology
        if layout.pp == 1 or layout.dp * layout.tp < topology.gpus:
            return 0.0
        share = min((traffic_share(of, left) for left in key.hosts), default=1.0)
        rate = float(topology.nics * topology.rate_gbit / topology.gpus) * 1e9 / 8 * share
        send_s = self.model.activation_bytes(layout.micro_batch) / layout.tp / rate
        sends = 2 * layout.microbatches * layout.interleave
        return send_s * (2 * (layout.pp - 1) + sends * (1 - float(self.params.pp_overlap.value)))

    def _gradient_count(self) -> float:
        return self.model.parameters / (self.layout.tp * self.layout.pp)

    def _dp_s(self, of: Arm, group: tuple[Capacities, ...]) -> float:
        """A stage's gradients: AllReduce, or with a sharded optimizer ReduceScatter and an AllGather of parameters."""
        if self.layout.dp == 1:
            return 0.0
        grads = self._gradient_count() * float(self.params.gradient_bytes.value)
        place = self.placement
        if place.nodes == 1:
            return self._nvlink_s(grads, self.layout.dp)
        if of.excludes:
            group = canonical([_without_lost(left) for left in group])
        nodes = group + ((1.0,) * self.topology.nics,) * (place.nodes - len(group))
        if self.sync == "allreduce":
            return self._collective_s("allreduce", int(grads), nodes, of.solver, place.ranks, place.groups)
        parts = (("reducescatter", grads), ("allgather", self._gradient_count() * 2))
        return sum(self._collective_s(op, int(size), nodes, of.solver, place.ranks, place.groups) for op, size in parts)

    def _collective_s(self, op: str, size: int, nodes: tuple[Capacities, ...], solver: str, *at_once: int) -> float:
        """`at_once`: ranks a node, groups."""
        key = (op, size, nodes, solver, at_once)
        if key not in self._collectives:
            ranks, groups = at_once
            made = self.solver.collective(op, size, nodes, solver, ranks_per_node=ranks, groups=groups)
            self._collectives[key] = made.time_us / 1e6
        return self._collectives[key]

    def _exposed_dp_s(self, dp_s: float) -> float:
        """At best `dp_overlap` of it is hidden, and no more than backward has left once the first gradients are there.

        That is the last microbatch's; with v chunks, pp microbatches of each of the other v-1 too (SC'21, figure 4)."""
        chunks = self.layout.interleave
        backward_s = self._compute_s() / self.layout.microbatches * BACKWARD
        window_s = backward_s * (1 + (chunks - 1) * self.layout.pp) / chunks
        return max(dp_s * (1 - float(self.params.dp_overlap.value)), dp_s - window_s)


def _without_lost(left: Capacities) -> Capacities:
    """An excluded worker leaves nothing to wait for."""
    return tuple(share or 1.0 for share in left)
