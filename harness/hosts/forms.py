"""The JSON of `r2cc hosts check`."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from harness.schemas.forms import Amount, Count, Forms


class Error(TypedDict):
    kind: Literal[
        "unreachable", "no_ssh", "unknown_host_key", "changed_host_key", "revoked_host_key", "auth", "refused", "lost",
        "command",
    ]  # fmt: skip
    message: str
    hint: str | None


class HostAnswer(TypedDict):
    name: str
    address: str | None
    ok: bool
    connect_ms: Amount | None
    command_ms: Amount | None
    error: Error | None


class HostsCheck(TypedDict):
    schema: Literal[1]
    inventory: str
    cold_ms: Amount
    warm_ms: Amount | None
    failed: Count
    hosts: list[HostAnswer]


SCHEMAS: Forms = {"hosts_check": ("r2cc hosts check", HostsCheck)}
