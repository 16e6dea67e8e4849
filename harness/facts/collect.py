"""All of a host's facts in one round trip: a fixed script runs every command in turn, each for a bounded time."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from time import time_ns
from typing import Any

from harness.errors import InfraError
from harness.facts.base import Fact, Known, Raw
from harness.facts.scripts import WHERE
from harness.hosts.base import Host
from harness.hosts.ssh.hosts import SshHost

MOST_BYTES = 4_000_000
WHOLE_LIMIT_S = 120.0
SCRIPT = r"""
PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin; export PATH
LC_ALL=C; export LC_ALL
mark=$1; most=$2; shift 2
exec 3>&1
WHERE
gnu=; timeout --version >/dev/null 2>&1 && gnu=yes
bounded() {
  if [ -n "$gnu" ]; then timeout -k 1 "$@"; return; fi
  seconds=$1; shift
  "$@" & worker=$!
  { sleep "$seconds" & nap=$!; trap 'kill "$nap"' TERM; wait "$nap" && kill -9 "$worker"; } >/dev/null 2>&1 3>&- 4>&- &
  guard=$!
  wait "$worker"; code=$?
  kill "$guard" 2>/dev/null
  return "$code"
}
one() {
  name=$1 tool=$2 limit=$3 count=$4; shift 4
  total=$#; turned=0
  while [ "$turned" -lt "$count" ]; do set -- "$@" "$1"; shift; turned=$((turned + 1)); done
  shift $((total - count))
  printf '\n%s begin %s\n' "$mark" "$name"
  if ! found=$(where "$tool"); then printf '\n%s missing\n' "$mark"; return; fi
  [ "$1" = "$tool" ] && { shift; set -- "$found" "$@"; }
  said=$({ { bounded "$limit" "$@" 2>&4; printf '\n%s' "$?" >&4; } </dev/null | head -c "$most" >&3; } 4>&1)
  printf '\n%s end %s\n' "$mark" "$said"
}
printf '%s clock %s\n' "$mark" "$(date +%s.%N)"
while [ $# -gt 0 ]; do
  words=$4
  one "$@"
  shift $((4 + words))
done
printf '\n%s clock %s\n' "$mark" "$(date +%s.%N)"
""".replace("WHERE", WHERE.strip())
"""Its words: a mark that no output has, the most bytes of a command's output, then for each command its name, the tool
to look for, its limit in seconds, the number of its words, its words. What a command says goes straight out; its
standard error, with its exit code as the last line, comes after the mark at its end. Programs are found by `where`:
some shells have an `ip` or a `ping` of their own, and it is not the one that we mean. Busybox's `timeout` keeps the
output open for up to a second after the command's end, so there the shell itself sees to the limit."""


@dataclass(frozen=True)
class ClockOffset:
    """How far the host's clock is ahead of ours (seconds), and by how much that may be wrong."""

    offset_s: float
    error_s: float


@dataclass(frozen=True)
class Collected:
    """What one host said of itself. `clock` None: its `date` tells no time."""

    known: Known
    clock: ClockOffset | None


def arguments(facts: Sequence[Fact[Any]], mark: str) -> list[str]:
    """argv of the script for these facts."""
    words = ["sh", "-c", SCRIPT, "facts", mark, str(MOST_BYTES)]
    for fact in facts:
        words += [fact.name, fact.tool, f"{fact.limit_s:g}", str(len(fact.argv)), *fact.argv]
    return words


def collect(host: Host, facts: Sequence[Fact[Any]]) -> Collected:
    """Runs all commands on the host. InfraError (CommandError, ReachError) when the host cannot be asked."""
    mark = f"=={secrets.token_hex(12)}"
    if isinstance(host, SshHost):
        host.link.open()  # connecting is not to count for the clock
    before_ns = time_ns()
    answer = host.run(arguments(facts, mark), timeout_s=WHOLE_LIMIT_S, check=False)
    after_ns = time_ns()
    raws, clocks = split(answer.stdout, mark)
    if len(clocks) != 2:
        tail = answer.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise InfraError(f"{host.name}: cannot be examined: {tail[0]}", "a POSIX shell and coreutils are needed there")
    told = read_versions(raws.get("versions"))
    values = {fact.name: fact.read(raws.get(fact.name, Raw("", "", None)), told.get(fact.tool, "")) for fact in facts}
    return Collected(Known(values), offset(before_ns, clocks[0], clocks[1], after_ns))


def split(text: str, mark: str) -> tuple[dict[str, Raw], list[str]]:
    """What the script printed, by the commands' names; and the two times it told."""
    raws: dict[str, Raw] = {}
    clocks: list[str] = []
    name, body = "", ""
    pattern = rf"^{re.escape(mark)} (begin|end|missing|clock)(?: (.*))?\n"
    parts = re.split(pattern, text, flags=re.MULTILINE)
    for kind, word, after in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        if kind == "clock":
            clocks.append((word or "").strip())
        elif kind == "begin":
            name, body = (word or "").strip(), after
        elif kind == "missing":
            raws[name] = Raw("", "", None)
        else:
            said, _, code = f"{word or ''}\n{after}".strip().rpartition("\n")
            raws[name] = Raw(body.removesuffix("\n"), said, int(code) if code.strip().isdecimal() else 1)
    return raws, clocks


def read_versions(raw: Raw | None) -> dict[str, str]:
    """The first line that each tool says of itself, by tool."""
    lines = raw.stdout.splitlines() if raw else []
    return {tool: line.strip() for tool, _, line in (each.partition("\t") for each in lines)}


def offset(before_ns: int, first: str, last: str, after_ns: int) -> ClockOffset | None:
    """As NTP does: their two readings lie between our two. Both ways are taken to last equally long."""
    there = [each for text in (first, last) if (each := _nanoseconds(text)) is not None]
    if len(there) != 2:
        return None
    whole_ns = 0 if re.fullmatch(r"\d+\.\d+", first) else 500_000_000
    middle_ns = ((there[0] - before_ns) + (there[1] - after_ns)) / 2
    error_ns = abs((after_ns - before_ns) - (there[1] - there[0])) / 2
    return ClockOffset(middle_ns / 1e9, (error_ns + whole_ns) / 1e9)


def _nanoseconds(text: str) -> int | None:
    """Of `SECONDS.FRACTION`; a small `date` knows no fractions and leaves `%N`: then the middle of the second."""
    found = re.fullmatch(r"(\d+)(?:\.(\d+|%N|N)?)?", text)
    if found is None:
        return None
    fraction = found[2] if found[2] and found[2].isdecimal() else "5"
    return int(found[1]) * 10**9 + int(fraction.ljust(9, "0")[:9])
