"""What injecting, reverting and probing a fault consist of: plain descriptions, carried out by actors.py."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

SWITCH = "switch"
BATCHES = {"ip": ("ip", "-batch", "-"), "tc": ("tc", "-batch", "-"), "nft": ("nft", "-f", "/proc/self/fd/0")}
"""Programs that read from stdin what else are their words. nft joins its words itself; its own "-" needs /dev/stdin."""
PLAIN = re.compile(r"[\w.:/@%+-]+")
"""A word that a batch does not take apart."""


@dataclass(frozen=True)
class Command:
    """One process, run to its end. `input` is what it reads from stdin: many changes in one process."""

    on: str
    argv: tuple[str, ...]
    input: str = ""
    limit_s: float = 5.0

    def waiting(self) -> tuple[tuple[str, ...], str] | None:
        """The same as a process that does nothing before it has read its input, and that input. None: there is none."""
        if self.input:
            return (self.argv, self.input) if self.argv in BATCHES.values() else None
        program, *words = self.argv
        batch = BATCHES.get(program)
        if batch is None or not words or words[0].startswith("-"):
            return None
        if program != "nft" and not all(map(PLAIN.fullmatch, words)):
            return None
        return batch, " ".join(words) + "\n"

    def text(self) -> str:
        """As one would type it there."""
        return shlex.join(self.argv) + (f" <<< {shlex.quote(self.input.rstrip())}" if self.input else "")


@dataclass(frozen=True)
class Signal:
    """A signal to one rank of the workload, by its own handle."""

    rank: int
    name: str

    def text(self) -> str:
        return f"kill -{self.name.removeprefix('SIG')} RANK{self.rank}"


@dataclass(frozen=True)
class Look:
    """Reads a file of a rank's folder in /proc."""

    rank: int
    file: str

    def text(self) -> str:
        return f"cat /proc/RANK{self.rank}/{self.file}"


@dataclass(frozen=True)
class Start:
    """Starts a helper that ends by itself; `name` tells it apart."""

    on: str
    name: str
    argv: tuple[str, ...]

    def text(self) -> str:
        return shlex.join(self.argv) + " &"


@dataclass(frozen=True)
class Stop:
    """Ends a helper; nothing happens when it has ended."""

    on: str
    name: str

    def text(self) -> str:
        return f"kill {self.name}"


@dataclass(frozen=True)
class Alive:
    """Asks whether a helper runs: `running` or nothing."""

    on: str
    name: str

    def text(self) -> str:
        return f"is {self.name} running?"


Step = Command | Signal | Look | Start | Stop | Alive


class Answer(Protocol):
    """What a step left behind."""

    @property
    def exit_code(self) -> int: ...
    @property
    def stdout(self) -> str: ...


def place_of(step: Step) -> str:
    """Where a step happens, for people."""
    return f"rank {step.rank}" if isinstance(step, Signal | Look) else step.on


def text_of(steps: Sequence[Step]) -> str:
    return " && ".join(step.text() for step in steps)
