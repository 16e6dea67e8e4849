"""One collective on what is left of a cluster: `Solver`, on the compiled core (r2cc_patches/sim, libr2cc_sim.so).

Modelled, never measured. docs/internals/simulation-model.md says what is assumed and what is checked."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from chaos.simulate.core import params as core_params
from chaos.simulate.core.order import Capacities, Rows, canonical, places, rails_alike
from harness.errors import UsageError
from harness.schedules import text_library
from harness.schemas import text_of

__all__ = ["ARMS", "Capacities", "Case", "Collective", "Hit", "Shape", "Solver"]
ARMS = ("stock", "upstream", "exclusion", "kv_replication", "migrate", "balance", "allreduce", "optcc", "published")
LIBRARY = "libr2cc_sim.so"
SCHEMA = 1
MOST_SEEN = 4096
PerNic = tuple[tuple[float, ...], ...]
"""Bytes, by host and NIC."""


@dataclass(frozen=True, slots=True)
class Collective:
    """`time_us` is math.inf where it stands still. `bound_us`: by bandwidth alone."""

    time_us: float
    healthy_us: float
    bound_us: float
    schedule: str


@dataclass(frozen=True, slots=True)
class Hit:
    """`time_us` of a collective that was hit; where it does not complete, until the job ends (math.inf: it stands
    still). `healthy_us`: without this fault. `stall_us`: the longest that one of its streams stood still."""

    time_us: float
    stall_us: float
    healthy_us: float
    replay_bytes: float
    completed: bool
    schedule: str = "ring"


@dataclass(frozen=True, slots=True)
class Shape:
    """A topology for who needs no file; topology.Topology has the same attributes. Without `pod`: one for all."""

    hosts: int
    nics: int = 8
    rate_gbit: float = 400.0
    ports: int = 1
    nvlink_GBps: float = 450.0
    kind: str = "rail"
    pod: int = 0
    oversubscription: float = 1.0
    spine: bool = True

    @property
    def fabric(self) -> Shape:
        return self


class Case(NamedTuple):
    """What is solved: `rows` are the hosts that are not whole."""

    op: str
    bytes: int
    hosts: int
    rows: Rows
    arm: str
    ranks_per_node: int = 1
    groups: int = 1
    fabric: float = 1.0


class Solver:
    """Of one topology and one set of parameters (Params, or numbers by name; what these lack is as shipped).

    Remembers what it solved, by operation, size, arm and the multiset of what hosts have left."""

    def __init__(self, topology: Any, params: Any = None, library: Path | None = None) -> None:
        self.topology, self.params = topology, params
        self._library = library
        self._head = {
            "schema": SCHEMA,
            "topology": {**_topology(topology), "backups": int(core_params.value(params, "migrate_backups"))},
            "cost": core_params.cost(params),
            **core_params.nccl(params),
            "channels": int(core_params.value(params, "channels")),
            "pieces": int(core_params.value(params, "published_chunks")),
        }
        self._recovery = core_params.recovery(params)
        self._whole: Capacities = (1.0,) * topology.nics
        self._seen: dict[Any, tuple[Any, Collective]] = {}
        self._solved: dict[Case, Collective] = {}
        self._hits: dict[Any, Hit] = {}

    def collective(
        self,
        op: str,
        bytes: int,
        nodes: Sequence[Capacities],
        arm: str,
        *,
        ranks_per_node: int = 1,
        groups: int = 1,
        fabric: float = 1.0,
    ) -> Collective:
        """`nodes`: one entry a host that takes part. `groups`: so many such communicators at once over the same hosts,
        each at home on NICs of its own. `fabric`: what is left of the ToRs' uplinks.

        The same tuple again costs no look at its hosts. Raises UsageError, InfraError, BuildError."""
        key = (id(nodes), op, bytes, arm, ranks_per_node, groups, fabric)
        seen = self._seen.get(key)
        if seen is not None:
            return seen[1]
        whole = self._whole
        rows = tuple(left for left in nodes if left is not whole and left != whole)
        self._check(rows)
        found = self.solve(Case(op, bytes, len(nodes), rows, arm, ranks_per_node, groups, fabric))
        if isinstance(nodes, tuple):
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            self._seen[key] = (nodes, found)  # which keeps its id from being another's
        return found

    def _check(self, rows: Rows) -> None:
        if wrong := [len(left) for left in rows if len(left) != len(self._whole)]:
            raise UsageError(f"hosts with {wrong} NICs, where the topology has {len(self._whole)}", "one number a NIC")

    def solve(self, case: Case) -> Collective:
        """`collective` without a list of hosts."""
        found = self._solved.get(case)
        return found if found is not None else self.many([case])[0]

    def _canonical(self, case: Case) -> Case:
        alike = rails_alike(case.arm, case.groups, self.topology.nics)
        return case._replace(rows=canonical(case.rows, alike))

    def many(self, cases: Sequence[Case]) -> list[Collective]:
        """What is new with one call of the core for all cases that are alike but for hosts and rows."""
        wanted = [self._canonical(case) for case in cases]
        new = dict.fromkeys(case for case in wanted if case not in self._solved)
        alike: dict[Case, list[Case]] = {}
        for case in new:
            alike.setdefault(case._replace(hosts=0, rows=(), fabric=1.0), []).append(case)
        for some in alike.values():
            for case, answer in zip(some, self._collectives(some), strict=True):
                self._solved[case] = _collective(answer)
        for case, key in zip(cases, wanted, strict=True):
            self._solved[case] = self._solved[key]
        return [self._solved[key] for key in wanted]

    def hit(
        self,
        op: str,
        bytes: int,
        nodes: Sequence[Capacities],
        arm: str,
        *,
        at_share: float,
        host: int,
        nic: int,
        factor: float = 0.0,
        duration_us: float | None = None,
        cut: bool | None = None,
        ranks_per_node: int = 1,
        groups: int = 1,
        fabric: float = 1.0,
    ) -> Hit:
        """A NIC is left `factor` of what it had, at `at_share` of the time, for `duration_us` (None: for good).

        `cut`: connections over it break, even if something is left (a port of two). Without a word that is so if
        nothing is left, or if NICs have two ports and half is left."""
        if cut is None:
            cut = factor <= 0 or (self.topology.ports > 1 and math.isclose(factor, 0.5))
        left = [(place, left) for place, left in enumerate(nodes) if left != self._whole]
        fault = {"host": host, "nic": nic, "at_share": at_share, "factor": factor, "duration_us": duration_us}
        request = {
            **self._question(Case(op, bytes, len(nodes), (), arm, ranks_per_node, groups)),
            "kind": "hit",
            "state": {"hosts": len(nodes), "left": left, "fabric": fabric},
            "fault": {**fault, "cut": cut},
            "recovery": self._recovery,
        }
        key = json.dumps(
            [request[name] for name in ("op", "bytes", "arm", "ranks_per_node", "groups", "state", "fault")]
        )
        if key not in self._hits:
            self._hits[key] = _hit(ask(request, self._library))
        return self._hits[key]

    def program_us(
        self,
        bytes: int,
        nodes: Sequence[Capacities],
        schedule: str,
        *,
        flows: int,
        slots: int = 3,
        burst_bytes: int = 0,
    ) -> float:
        """An all-reduce as the host bench runs it: the plan's messages one by one, each connection on the NIC where the
        bench places it, queues in order. `flows`: connections of a part; `slots`: messages on their way on each;
        `burst_bytes`: what a NIC's token bucket holds."""
        left = [(place, left) for place, left in enumerate(nodes) if left != self._whole]
        request = {
            **self._question(Case("allreduce", bytes, len(nodes), (), schedule)),
            "kind": "program",
            "state": {"hosts": len(nodes), "left": left},
            "flows": flows,
            "slots": slots,
            "burst_bytes": burst_bytes,
        }
        return _us(ask(request, self._library)["time_us"])

    def _question(self, case: Case) -> dict[str, Any]:
        asked = {"op": case.op, "bytes": int(case.bytes), "arm": case.arm}
        return {**self._head, **asked, "ranks_per_node": case.ranks_per_node, "groups": case.groups}

    def _collectives(self, cases: Sequence[Case], *, nic_bytes: bool = False) -> list[dict[str, Any]]:
        states = [
            {
                "hosts": case.hosts,
                "left": list(zip(places(case.hosts, len(case.rows)), case.rows, strict=True)),
                "fabric": case.fabric,
            }
            for case in cases
        ]
        request = {**self._question(cases[0]), "kind": "collective", "states": states, "nic_bytes": nic_bytes}
        results: list[dict[str, Any]] = ask(request, self._library)["results"]
        return results

    def phases_us(self, case: Case) -> tuple[float, ...]:
        """When each stream of the plan ends, by bandwidth alone: of `published` the ring of all, the partial ring, the
        way through the degraded host. Hosts stand as the solver places them."""
        case = self._canonical(case)
        return tuple(_us(end) for end in self._collectives([case], nic_bytes=True)[0]["ends_us"])

    def nic_bytes(self, case: Case) -> tuple[PerNic, PerNic]:
        """Sent and received, of all groups together. Hosts stand as the solver places them."""
        answer = self._collectives([self._canonical(case)], nic_bytes=True)[0]
        tx, rx = (tuple(tuple(row) for row in answer[side]) for side in ("tx_bytes", "rx_bytes"))
        return tx, rx


def ask(request: Mapping[str, Any], library: Path | None = None) -> dict[str, Any]:
    """Forms: docs/internals/simulation-model.md. Raises UsageError with all that is wrong; InfraError; BuildError."""
    text = text_of(request)
    library = library or text_library.built(LIBRARY)
    answer: dict[str, Any] = json.loads(text_library.ask("r2cc_sim", text, library, "simulator"))
    return answer


def _collective(answer: Mapping[str, Any]) -> Collective:
    time_us, healthy_us, bound_us = (_us(answer[name]) for name in ("time_us", "healthy_us", "bound_us"))
    return Collective(time_us, healthy_us, bound_us, answer["schedule"])


def _hit(answer: Mapping[str, Any]) -> Hit:
    time_us, stall_us, healthy_us = (_us(answer[name]) for name in ("time_us", "stall_us", "healthy_us"))
    return Hit(time_us, stall_us, healthy_us, answer["replay_bytes"], answer["completed"], answer["schedule"])


def _topology(topology: Any) -> dict[str, Any]:
    fabric = topology.fabric
    return {
        "hosts": topology.hosts,
        "nics": topology.nics,
        "ports": topology.ports,
        "rate_gbit": topology.rate_gbit,
        "nvlink_GBps": topology.nvlink_GBps,
        "rail": fabric.kind == "rail",
        "pod": fabric.pod or 0,
        "oversubscription": fabric.oversubscription,
        "spine": fabric.spine,
    }


def _us(value: float | None) -> float:
    return math.inf if value is None else value
