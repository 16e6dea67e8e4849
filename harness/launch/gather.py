"""One job out of ranks that were planned one by one, so that a launcher can start them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from harness.errors import UsageError
from harness.lab.remote import Inside
from harness.launch.job import GPU_OPTION, RANK_OPTION, Job, beyond, same

Env = Mapping[str, str]
ONLY_RANKS = ("LD_PRELOAD", "LD_LIBRARY_PATH")
"""What a launcher's own processes must not have in their environment."""


def gathered(
    hosts: Sequence[str],
    argvs: Sequence[Sequence[str]],
    envs: Sequence[Env],
    *,
    rendezvous: str,
    out_of_band: str = "",
    python: str = "python3",
    inside: Inside | None = None,
    mpi: bool = False,
) -> Job:
    """Of each rank its host, its command with `--rank N`, and its environment. A rank says its process id when it
    begins. UsageError where commands differ in more than their own number: the program is not at one place."""
    told = tuple(option for option in (RANK_OPTION, GPU_OPTION) if option in argvs[0])
    programs = {tuple(_without(argv, told)) for argv in argvs}
    if len(programs) > 1:
        raise UsageError(
            "a launcher starts one program on all hosts, and here it differs from host to host",
            "give `prefix:` in the inventory, the same for all hosts, or --launcher direct",
        )
    common = {name: value for name, value in same(envs).items() if name not in ONLY_RANKS}
    by_host = {host: same([env for at, env in zip(hosts, envs, strict=True) if at == host]) for host in hosts}
    of_host = {host: beyond(env, common) for host, env in by_host.items()}
    of_rank = {rank: beyond(env, by_host[hosts[rank]]) for rank, env in enumerate(envs)}
    (program,) = programs
    return Job(
        program, dict(Counter(hosts)), rendezvous, common, of_host, told=told, out_of_band=out_of_band,
        of_rank={rank: env for rank, env in of_rank.items() if env}, says_pid=True, python=python,
        inside=inside, mpi=mpi,
    )  # fmt: skip


def _without(argv: Sequence[str], options: Sequence[str]) -> list[str]:
    left = list(argv)
    for option in options:
        at = left.index(option)
        del left[at : at + 2]
    return left
