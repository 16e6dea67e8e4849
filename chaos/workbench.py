"""The real workload: the host bench and the sampler, built when they are not up to date."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.model import Workload

EVENT_FILE = "/proc/self/fd/1"
"""The net library writes its lines where the bench writes its own, so that their order is kept."""
SAMPLE_MS = 10


@dataclass(frozen=True)
class HostBench:
    """Command lines of the host bench and its sampler (docs/contracts.md). Pure."""

    bench: Path
    sampler_program: Path
    library: Path

    def rank(self, workload: Workload, *, rank: int, ranks: int, root: str, seed: int) -> list[str]:
        """One rank; all options are given, so that the journal says everything that was asked for."""
        options = {
            "--rank": rank,
            "--ranks": ranks,
            "--root": root,
            "--op": workload.op,
            "--bytes": workload.bytes,
            "--iterations": workload.iterations,
            "--warmup": workload.warmup,
            "--channels": workload.channels,
            "--connections-per-peer": workload.connections_per_peer,
            "--chunk-bytes": workload.chunk_bytes,
            "--slots": workload.slots,
            "--seed": seed,
            "--timeout-s": max(1, round(workload.timeout_s)),
            "--library": self.library,
        }
        return [str(self.bench), *(str(word) for option in options.items() for word in option)]

    def env(self, mode: int) -> dict[str, str]:
        """What the net library reads; data goes over the lab's NICs only, never over `mgmt0`."""
        return {
            "R2CC_MODE": str(mode),
            "R2CC_EVENT_FILE": EVENT_FILE,
            "NCCL_SOCKET_IFNAME": "eth",
            "NCCL_DEBUG": "WARN",
        }

    def sampler(self, nics: Sequence[str], *, cpu: bool) -> list[str]:
        """Ends with its stdin or on SIGTERM."""
        command = [str(self.sampler_program), "--interval-ms", str(SAMPLE_MS), "--nics", ",".join(nics)]
        return [*command, "--cpu"] if cpu else command


def built(*, quiet: bool) -> tuple[HostBench, dict[str, Any]]:
    """Builds what is out of date; returns the bench and what environment.json says about the build."""
    from harness.build import build_net
    from harness.progress import show, silent

    made = build_net(progress=silent if quiet else show)
    record = json.loads((made.bench.parent / "build.json").read_text(encoding="utf-8"))
    return HostBench(made.bench, made.sampler, made.library), record


def unbuilt() -> HostBench:
    """The same without building anything, for `--dry-run`: where the programs will be."""
    from harness.repo import checkout

    folder = checkout().net
    return HostBench(folder / "r2cc_bench", folder / "r2cc_sampler", folder / "libr2cc_net.so")
