"""What is armed on a host: a script that undoes a fault, and what it says of itself. Pure: nothing runs here."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from chaos.faults.steps import Command

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,95}")
PATIENCE = 6
"""A step of an undo that takes so many times its limit is ended, and the whole tried again."""
HEAD = """\
#!/bin/sh
# about: {about}
# Undoes what r2cc broke on this host. Safe to run by hand, any number of times: sh undo.sh
PATH="$PATH:/usr/sbin:/sbin"; export PATH

# A step, by its program's path: busybox's timeout would take a command of its own.
run() {{
  limit=$1; program=$(command -v "$2") || {{ echo "there is no $2"; return 127; }}
  shift 2; timeout -k 5 "$limit" "$program" "$@"
}}

undo() {{
  bad=0
{steps}  return $bad
}}
"""
CONTINUE = (
    r'for file in $(grep -lsE "^(NSpid|Pid):(.*[[:space:]])?$1\$" /proc/[0-9]*/status); do '
    "pid=${file#/proc/}; pid=${pid%/status}; "
    'now=$(sed "s/.*) //" "/proc/$pid/stat" 2>/dev/null | cut -d " " -f 20); [ "$now" = "$2" ] || continue; '
    'kill -s CONT -- "-$pid" 2>/dev/null || kill -s CONT "-$pid" 2>/dev/null || kill -s CONT "$pid"; done'
)
"""Lets a process go on, with its group, unless its number is another's by now: field 22 of its stat, when it began. A
container's process has that number in its own namespace, and another one for whoever sees its node. A kernel without
such namespaces says `Pid` alone."""


@dataclass(frozen=True)
class Undo:
    """What one host is armed with. `about` is what `r2cc panic` needs to say what it undid, and to verify it."""

    id: str
    steps: tuple[Command, ...]
    about: Mapping[str, Any] = field(default_factory=dict)

    def script(self) -> str:
        """The whole of undo.sh. Words are quoted, so that they can be nothing but words. ValueError for a NUL."""
        steps = "".join(f"  {_line(step)} || bad=1\n" for step in self.steps)
        about = json.dumps(self.about, separators=(",", ":"), ensure_ascii=True)
        return HEAD.format(about=about, steps=steps) + shell_text("undo.sh")


def _line(step: Command) -> str:
    if "\0" in step.input or any("\0" in word for word in step.argv):
        raise ValueError(f"{step.on}: a NUL cannot be armed")
    line = shlex.join(("run", f"{step.limit_s * PATIENCE:.0f}", *step.argv))
    return f"printf %s {shlex.quote(step.input)} | {line}" if step.input else f"{line} </dev/null"


def continue_step(host: str, pid: int, began: str) -> Command:
    """SIGCONT to a rank, by whoever undoes."""
    return Command(host, ("sh", "-c", CONTINUE, "r2cc", str(pid), began))


def began_at(stat: str) -> str:
    """When a process began, from its /proc/PID/stat. ValueError when that is no such text."""
    fields = stat.rpartition(")")[2].split()
    if len(fields) < 20 or not fields[19].isdigit():
        raise ValueError("no /proc/PID/stat")
    return fields[19]


@cache
def shell_text(name: str) -> str:
    """One of the shell scripts beside this file."""
    return (resources.files("chaos.deadman") / name).read_text(encoding="utf-8")


def command(word: str, *words: str) -> list[str]:
    """host.sh as a command line for a host."""
    return ["sh", "-c", shell_text("host.sh"), "r2cc", word, *words]


@dataclass(frozen=True)
class Found:
    """A record on a host. `state`: armed, undone (by `undone`), or failed: its timer has given up."""

    id: str
    state: str
    left_s: float
    timer: str
    about: Mapping[str, Any]
    undone: str = ""


def parse_list(text: str) -> list[Found]:
    """What `list` prints. ValueError when it is cut short or no such text."""
    lines = text.splitlines()
    if not lines or lines[-1] != "end":
        raise ValueError("its answer is cut short")
    found = []
    for head, about, undone in _triples(lines[:-1]):
        word, name, state, left, timer = head.split()
        if word != "record" or not ID.fullmatch(name):
            raise ValueError(f"no record: {head[:80]}")
        told = json.loads(about)
        found.append(
            Found(name, state, int(left) / 100, timer, told if isinstance(told, dict) else {}, undone[len("undone ") :])
        )
    return found


def _triples(lines: Sequence[str]) -> list[Sequence[str]]:
    if len(lines) % 3:
        raise ValueError("its answer is cut short")
    return [lines[index : index + 3] for index in range(0, len(lines), 3)]
