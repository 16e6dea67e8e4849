"""RDMA devices that fail from inside the process: for hosts whose adapters nobody may break."""

from __future__ import annotations

import errno as errnos
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StrictInt, StrictStr

from chaos.faults.parts.shim import LIBRARY, ShimSpec
from chaos.faults.parts.verbs_shim import CompletionSpec, Count, VerbsFault
from chaos.faults.spec import Milliseconds

Status = Literal[
    "local_length", "local_qp_operation", "local_protection", "flushed", "bad_response", "local_access",
    "remote_invalid_request", "remote_access", "remote_operation", "retry_exceeded", "rnr_retry_exceeded",
    "remote_aborted", "fatal", "response_timeout", "general",
]  # fmt: skip
Call = Literal["create_qp", "modify_qp", "reg_mr", "post_send", "post_recv"]
Event = Literal[
    "device_fatal", "port_err", "port_active", "gid_change", "lid_change", "pkey_change", "sm_change",
    "client_reregister",
]  # fmt: skip

DRAWN_ERRORS: tuple[Mapping[str, Any], ...] = (
    *({"status": status} for status in ("retry_exceeded", "remote_access", "flushed")),
    *({"status": status, "times": 1} for status in ("retry_exceeded", "response_timeout", "general")),
    {"status": "retry_exceeded", "opcode": "rdma_write", "times": 1},
    {"status": "local_protection", "opcode": "recv_rdma_with_imm", "times": 1},
    {"call": "post_send", "errno": "ENOMEM", "times": 1},
    {"call": "post_recv", "errno": "ENOMEM", "times": 1},
    {"call": "create_qp", "errno": "ENOMEM"},
    {"call": "modify_qp", "errno": "ETIMEDOUT"},
    {"call": "reg_mr", "errno": "ENOMEM"},
)
DRAWN_COMPLETIONS: tuple[Mapping[str, Any], ...] = (
    {"opcode": "rdma_write", "times": 1},
    {"opcode": "rdma_write", "times": 4, "skip": 8},
    *({"action": "late", "delay_ms": delay, "times": 4} for delay in (5.0, 50.0)),
)
"""Of what was received no completion is lost: its sender has been told that it came. None comes twice: no adapter
does that."""
DRAWN_SLOW: tuple[Mapping[str, Any], ...] = (
    *({"delay_ms": delay} for delay in (2.0, 10.0, 50.0)),
    {"per_s": 1000},
)
DRAWN_EVENTS: tuple[Mapping[str, Any], ...] = (
    *({"event": "port_err"},) * 2,
    *({"event": "device_fatal"},) * 2,
    *({"event": event} for event in ("gid_change", "lid_change", "client_reregister")),
)


def positive_ms(value: float | None) -> int | None:
    """Whole milliseconds, one at least."""
    return None if value is None else max(1, round(value))


@dataclass(frozen=True)
class VerbsError(VerbsFault):
    """Completions with an error, and the queue pair in the error state as an adapter leaves it; or calls that fail."""

    class Settings(CompletionSpec):
        status: Status | None = None
        """What completions say, as by `ibv_wc_status`. What waits behind one on its queue pair is flushed."""
        call: Call | None = None
        """Instead: this call of libibverbs fails with `errno`. `reg_mr` stands for all that register memory."""
        errno: StrictStr | None = None
        """By name, as `ENOMEM`."""

        def check(self) -> None:
            super().check()
            if (self.status is None) == (self.call is None) or (self.call is None) != (self.errno is None):
                raise ValueError("a verbs_error needs status, or call and errno")
            if self.call is not None and self.opcode is not None:
                raise ValueError("opcode belongs to status, not to call")
            if self.errno is not None and self.errno not in errnos.errorcode.values():
                raise ValueError(f"there is no errno {self.errno}; ENOMEM is one")

        def journaled(self) -> dict[str, Any]:
            return {"action": self.status or self.call}

    spec: Settings
    kind = "verbs_error"
    noun = "verbs error"
    does = f"fails RDMA completions or calls on the NIC's device inside the ranks, without root ({LIBRARY})"
    peer_sees = "retries that run out, on a device that is well, once the queue pair is in the error state"
    victim = "completion or call"
    example: ClassVar[Mapping[str, Any]] = {"status": "retry_exceeded"}
    drawn = 4
    draws = DRAWN_ERRORS

    def rule_action(self) -> str:
        return "error" if self.spec.call is None else "fail"

    def rule_settings(self) -> Mapping[str, object]:
        number = None if self.spec.errno is None else getattr(errnos, self.spec.errno)
        own = {"status": self.spec.status, "call": self.spec.call, "errno": number}
        return {**own, **self.spec.choice()}


@dataclass(frozen=True)
class LostCompletion(VerbsFault):
    """The work is done and the peer has it; who polls is not told, or too late, or twice."""

    class Settings(CompletionSpec):
        action: Literal["lost", "late", "duplicate"] = "lost"
        """`lost`: it never comes. `late`: `delay_ms` later, with all that follow on its queue pair.
        `duplicate`: twice."""
        delay_ms: Milliseconds | None = None

        def check(self) -> None:
            super().check()
            if (self.action == "late") != (self.delay_ms is not None):
                raise ValueError("delay_ms belongs to action: late, which needs it")

        def journaled(self) -> dict[str, Any]:
            return {"action": self.action}

    spec: Settings
    kind = "lost_completion"
    noun = "lost completion"
    does = f"hides, delays or doubles RDMA completions of the NIC's device inside the ranks, without root ({LIBRARY})"
    peer_sees = "nothing, but that the host is late"
    victim = "completion"
    example: ClassVar[Mapping[str, Any]] = {"times": 1}
    drawn = 2
    draws = DRAWN_COMPLETIONS

    def rule_action(self) -> str:
        return self.spec.action

    def rule_settings(self) -> Mapping[str, object]:
        return {"ms": positive_ms(self.spec.delay_ms), **self.spec.choice()}


@dataclass(frozen=True)
class SlowQp(VerbsFault):
    """Queue pairs that complete later, as on a path of a longer round trip, or at a low rate."""

    class Settings(CompletionSpec):
        delay_ms: Milliseconds | None = None
        """Each completion comes so much later."""
        per_s: Count | None = None
        """No more completions of each queue pair in a second."""

        def check(self) -> None:
            super().check()
            if self.delay_ms is None and self.per_s is None:
                raise ValueError("a slow_qp needs delay_ms or per_s")

    spec: Settings
    kind = "slow_qp"
    noun = "slow queue pair"
    does = f"slows RDMA completions of the NIC's device inside the ranks, without root ({LIBRARY})"
    peer_sees = "a slow host"
    action = "slow"
    victim = "completion"
    example: ClassVar[Mapping[str, Any]] = {"delay_ms": 2.0}
    drawn = 2
    draws = DRAWN_SLOW

    def rule_settings(self) -> Mapping[str, object]:
        return {"ms": positive_ms(self.spec.delay_ms), "per_s": self.spec.per_s, **self.spec.choice()}


@dataclass(frozen=True)
class AsyncEvent(VerbsFault):
    """An event of the port or the device, which is well: what a program believes of it can be seen."""

    class Settings(ShimSpec):
        event: Event
        """As by `ibv_event_type`; each program that has the device open gets it."""
        then: Event | None = None
        """What comes when it is over; after `port_err`, if nothing is said, `port_active`."""
        port: Annotated[StrictInt, Field(ge=1, le=255)] | None = None
        """Of the device; the first, if nothing is said."""

        def journaled(self) -> dict[str, Any]:
            return {"action": self.event}

    spec: Settings
    kind = "async_event"
    noun = "asynchronous event"
    does = f"sends an asynchronous event of the NIC's RDMA device to the ranks, without root ({LIBRARY})"
    peer_sees = "nothing, but what the host makes of it"
    action = "event"
    victim = "open device"
    example: ClassVar[Mapping[str, Any]] = {"event": "port_err"}
    drawn = 3
    draws = DRAWN_EVENTS

    def rule_settings(self) -> Mapping[str, object]:
        spec = self.spec
        then = spec.then or ("port_active" if spec.event == "port_err" else None)
        return {"name": spec.event, "then": then, "port": spec.port}
