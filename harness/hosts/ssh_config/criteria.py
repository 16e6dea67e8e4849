"""`Match`: whether the lines after it count (ssh_config(5), Match). Nothing is asked of the network."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from harness.hosts.ssh_config import patterns, tokens
from harness.hosts.ssh_config.lines import Line, delimited

EXEC_LIMIT_S = 30.0
ALONE = ("canonical", "final")
"""Criteria without an argument: they hold in the second reading."""


@dataclass(frozen=True)
class Facts:
    """What criteria are compared with, as far as the lines before have settled it."""

    host: str
    original: str
    user: str
    local_user: str
    tag: str
    final: bool
    tokens: Mapping[str, str]


@dataclass(frozen=True)
class Criterion:
    name: str
    argument: str
    negated: bool


def parse(line: Line) -> list[Criterion]:
    """The criteria of a Match line. Raises SshConfigError for one that does not exist, and for one without argument."""
    found = list(_criteria(line))
    if not found:
        raise line.error("Match needs a criterion")
    everything = [at for at, each in enumerate(found) if each.name == "all"]
    if everything and (everything[0] > 1 or everything[0] != len(found) - 1):
        raise line.error("'all' cannot be combined with other criteria of Match")
    return found


def _criteria(line: Line) -> Iterator[Criterion]:
    rest: str | None = line.rest
    while rest:
        word, rest = delimited(rest)
        if not word or word.startswith("#"):
            return
        name = word.removeprefix("!").lower()
        argument: str | None = ""
        if name not in (*ALONE, "all"):
            if name not in TESTS:
                raise line.error(f"Match has no criterion '{name}' (known: {', '.join((*TESTS, *ALONE, 'all'))})")
            argument, rest = delimited(rest or "")
            if not argument or argument.startswith("#"):
                raise line.error(f"Match {name} says nothing")
        yield Criterion(name, argument or "", word.startswith("!"))


def holds(line: Line, facts: Facts) -> bool:
    """Whether all criteria hold; a command is run only where those before it do. Raises SshConfigError."""
    return all(_holds(each, line, facts) for each in parse(line))


def _holds(criterion: Criterion, line: Line, facts: Facts) -> bool:
    try:
        return TESTS.get(criterion.name, _alone(criterion.name))(criterion.argument, facts) != criterion.negated
    except ValueError as error:
        raise line.error(f"Match {criterion.name}: {error}") from error


def _alone(name: str) -> Callable[[str, Facts], bool]:
    return lambda _argument, facts: name == "all" or facts.final


def _host(argument: str, facts: Facts) -> bool:
    return patterns.in_list(facts.host.lower(), argument.lower())


def _original(argument: str, facts: Facts) -> bool:
    return patterns.in_list(facts.original.lower(), argument.lower())


def _user(argument: str, facts: Facts) -> bool:
    return patterns.in_list(facts.user, argument)


def _local_user(argument: str, facts: Facts) -> bool:
    return patterns.in_list(facts.local_user, argument)


def _tagged(argument: str, facts: Facts) -> bool:
    return patterns.in_list(facts.tag, argument)


def _local_network(argument: str, _facts: Facts) -> bool:
    networks = patterns.networks(argument)
    return any(patterns.is_in(address, networks) for address in local_addresses())


def _exec(argument: str, facts: Facts) -> bool:
    return _succeeds(tokens.expand(argument, facts.tokens))


TESTS: dict[str, Callable[[str, Facts], bool]] = {
    **{"host": _host, "originalhost": _original, "user": _user, "localuser": _local_user, "tagged": _tagged},
    **{"localnetwork": _local_network, "exec": _exec},
}


@cache
def local_addresses() -> tuple[str, ...]:
    """Of this machine's interfaces that are up."""
    import psutil

    up = {name for name, stats in psutil.net_if_stats().items() if stats.isup}
    families = (socket.AF_INET, socket.AF_INET6)
    found = [each for name, those in psutil.net_if_addrs().items() if name in up for each in those]
    return tuple(each.address for each in found if each.family in families)


@cache
def _succeeds(command: str) -> bool:
    """By the user's shell, as OpenSSH does; once for all hosts of which the command is the same."""
    argv = [os.environ.get("SHELL") or "/bin/sh", "-c", command]
    nothing = subprocess.DEVNULL
    try:
        code = subprocess.run(
            argv, stdin=nothing, stdout=nothing, stderr=nothing, timeout=EXEC_LIMIT_S, check=False
        ).returncode
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"'{command}' did not end within {EXEC_LIMIT_S:g} s") from error
    except OSError as error:
        raise ValueError(f"'{command}' cannot be run: {error}") from error
    if code < 0:
        raise ValueError(f"'{command}' was ended by signal {-code}")
    return code == 0
