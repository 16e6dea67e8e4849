"""Whether every host answers, and how fast: a first command on all of them, then one over the open connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from harness.errors import R2ccError, ReachError
from harness.hosts.base import Host
from harness.hosts.parallel import Outcome, on_all
from harness.hosts.ssh.hosts import SshHost
from harness.schemas.form import Amount, Count, Limits, form

KINDS = (
    "unreachable", "no_ssh", "unknown_host_key", "changed_host_key", "revoked_host_key", "auth", "refused", "lost",
    "command",
)  # fmt: skip
NO_OP = ("true",)
NO_OP_LIMIT_S = 20.0


@dataclass(frozen=True)
class Answered:
    """Milliseconds until one host answered; `connect_ms` is None where there is nothing to connect to."""

    connect_ms: float | None
    command_ms: float


@dataclass(frozen=True)
class Problem:
    kind: Annotated[str, Limits(enum=KINDS)]
    message: str
    hint: str | None


@dataclass(frozen=True)
class HostAnswer:
    name: str
    address: str | None
    ok: bool
    connect_ms: Amount | None
    command_ms: Amount | None
    error: Problem | None


@form("hosts_check", "r2cc hosts check")
@dataclass(frozen=True)
class HostsCheck:
    """Whether every host answers."""

    inventory: str
    cold_ms: Amount
    warm_ms: Amount | None
    failed: Count
    hosts: Sequence[HostAnswer]


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


def answers(checked: Checked, inventory: str, hosts: Mapping[str, Host]) -> HostsCheck:
    """What `r2cc hosts check --json` prints."""
    return HostsCheck(
        inventory=inventory,
        cold_ms=round(checked.cold_ms, 2),
        warm_ms=_rounded(checked.warm_ms),
        failed=len(checked.failed),
        hosts=[_answer(outcome, address_of(hosts[name])) for name, outcome in checked.outcomes.items()],
    )


def _answer(outcome: Outcome[Answered], address: str | None) -> HostAnswer:
    value, error = outcome.value, outcome.error
    return HostAnswer(
        name=outcome.host,
        address=address,
        ok=error is None,
        connect_ms=_rounded(value.connect_ms) if value else None,
        command_ms=_rounded(value.command_ms) if value else None,
        error=None if error is None else Problem(kind_of(error), error.message, error.hint),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def kind_of(error: R2ccError) -> str:
    return error.kind if isinstance(error, ReachError) else "command"


def address_of(host: Host) -> str | None:
    """None: it is not reached over SSH."""
    return host.link.target.shown if isinstance(host, SshHost) else None
