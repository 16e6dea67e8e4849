"""Whether every host answers, and how fast: a first command on all of them, then one over the open connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness.errors import R2ccError, SshError
from harness.hosts.base import Host
from harness.hosts.parallel import Outcome, on_all
from harness.hosts.ssh.hosts import SshHost

NO_OP = ("true",)
NO_OP_LIMIT_S = 20.0


@dataclass(frozen=True)
class Answered:
    """Milliseconds until one host answered; `connect_ms` is None where there is nothing to connect to."""

    connect_ms: float | None
    command_ms: float


@dataclass(frozen=True)
class Checked:
    """All hosts' outcomes. `cold_ms`: connecting and a no-op on all; `warm_ms`: a no-op on all that had answered."""

    outcomes: Mapping[str, Outcome[Answered]]
    cold_ms: float
    warm_ms: float | None

    @property
    def failed(self) -> list[Outcome[Answered]]:
        return [outcome for outcome in self.outcomes.values() if outcome.error is not None]


def check(hosts: Mapping[str, Host], told: Callable[[Outcome[Answered]], None] = lambda _outcome: None) -> Checked:
    """Asks all hosts at once; `told` hears of each host once, when it has answered or failed."""
    started = time.monotonic()
    first = on_all({name: partial(_first, host) for name, host in hosts.items()}, told)
    cold_ms = _since_ms(started)
    answering = {name: host for name, host in hosts.items() if first[name].error is None}
    started = time.monotonic()
    again = on_all({name: partial(_no_op, host) for name, host in answering.items()})
    warm_ms = _since_ms(started) if answering else None
    return Checked({name: _joined(first[name], again.get(name)) for name in hosts}, cold_ms, warm_ms)


def _first(host: Host) -> Answered:
    started, connect_ms = time.monotonic(), None
    if isinstance(host, SshHost):
        host.link.open()
        connect_ms = _since_ms(started)
    return Answered(connect_ms, _no_op(host))


def _no_op(host: Host) -> float:
    started = time.monotonic()
    host.run(NO_OP, timeout_s=NO_OP_LIMIT_S)
    return _since_ms(started)


def _joined(first: Outcome[Answered], again: Outcome[float] | None) -> Outcome[Answered]:
    """The figure of a command is that over an open connection."""
    if again is None or first.value is None:
        return first
    value = Answered(first.value.connect_ms, again.value) if again.value is not None else None
    return Outcome(first.host, value, again.error, first.elapsed_s)


def _since_ms(started: float) -> float:
    return (time.monotonic() - started) * 1000


def as_json(checked: Checked, inventory: str, hosts: Mapping[str, Host]) -> dict[str, Any]:
    """What `r2cc hosts check --json` prints."""
    return {
        "schema": 1,
        "inventory": inventory,
        "cold_ms": round(checked.cold_ms, 2),
        "warm_ms": None if checked.warm_ms is None else round(checked.warm_ms, 2),
        "failed": len(checked.failed),
        "hosts": [_host_json(outcome, address_of(hosts[name])) for name, outcome in checked.outcomes.items()],
    }


def _host_json(outcome: Outcome[Answered], address: str | None) -> dict[str, Any]:
    value, error = outcome.value, outcome.error
    connect_ms = value.connect_ms if value else None
    return {
        "name": outcome.host,
        "address": address,
        "ok": error is None,
        "connect_ms": None if connect_ms is None else round(connect_ms, 2),
        "command_ms": round(value.command_ms, 2) if value else None,
        "error": None if error is None else {"kind": kind_of(error), "message": error.message, "hint": error.hint},
    }


def kind_of(error: R2ccError) -> str:
    return error.kind if isinstance(error, SshError) else "command"


def address_of(host: Host) -> str | None:
    """None: it is not reached over SSH."""
    return host.link.target.shown if isinstance(host, SshHost) else None
