"""A guest as a Host: commands run through its agent, files go through its commands' input and output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.hosts import through
from harness.lab.client import AgentHost


@dataclass(frozen=True)
class VmHost(AgentHost):
    """One guest, or the lab's `switch`. Its files are its own, but for the checkout, which it sees read-only."""

    def put(self, local: Path, remote: str) -> None:
        through.put(self, local, remote)

    def get(self, remote: str, local: Path) -> None:
        through.get(self, remote, local)

    def read_text(self, path: str) -> str:
        return self.run(["cat", "--", path], timeout_s=30.0).stdout

    def _surroundings(self, env: Mapping[str, str] | None) -> dict[str, Any]:
        """Only what was asked for: nothing of this machine's environment means anything in a guest."""
        return {"env": dict(env or {})}
