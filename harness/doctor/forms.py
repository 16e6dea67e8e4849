"""The JSON of this folder: what its commands print, and what it writes."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from harness.schemas.forms import Amount, Count, Forms, Some


class Path(TypedDict):
    nic: str
    peer: str
    peer_nic: str
    route: str | None
    reached: bool | None
    whole: bool | None
    size_bytes: Count


class Host(TypedDict):
    name: str
    data_nics: list[str]
    clock_offset_s: float | None
    """How far its clock is ahead of that of the machine that asks."""
    clock_error_s: Amount | None
    paths: list[Path]


class Failed(TypedDict):
    name: str
    kind: str
    message: str
    hint: str | None


class Finding(TypedDict):
    check: str
    severity: Literal["note", "warning", "error"]
    hosts: Some[str]
    subject: str
    """NIC, GPU or the like; a range; empty: the host."""
    seen: str
    meaning: str
    remedy: str


class WithoutBackup(TypedDict):
    hosts: Some[str]
    nics: str
    why: str


class NotChecked(TypedDict):
    check: str
    hosts: Some[str]
    why: str


class Doctor(TypedDict):
    schema: Literal[1]
    inventory: str
    breaks: bool
    """Whether something would break a run."""
    hosts: list[Host]
    failed: list[Failed]
    """Hosts that could not be examined; the kinds are those of hosts_check."""
    findings: list[Finding]
    without_backup: list[WithoutBackup]
    passed: dict[str, list[str]]
    not_checked: list[NotChecked]


SCHEMAS: Forms = {
    "doctor": ("r2cc doctor", Doctor),
}
