"""One collective on what is left of a cluster: `Solver`, on the compiled core (r2cc_patches/sim, libr2cc_sim.so).

Modelled, never measured. docs/simulation-model.md says what is assumed and what is checked."""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from chaos.simulate import core_params
from harness.errors import BuildError, InfraError, UsageError

LIBRARY = "libr2cc_sim.so"
ARMS = ("stock", "upstream", "exclusion", "kv_replication", "migrate", "balance", "allreduce", "optcc", "published")
SCHEMA = 1
BAD_INPUT = 2
MOST_KNOWN = 4096

Capacities = tuple[float, ...]
PerNic = tuple[tuple[float, ...], ...]
Rows = tuple[Capacities, ...]


@dataclass(frozen=True, slots=True)
class Collective:
    """`time_us` is math.inf where it stands still. `bound_us` by bandwidth alone. Bytes per host and NIC are computed when
    they are first asked for; they are those of all groups together."""

    time_us: float
    healthy_us: float
    bound_us: float
    schedule: str
    latency_us: float = 0.0
    _bytes: Callable[[], tuple[PerNic, PerNic]] | None = field(default=None, repr=False, compare=False)

    @property
    def tx_bytes(self) -> PerNic:
        return self._bytes()[0] if self._bytes else ()

    @property
    def rx_bytes(self) -> PerNic:
        return self._bytes()[1] if self._bytes else ()


@dataclass(frozen=True, slots=True)
class Hit:
    """`time_us` of a collective that was hit; where it does not complete, until the job ends (math.inf: it stands still).
    `healthy_us`: without this fault. `stall_us`: the longest that one of its streams stood still."""

    time_us: float
    stall_us: float
    healthy_us: float
    replay_bytes: float
    completed: bool
    schedule: str = "ring"


@dataclass(frozen=True, slots=True)
class Shape:
    """A topology for who needs no file: topology.Topology has the same attributes. Without `pod`: one for all."""

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


class Solver:
    """Of one topology and one set of parameters. Remembers what it solved, by operation, size, arm and the multiset of what
    hosts have left: which of them lost something does not matter. Degraded hosts stand as far apart as they can."""

    def __init__(self, topology: Any, params: Any = None, library: Path | None = None) -> None:
        self.topology, self.params = topology, params
        self._library = library
        self._head = {
            "schema": SCHEMA,
            "topology": _topology(topology),
            "cost": core_params.cost(params),
            "channels": int(core_params.value(params, "channels")),
        }
        self._recovery = core_params.recovery(params)
        self._whole: Capacities = (1.0,) * topology.nics
        self._seen: dict[Any, tuple[Any, Collective]] = {}
        self._solved: dict[Any, Collective] = {}
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
        """`nodes`: one entry a host that takes part. `groups`: so many such communicators at once over the same hosts, each
        at home on NICs of its own. `fabric`: what is left of the ToRs' uplinks. Raises UsageError, InfraError, BuildError.

        The same tuple again costs no look at its hosts."""
        key = (id(nodes), op, bytes, arm, ranks_per_node, groups, fabric)
        seen = self._seen.get(key)
        if seen is not None:
            return seen[1]
        whole = self._whole
        rows = tuple(left for left in nodes if left is not whole and left != whole)
        found = self._solve(op, bytes, len(nodes), rows, arm, ranks_per_node, groups, fabric)
        if rows and found._bytes:
            asked = found._bytes
            given = tuple(nodes)
            found = _with_bytes(found, lambda: _as_given(asked(), given, self._placed(len(given), rows, arm)))
        if isinstance(nodes, tuple):
            if len(self._seen) >= MOST_KNOWN:
                self._seen.clear()
            self._seen[key] = (nodes, found)  # which keeps its id from being another's
        return found

    def degraded(
        self,
        op: str,
        bytes: int,
        hosts: int,
        rows: Rows,
        arm: str,
        *,
        ranks_per_node: int = 1,
        groups: int = 1,
        fabric: float = 1.0,
    ) -> Collective:
        """The same for `hosts` of which all but `rows` are whole."""
        return self._solve(op, bytes, hosts, rows, arm, ranks_per_node, groups, fabric)

    def many(
        self,
        op: str,
        bytes: int,
        states: Sequence[tuple[int, Rows]],
        arm: str,
        *,
        ranks_per_node: int = 1,
        groups: int = 1,
        fabric: float = 1.0,
    ) -> list[Collective]:
        """`degraded` for many states (hosts, rows), with one call of the core for all that are new."""
        keys = [self._key(op, bytes, hosts, rows, arm, ranks_per_node, groups, fabric) for hosts, rows in states]
        new = list(dict.fromkeys(key for key in keys if key not in self._solved))
        if new:
            question = self._question(op, bytes, arm, ranks_per_node, groups)
            asked = [self._state(key[2], key[3], fabric) for key in new]
            answers = self._ask({**question, "kind": "collective", "states": asked})["results"]
            for key, answer in zip(new, answers, strict=True):
                self._solved[key] = self._collective(answer, key)
        return [self._solved[key] for key in keys]

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
        """A NIC is left `factor` of what it had, at `at_share` of the collective's time, for `duration_us` (None: for good).

        `cut`: connections over it break, even if something is left (a port of two); without a word that is so if nothing is
        left, or if NICs have two ports and half is left."""
        if cut is None:
            cut = factor <= 0 or (self.topology.ports > 1 and math.isclose(factor, 0.5))
        state = self._as_is(nodes, fabric)
        fault = {
            "host": host,
            "nic": nic,
            "at_share": at_share,
            "factor": factor,
            "duration_us": duration_us,
            "cut": cut,
        }
        question = self._question(op, bytes, arm, ranks_per_node, groups)
        request = {**question, "kind": "hit", "state": state, "fault": fault, "recovery": self._recovery}
        key = json.dumps([op, bytes, arm, ranks_per_node, groups, state, fault])
        if key not in self._hits:
            answer = self._ask(request)
            self._hits[key] = Hit(
                _us(answer["time_us"]),
                answer["stall_us"],
                _us(answer["healthy_us"]),
                answer["replay_bytes"],
                answer["completed"],
                answer["schedule"],
            )
        return self._hits[key]

    def _solve(
        self, op: str, bytes: int, hosts: int, rows: Rows, arm: str, ranks: int, groups: int, fabric: float
    ) -> Collective:
        quick = (op, bytes, hosts, rows, arm, ranks, groups, fabric)
        found = self._solved.get(quick)
        if found is None:
            state = (hosts, rows)
            found = self.many(op, bytes, [state], arm, ranks_per_node=ranks, groups=groups, fabric=fabric)[0]
            self._solved[quick] = found
        return found

    def _key(
        self, op: str, bytes: int, hosts: int, rows: Rows, arm: str, ranks: int, groups: int, fabric: float
    ) -> tuple[Any, ...]:
        return (op, bytes, hosts, canonical(rows, arm), arm, ranks, groups, fabric)

    def _placed(self, hosts: int, rows: Rows, arm: str) -> list[tuple[int, Capacities]]:
        return list(zip(_places(hosts, len(rows)), canonical(rows, arm), strict=True))

    def _state(self, hosts: int, rows: Rows, fabric: float) -> dict[str, Any]:
        return {"hosts": hosts, "left": list(zip(_places(hosts, len(rows)), rows, strict=True)), "fabric": fabric}

    def _as_is(self, nodes: Sequence[Capacities], fabric: float) -> dict[str, Any]:
        left = [(host, left) for host, left in enumerate(nodes) if left != self._whole]
        return {"hosts": len(nodes), "left": left, "fabric": fabric}

    def _question(self, op: str, bytes: int, arm: str, ranks: int, groups: int) -> dict[str, Any]:
        return {**self._head, "op": op, "bytes": int(bytes), "arm": arm, "ranks_per_node": ranks, "groups": groups}

    def _collective(self, answer: Mapping[str, Any], key: tuple[Any, ...]) -> Collective:
        return Collective(
            _us(answer["time_us"]),
            _us(answer["healthy_us"]),
            _us(answer["bound_us"]),
            answer["schedule"],
            answer["latency_us"],
            cache(lambda: self._bytes_of(key)),
        )

    def _bytes_of(self, key: tuple[Any, ...]) -> tuple[PerNic, PerNic]:
        op, size, hosts, rows, arm, ranks, groups, fabric = key
        question = self._question(op, size, arm, ranks, groups)
        states = [self._state(hosts, rows, fabric)]
        answer = self._ask({**question, "kind": "collective", "states": states, "nic_bytes": True})["results"][0]
        return _rows(answer["tx_bytes"]), _rows(answer["rx_bytes"])

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return ask(request, self._library)


def canonical(rows: Rows, arm: str) -> Rows:
    """Sorted, and rails too where their order means nothing: `migrate` takes the *next* NIC."""
    if len(rows) == 1:
        return rows if arm == "migrate" else (tuple(sorted(rows[0])),)
    if arm == "migrate" or not rows:
        return tuple(sorted(rows))
    ordered = sorted(rows, key=sorted)
    columns = sorted(zip(*ordered, strict=True))
    return tuple(sorted(zip(*columns, strict=True)))


def ask(request: Mapping[str, Any], library: Path | None = None) -> dict[str, Any]:
    """A question to the core as docs/simulation-model.md has it. Raises UsageError with all that is wrong with it."""
    loaded = _load(library or built_library())
    out = ctypes.c_void_p()
    code = loaded.r2cc_sim(json.dumps(request, allow_nan=False).encode(), ctypes.byref(out))
    try:
        answer: dict[str, Any] = json.loads(ctypes.string_at(out.value or 0))
    finally:
        loaded.r2cc_sim_free(out)
    if code == 0:
        return answer
    if code == BAD_INPUT:
        raise UsageError(answer["error"], answer["hint"])
    raise InfraError(f"the simulator ended with {code}: {answer['error']}", answer["hint"])


def built_library() -> Path:
    """Where `r2cc build net` leaves it."""
    from harness.repo import checkout

    return checkout().net / LIBRARY


@cache
def _load(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildError(f"the simulator cannot be loaded: {error}", "r2cc build net") from error
    library.r2cc_sim.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]
    library.r2cc_sim.restype = ctypes.c_int
    library.r2cc_sim_free.argtypes = [ctypes.c_void_p]
    library.r2cc_sim_free.restype = None
    return library


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


def _rows(values: Sequence[Sequence[float]]) -> PerNic:
    return tuple(tuple(row) for row in values)


def _places(hosts: int, count: int) -> list[int]:
    return [index * hosts // count for index in range(count)]


def _with_bytes(found: Collective, asked: Callable[[], tuple[PerNic, PerNic]]) -> Collective:
    return Collective(found.time_us, found.healthy_us, found.bound_us, found.schedule, found.latency_us, cache(asked))


def _as_given(made: tuple[PerNic, PerNic], nodes: Rows, placed: list[tuple[int, Capacities]]) -> tuple[PerNic, PerNic]:
    """Solved with the degraded hosts in places of the solver's: each host gets what its like had, NICs in its own order."""
    free: dict[Capacities, list[tuple[int, Capacities]]] = {}
    for place, left in reversed(placed):
        free.setdefault(tuple(sorted(left)), []).append((place, left))
    taken = {place for place, _ in placed}
    whole = iter([place for place in range(len(nodes)) if place not in taken])
    out: tuple[list[Capacities], list[Capacities]] = ([], [])
    for left in nodes:
        like = free.get(tuple(sorted(left)))
        place, order = like.pop() if like else (next(whole), left)
        moved = _order(order, left)
        for side, rows in zip(out, made, strict=True):
            side.append(tuple(rows[place][nic] for nic in moved))
    return tuple(out[0]), tuple(out[1])


def _order(solved: Capacities, given: Capacities) -> list[int]:
    """For each NIC as given the one that it was solved as."""
    mine = sorted(range(len(given)), key=lambda nic: given[nic])
    theirs = sorted(range(len(solved)), key=lambda nic: solved[nic])
    found = dict(zip(mine, theirs, strict=True))
    return [found[nic] for nic in range(len(given))]
