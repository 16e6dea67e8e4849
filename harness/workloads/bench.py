"""Command lines and environments of `r2cc_bench` and `r2cc_sampler` (docs/reference/contracts.md); starts nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.errors import UsageError

Op = Literal["allreduce", "stream", "alltoall"]
Net = Literal["socket", "ib"]
Schedule = Literal["auto", "ring", "reranked", "chain"]
Connect = Literal["ahead", "switch"]
ToldBy = Literal["all", "net"]

EVENT_FILE = "/proc/self/fd/1"
"""The net library writes its lines where the bench writes its own, so that their order is kept."""
SIDE_INTERFACE = "mgmt0"
"""The lab's management interface: one more way for the side channel, never for data."""
SETTINGS = ("NCCL_", "R2CC_")
"""Variables with these prefixes change what NCCL or R2CC does: none is inherited by accident."""
MODES = range(4)
PROGRESS = "libr2cc_progress.so"
"""The library that watches any NCCL (r2cc_patches/progress)."""


@dataclass(frozen=True)
class BenchSpec:
    """What all ranks of a run share; the defaults are the contract's."""

    op: Op = "allreduce"
    bytes: int = 64 << 20
    iterations: int = 40
    warmup: int = 2
    channels: int = 4
    connections_per_peer: int = 1
    chunk_bytes: int = 128 << 10
    slots: int = 8
    seed: int = 1
    net: Net = "socket"
    timeout_s: int = 120
    corrupt: tuple[int, int] | None = None
    """Self-test: (rank, iteration) whose result is changed by one bit after the collective."""
    nonce: str | None = None
    """Ranks that were started with another text are turned away."""
    corrupt_carrier: str | None = None
    """Self-test: RANK:NIC:LOSSES, the same once that NIC has lost its carrier so often."""
    seconds: int = 0
    """Not 0: iterations end after so many seconds."""
    idle_us: int = 200
    """How long a rank sleeps when nothing moved. Every wake-up costs an emulated machine dearly."""
    in_a_row: int = 1
    """All-reduces of an iteration, one after the other."""
    merge_nics: int = 1
    """More than 1: so many NICs in a row become one virtual NIC, which only stock's IB transport can do."""
    plan: Path | None = None
    """An all-reduce by this plan (harness.schedules.planner), in a file that every host has;
    `channels` is then of each part."""
    late: tuple[tuple[int, int, int], ...] = ()
    """(rank, iteration, ms): who enters which iteration how late."""
    schedule: Schedule | None = None
    """An all-reduce that is planned anew whenever NICs come or go; `channels` is then of the ring and of each cycle."""
    told_by: ToldBy = "all"
    """How a rank hears of another's end while data moves: also from rank 0, or by its connections alone."""
    connect: Connect = "ahead"
    """When a schedule's connections are made: all at the start, or those of a plan when it begins."""
    pretend: tuple[tuple[int, int, str, int], ...] = ()
    """Self-test: (rank, iteration, NIC, percent), what a rank says of its NIC from that iteration on."""
    slow_to_agree: tuple[int, int] | None = None
    """Self-test: (rank, ms) that it takes to be ready for another schedule."""


ALWAYS = (
    "op", "bytes", "iterations", "warmup", "channels", "connections_per_peer", "chunk_bytes", "slots", "seed", "net",
    "timeout_s",
)  # fmt: skip
WHERE_ASKED = (
    "corrupt", "corrupt_carrier", "idle_us", "in_a_row", "merge_nics", "plan", "seconds", "nonce", "schedule",
    "connect", "slow_to_agree", "told_by",
)  # fmt: skip
"""Options whose default is not said."""


def bench_command(
    program: Path, spec: BenchSpec, *, rank: int | None, ranks: int, root: str, library: Path, unset: Iterable[str] = ()
) -> list[str]:
    """One rank's command. Every option is given, so that a journal shows all that was asked for.

    `rank` None leaves it out, for a launcher that tells it.

    `root` is ADDR:PORT of rank 0 on the management network. `unset` are variables (`stray_settings`) that the command
    must not see: a Host adds to the environment it was given, it takes nothing away. Raises UsageError for a rank that
    does not exist.
    """
    if rank is not None and not 0 <= rank < ranks:
        raise UsageError(f"rank {rank} of {ranks} ranks does not exist", "ranks are counted from 0")
    options: dict[str, object] = {
        **({} if rank is None else {"--rank": rank}),
        "--ranks": ranks,
        "--root": root,
        **{_flag(name): getattr(spec, name) for name in ALWAYS},
        "--library": library,
        **{_flag(name): value for name in WHERE_ASKED if (value := getattr(spec, name)) != getattr(BenchSpec, name)},
    }
    return [*without(unset), str(program), *_words(options), *_several(spec)]


def _several(spec: BenchSpec) -> list[str]:
    """Options that may be given more than once."""
    return [
        word for name in ("late", "pretend") for value in getattr(spec, name) for word in (_flag(name), _word(value))
    ]


def sampler_command(program: Path, *, nics: Sequence[str] = (), interval_ms: int = 10, cpu: bool = False) -> list[str]:
    """The sampler of one host. It ends with its stdin or on SIGTERM. No `nics` means all but the loopback."""
    options: dict[str, object] = {"--interval-ms": interval_ms}
    if nics:
        options["--nics"] = ",".join(nics)
    return [str(program), *_words(options), *(["--cpu"] if cpu else [])]


def gpu_sampler_command(python: str, program: Path, gpus: Sequence[int], interval_ms: int = 100) -> list[str]:
    """What watches these GPUs of a host; `python` is the host's. It ends as the sampler does."""
    options = {"--interval-ms": interval_ms, "--gpus": ",".join(map(str, gpus))}
    return [python, str(program), *_words(options)]


def bench_env(
    mode: int,
    *,
    interfaces: str = "eth",
    topology_file: Path | None = None,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """What a rank's net library reads. `mode` is R2CC_MODE (0 stock ... 3); `interfaces` keeps data off `mgmt0`.

    `extra` is what an experiment's arm sets on purpose; it wins. Raises UsageError for a mode that does not exist.
    """
    if mode not in MODES:
        raise UsageError(f"R2CC_MODE {mode} does not exist", "0 stock, 1 migrate, 2 balance, 3 allreduce")
    env = {
        "NCCL_DEBUG": "WARN",
        "NCCL_SOCKET_IFNAME": interfaces,
        "R2CC_EVENT_FILE": EVENT_FILE,
        "R2CC_MODE": str(mode),
        "R2CC_SIDE_IFNAME": SIDE_INTERFACE,
    }
    if topology_file is not None:
        env["R2CC_TOPO_FILE"] = str(topology_file)
    return {**env, **(extra or {})}


def progress_env(library: Path) -> dict[str, str]:
    """Has NCCL load `PROGRESS` as its profiler: `comm`, `traffic` and `comm_end` lines come on the rank's stdout.

    For NCCL from 2.23 on; an older one has no profilers. A job has one profiler: this one, then.
    """
    return {"NCCL_PROFILER_PLUGIN": str(library), "R2CC_PROGRESS_FILE": EVENT_FILE}


def stray_settings(inherited: Mapping[str, str], env: Mapping[str, str]) -> list[str]:
    """Names in `inherited` (os.environ) that would change results and that `env` does not set itself."""
    return sorted(name for name in inherited if name.startswith(SETTINGS) and name not in env)


def without(unset: Iterable[str]) -> list[str]:
    """What stands before a command that must not see these variables."""
    flags = [word for name in unset for word in ("-u", name)]
    return ["env", *flags] if flags else []


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _words(options: Mapping[str, object]) -> list[str]:
    return [word for flag, value in options.items() for word in (flag, _word(value))]


def _word(value: object) -> str:
    """Parts of one value stand between colons."""
    return ":".join(map(str, value)) if isinstance(value, tuple) else str(value)
