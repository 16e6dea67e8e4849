"""A guest as a Host: commands run through its agent, files go through its commands' input and output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from harness.hosts.through import ThroughCommands
from harness.lab.client import AgentHost


@dataclass(frozen=True)
class VmHost(ThroughCommands, AgentHost):
    """One guest, or the lab's `switch`. Its files are its own, but for the checkout, which it sees read-only.

    It is emulated: under a job it takes seconds for what a machine does in tens of milliseconds.
    """

    patience: ClassVar[float] = 6.0

    def _surroundings(self, env: Mapping[str, str] | None) -> dict[str, Any]:
        """Only what was asked for: nothing of this machine's environment means anything in a guest."""
        return {"env": dict(env or {})}
