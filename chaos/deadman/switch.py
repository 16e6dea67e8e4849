"""The dead-man switch as the controller holds it: arms hosts before a fault, disarms them when it is proved undone."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from chaos.deadman.record import ID, Found, Undo, command, parse_list
from chaos.faults.steps import Command
from harness.errors import FaultError
from harness.hosts import Host
from harness.hosts.lease import Leases
from harness.hosts.parallel import Outcome, on_all

MARGIN_S, CONNECTION_S = 15.0, 10.0
"""How much longer than its fault a host waits for the controller's own revert: at least, and beyond its limit."""
COMMAND_S = 20.0
UNDO_S = 120.0


@dataclass
class Armed:
    """One fault's records, the same id on each of its hosts."""

    id: str
    hosts: tuple[str, ...]
    ttl_s: float
    margin_s: float = MARGIN_S
    timers: dict[str, str] = field(default_factory=dict)
    """By host: `systemd` or `shell`."""


@dataclass(frozen=True)
class DeadMan:
    """Works over any Host. Nothing of it has to be closed: what is armed ends by itself."""

    hosts: Mapping[str, Host]
    margin_s: float | None = None
    """None: as long as the revert may take."""
    leases: Leases | None = None
    """Looked at before anything is armed: a host may be another controller's by now."""

    def prepare(self, fault_id: str, steps: Sequence[Command], lasts_s: float) -> Armed | None:
        """What is to be armed, before anything is; None when nothing is to be undone on any of the hosts."""
        hosts = tuple(dict.fromkeys(step.on for step in steps if step.on in self.hosts))
        if not hosts:
            return None
        margin_s = self.margin_s
        if margin_s is None:
            margin_s = max(MARGIN_S, CONNECTION_S + max(step.limit_s for step in steps))
        return Armed(f"{fault_id}-{secrets.token_hex(6)}", hosts, lasts_s + margin_s, margin_s)

    def arm(self, armed: Armed, steps: Sequence[Command], about: Mapping[str, Any]) -> None:
        """Arms all hosts, and knows that every timer runs. FaultError when one cannot be armed: none is, then."""
        if not ID.fullmatch(armed.id):
            raise FaultError(f"'{armed.id}' cannot be armed", "a fault's id is [a-z0-9_-]")
        if self.leases is not None:
            self.leases.check()
        said = self._on(armed.hosts, lambda name: self._arm_one(armed, name, steps, about))
        armed.timers = {name: out.value.split()[1] for name, out in said.items() if out.value}
        errors = [out.error for out in said.values() if out.error is not None]
        if errors:
            self._on(armed.hosts, lambda name: disarm_one(self.hosts[name], armed.id))
            raise FaultError(
                "nothing was injected, for a host cannot be armed: " + "; ".join(error.message for error in errors),
                errors[0].hint or "docs/internals/dead-man-switch.md says what it needs",
            )

    def _arm_one(self, armed: Armed, name: str, steps: Sequence[Command], about: Mapping[str, Any]) -> str:
        mine = tuple(step for step in steps if step.on == name)
        script = Undo(armed.id, mine, {**about, "host": name, "ttl_s": armed.ttl_s}).script()
        said = _run(self.hosts[name], "arm", armed.id, hundredths(armed.ttl_s), input=script)
        if not said.startswith("armed "):
            raise FaultError(f"{name}: arming said {said!r}")
        return said

    def renew(self, armed: Armed, lasts_s: float) -> None:
        """The time to live begins anew. FaultError when a timer has fired already, or a host cannot be reached."""
        armed.ttl_s = lasts_s + armed.margin_s
        words = ("renew", armed.id, hundredths(armed.ttl_s))
        said = self._on(armed.hosts, lambda name: _run(self.hosts[name], *words))
        wrong = [
            f"{name}: {out.error.message if out.error else out.value}"
            for name, out in said.items()
            if out.value != "renewed"
        ]
        if wrong:
            raise FaultError(f"{armed.id} cannot be renewed: {'; '.join(wrong)}", "the hosts heal by themselves")

    def disarm(self, armed: Armed) -> list[str]:
        """To be called when the revert is proved. What is worth a note; FaultError when a timer may still run."""
        said = self._on(armed.hosts, lambda name: disarm_one(self.hosts[name], armed.id))
        errors = [out.error for out in said.values() if out.error is not None]
        if errors:
            raise FaultError("; ".join(error.message for error in errors), stays_armed(armed))
        return [_note(name, armed, str(out.value)) for name, out in said.items() if out.value != "disarmed"]

    def locked(self, armed: Armed, step: Command, *, inject: bool) -> Command:
        """The same step under its record's lock: never at the same time as the timer's undo. One that injects fails
        when the host is not armed any more: we were suspended for longer than its time to live."""
        if step.on not in armed.hosts:
            return step
        word = "inject" if inject else "revert"
        return replace(step, argv=tuple(command(word, armed.id, *step.argv)))

    def clear(self) -> list[str]:
        """Undoes and disarms what an earlier run left on the hosts, and says what that was. FaultError when it cannot.

        The caller holds the hosts' leases: nobody else can be using them.
        """
        said = self._on(self.hosts, self._clear_one)
        errors = [out.error for out in said.values() if out.error is not None]
        if errors:
            raise FaultError("; ".join(error.message for error in errors), "r2cc panic shows what is left there")
        return [note for out in said.values() for note in out.value or ()]

    def _clear_one(self, name: str) -> list[str]:
        return [undo_record(self.hosts[name], found) for found in records(self.hosts[name])]

    def _on(self, names: Iterable[str], work: Any) -> dict[str, Outcome[Any]]:
        return on_all({name: partial(work, name) for name in names})


def records(host: Host) -> list[Found]:
    """What is armed on a host, or was and not yet tidied up. FaultError when it cannot be read."""
    try:
        return parse_list(_run(host, "list"))
    except (ValueError, KeyError) as error:
        raise FaultError(f"{host.name}: what is armed there cannot be read: {error}", "see /run/r2cc there") from error


def undo_record(host: Host, found: Found) -> str:
    """Undoes one record, if nobody has yet, and removes it. What was done, for people; FaultError when it failed."""
    if found.state != "undone":
        undo_one(host, found.id, "controller")
    disarm_one(host, found.id)
    how = f"was undone by {found.undone}" if found.state == "undone" else "is undone"
    return f"{host.name}: what an earlier run left ({what_of(found)}) {how}"


def undo_one(host: Host, record: str, by: str) -> None:
    """Runs a record's undo now. FaultError when it fails."""
    _run(host, "undo", record, by, limit_s=UNDO_S)


def disarm_one(host: Host, record: str) -> str:
    """Ends a record's timer and removes it: `disarmed`, `fired BY` or `gone`. FaultError when the timer goes on."""
    return _run(host, "disarm", record)


def what_of(found: Found) -> str:
    """`link_down of eth1`, as far as the record says it."""
    nics = [str(nic.get("name")) for nic in found.about.get("nics", []) if nic.get("host") == found.about.get("host")]
    kind = found.about.get("fault", {}).get("kind", "a fault")
    return f"{kind} of {', '.join(nics)}" if nics else str(kind)


def hundredths(seconds: float) -> str:
    return str(max(1, math.ceil(seconds * 100)))


def stays_armed(armed: Armed) -> str:
    """What a user should know when a revert was not proved."""
    return f"{', '.join(armed.hosts)}: armed, so that the undo runs there within {armed.ttl_s:.0f} s (see r2cc panic)"


def _note(name: str, armed: Armed, said: str) -> str:
    if said == "gone":
        return f"{name}: {armed.id} was undone and removed by somebody else (r2cc panic?)"
    return f"{name}: {armed.id} was undone before the controller did it, by {said.removeprefix('fired ')}"


def _run(host: Host, word: str, *words: str, input: str | None = None, limit_s: float = COMMAND_S) -> str:
    result = host.run(command(word, *words), input=input, timeout_s=limit_s, check=False)
    if result.exit_code != 0:
        said = result.stderr.strip().splitlines()[-3:] or [f"exit code {result.exit_code}"]
        raise FaultError(f"{host.name}: {word}: {' / '.join(said)}", "see docs/internals/dead-man-switch.md")
    return result.stdout.strip()
