"""What all launchers are told of a job, and how a rank that they start learns which one it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import UsageError
from harness.lab.remote import Inside
from harness.launch import preload as preloading

RANK_OPTION, GPU_OPTION = "--rank", "--gpu"
MEETING_PORT = 29400
"""What a dry run shows of `Job.meeting`: torchrun's own default."""
Told = tuple[str, ...]
"""Options that the program is given with its own numbers: (), ("--rank",) or ("--rank", "--gpu")."""

FIND = (
    'rank=$(printenv "$1") && place=$(printenv "$2") || '
    '{ echo "r2cc: neither $1 nor $2 may be unset: was this started by another launcher?" >&2; exit 2; }; shift 2; '
    'while [ "$1" != -- ]; do of=${1%%:*}; '
    'if [ "$rank" -ge "${of%-*}" ] && [ "$rank" -le "${of#*-}" ]; then export "${1#*:}"; fi; shift; done; shift; '
)
PID_EVENT = "rank_pid"
SAY_PID = f'printf \'{{"event":"{PID_EVENT}","rank":%d,"pid":%d,"host":"%s","t_ns":0}}\\n\' "$rank" $$ "$(uname -n)"; '
"""The program that follows keeps the number."""
LABEL = (
    'pipe=$(mktemp -u) && mkfifo -m 600 "$pipe" && '
    '{ LC_ALL=C grep -a -H --line-buffered --label="r2cc:$rank" "" <"$pipe" & exec >"$pipe"; rm -f "$pipe"; }; '
)
"""Has `r2cc:RANK:` put before each line of the program, where its launcher does not say whose line is whose."""
ENDS: Mapping[Told, str] = {
    (): 'exec "$@"',
    (RANK_OPTION,): 'exec "$@" --rank "$rank"',
    (RANK_OPTION, GPU_OPTION): 'exec "$@" --rank "$rank" --gpu "$place"',
}
"""Fixed scripts. Their arguments: the variable that holds the rank, that of its place on the host, what single ranks
are to have in their environment (`FIRST-LAST:NAME=VALUE`), `--`, and the program."""


@dataclass(frozen=True)
class Job:
    """One program on all ranks, which are counted host by host."""

    program: tuple[str, ...]
    """Without what tells a rank its number. The same on all hosts."""
    hosts: Mapping[str, int]
    """How many ranks each has, in the order of ranks."""
    rendezvous: str
    """HOST:PORT of rank 0."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Of all ranks; never part of a command line."""
    of_host: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What ranks of a host have besides: names of NICs. Part of command lines, so no secrets."""
    unset: tuple[str, ...] = ()
    """What logins on the hosts set and ranks must not have."""
    preload: str = ""
    """A library for the program alone, not for what starts it."""
    told: Told = (RANK_OPTION,)
    mpi: bool = False
    """Ranks meet through MPI, and in no other way."""
    python: str = "python3"
    """Of torchrun."""
    meeting: int = MEETING_PORT
    """The port of the first host where torchrun's own processes meet; ranks meet at `rendezvous`."""
    of_rank: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """What single ranks have besides."""
    says_pid: bool = False
    """Ranks print a line with their process id before the program's own."""
    inside: Inside | None = None
    """None: the hosts are reached from here."""
    out_of_band: str = ""
    """Network (a.b.c.d/n) over which a launcher's own daemons talk; the launcher's choice without one."""

    def __post_init__(self) -> None:
        if not self.hosts or min(self.hosts.values()) < 1:
            raise UsageError("a job needs at least one host, and each of them a rank", "--ranks-per-host 1")

    @property
    def ranks(self) -> int:
        return sum(self.hosts.values())

    @property
    def even(self) -> bool:
        """All hosts have as many ranks."""
        return len(set(self.hosts.values())) == 1

    def first_rank(self, host: str) -> int:
        names = list(self.hosts)
        return sum(self.hosts[name] for name in names[: names.index(host)])

    def host_of(self, rank: int) -> str:
        """Of a rank that exists."""
        return [host for host, ranks in self.hosts.items() for _ in range(ranks)][rank]

    def bare(self) -> list[str]:
        """The program with its surroundings, without a rank."""
        unset = [word for name in self.unset for word in ("-u", name)]
        under = preloading.words(Path(self.preload)) if self.preload else []
        if unset and under[:1] == ["env"]:
            return ["env", *unset, *under[1:], *self.program]
        return [*(["env", *unset] if unset else []), *under, *self.program]

    def by_itself(self, rank_variable: str, place_variable: str, *, labelled: bool = False) -> list[str]:
        """The program, finding out by itself which rank it is, from what its launcher sets. `labelled`: `LABEL`."""
        single = [
            f"{self.first_rank(host)}-{self.first_rank(host) + ranks - 1}:{name}={value}"
            for host, ranks in self.hosts.items()
            for name, value in sorted(self.of_host.get(host, {}).items())
        ]
        single += [f"{rank}-{rank}:{name}={env[name]}" for rank, env in self.of_rank.items() for name in sorted(env)]
        if not single and not self.told and not self.says_pid and not labelled:
            return self.bare()
        script = FIND + (LABEL if labelled else "") + (SAY_PID if self.says_pid else "") + ENDS[self.told]
        return ["sh", "-c", script, "r2cc", rank_variable, place_variable, *single, "--", *self.bare()]

    def as_rank(self, rank: int) -> list[str]:
        """The program, told which rank it is."""
        place = rank - self.first_rank(self.host_of(rank))
        numbers = {RANK_OPTION: rank, GPU_OPTION: place}
        return [*self.bare(), *(word for option in self.told for word in (option, str(numbers[option])))]


def same(envs: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """What all of them have."""
    first = envs[0] if envs else {}
    return {name: value for name, value in first.items() if all(env.get(name) == value for env in envs)}


def beyond(env: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """What one has besides."""
    return {name: value for name, value in env.items() if known.get(name) != value}


def split(
    env: Mapping[str, Mapping[str, str]], hosts: Sequence[str]
) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """(what is the same on all hosts, the rest of each)."""
    common = same([env.get(host, {}) for host in hosts])
    return common, {host: own for host in hosts if (own := beyond(env.get(host, {}), common))}
