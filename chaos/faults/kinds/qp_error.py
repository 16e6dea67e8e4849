"""Queue pairs that go to the error state, as after a firmware fault: by the library, which looks at a file for it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from chaos.faults.fault import agreed
from chaos.faults.parts import rdma
from chaos.faults.parts.host_fault import HostFault
from chaos.faults.spec import FaultSpec
from chaos.faults.steps import Answer, Command, Step

ENVIRONMENT = "R2CC_TEST_QP_FILE"
"""Ranks of an experiment with this fault have it: the file that names devices, and FILE.done with what was moved."""


@dataclass(frozen=True)
class QpError(HostFault):
    """Queue pairs on the NIC's device go to the error state, new ones, too, until it is over; the link is well.

    The patched library does it when it looks for completions, in every rank that was started with the file's name; not
    in stock mode, where nothing of ours runs.
    """

    class Settings(FaultSpec):
        def rank_env(self, rank: int) -> dict[str, str]:
            """All ranks: each looks only at the devices that it uses."""
            return {ENVIRONMENT: qp_file()}

    spec: Settings
    devices: tuple[tuple[str, tuple[str, ...]], ...] = ()
    kind = "qp_error"
    noun = "queue pair error"
    does = "keeps moving the queue pairs on the NIC's RDMA device to the error state (debug hook of the library)"
    peer_sees = "the host: work flushed; its peers: retries that run out, on a device that is well"
    requires = ("tee", "rm", "cat")
    privilege = "none"
    features = ("rdma",)
    rdma_only = True
    confirm_s = 5.0
    inside_ranks = True
    drawn = 2

    @property
    def file(self) -> str:
        return qp_file()

    def facts(self) -> list[Step]:
        return rdma.questions(self.by_host)

    def knowing(self, answers: Sequence[Answer]) -> Self:
        return replace(self, devices=tuple(rdma.devices(self.by_host, answers).items()))

    def inject(self) -> list[Step]:
        known = dict(self.devices)
        lines = {host: known.get(host) or ["DEVICE"] * len(names) for host, names in self.by_host.items()}
        return [Command(host, ("tee", self.file), "".join(f"{name}\n" for name in lines[host])) for host in lines]

    def revert(self) -> list[Step]:
        """Nothing brings a queue pair back but the library itself: this takes the order away."""
        return [Command(host, ("rm", "-f", "--", self.file, f"{self.file}.done")) for host in self.by_host]

    def probe(self) -> list[Step]:
        return [Command(host, ("cat", "--", self.file, f"{self.file}.done")) for host in self.by_host]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        """When a library has written that it moved some on every device: `DEVICE NUMBER`."""
        found = []
        for (host, names), answer in zip(self.by_host.items(), answers, strict=True):
            lines = [line.split() for line in answer.stdout.splitlines()] if answer.exit_code == 0 else []
            moved = {words[0] for words in lines if len(words) == 2}
            wanted = dict(self.devices).get(host) or names
            found += [device in moved for device in wanted]
        return agreed(found)


def qp_file() -> str:
    """One a controller, so that two experiments do not meet."""
    return str(Path(tempfile.gettempdir()) / f"r2cc-qp-{os.getpid()}")
