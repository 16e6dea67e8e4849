"""Faults that act inside the ranks, without any privilege: by a library that is preloaded there.

The library (r2cc_patches/faults) looks into a folder for rule files, and writes beside each what it hit. A rule that is
removed is undone. docs/internals/fault-shim.md has the format.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from chaos.faults.fault import Fault, NicLike, agreed, by_host
from chaos.faults.spec import FaultSpec
from chaos.faults.steps import Answer, Command, Step

LIBRARY = "libr2cc_faults.so"
ENVIRONMENT = "R2CC_FAULTS"
HEAD, END = "r2cc-faults 1", "end"
PUT = r"""
umask 022
folder=${1%/*}
if ! mkdir -m 1777 -- "$folder" 2>/dev/null && ! { [ -d "$folder" ] && [ ! -L "$folder" ] && [ -O "$folder" ]; }; then
  echo "$folder cannot be made, or somebody else made it: remove it" >&2
  exit 1
fi
cat >"$1.new$$" && mv -f -- "$1.new$$" "$1"
"""
"""Takes the file, and its text from stdin. The library never sees half of it."""
REMOVE = r"""
rm -f -- "$1" "$1.hits"
rmdir -- "${1%/*}" 2>/dev/null || true
"""


class ShimSpec(FaultSpec):
    """An entry of the timeline that acts by the library."""

    def libraries(self, rank: int) -> tuple[str, ...]:
        """All ranks: each sees by the rules whether they are for its host."""
        return (LIBRARY,)

    def rank_env(self, rank: int) -> dict[str, str]:
        return {ENVIRONMENT: str(folder())}


@dataclass(frozen=True)
class ShimFault(Fault, ABC):
    """One rule a NIC, one file a host."""

    requires = ("sh", "rm", "cat")
    privilege = "none"
    confirm_s: ClassVar[float] = 5.0
    inside_ranks: ClassVar[bool] = True
    victim: ClassVar[str] = "TCP connection"
    """What a rule hits, as the error says that none was."""

    @abstractmethod
    def rule(self, nic: NicLike) -> str:
        """A line of the file."""

    @abstractmethod
    def known_as(self, nic: NicLike) -> str:
        """The NIC's name in rules and answers."""

    def inject(self) -> list[Step]:
        return [
            Command(host, ("sh", "-c", PUT, "r2cc", file), "".join(f"{line}\n" for line in (HEAD, *rules, END)))
            for host, file, rules in self._files()
        ]

    def revert(self) -> list[Step]:
        return [Command(host, ("sh", "-c", REMOVE, "r2cc", file)) for host, file, _ in self._files()]

    def probe(self) -> list[Step]:
        return [Command(host, ("cat", "--", file, f"{file}.hits")) for host, file, _ in self._files()]

    def is_active(self, answers: Sequence[Answer]) -> bool | None:
        """When a rule of each NIC has hit something; where it may miss, when a rank has seen the rules.

        ValueError for rules that a rank refuses.
        """
        found = []
        for host, answer in zip(self._hosts, answers, strict=True):
            said = Said.by(answer)
            if said.refused:
                raise ValueError(f"{host}: a rank refuses the rules: {said.refused}")
            obeyed = self.spec.may_miss and said.seen
            mine = [nic for nic in self.nics if nic.host == host]
            found += [said.there and (obeyed or self.known_as(nic) in said.hits) for nic in mine]
            if said.there and not all(found):
                return None
        return agreed(found)

    def why_not(self, answers: Sequence[Answer]) -> str:
        every = {host: Said.by(answer) for host, answer in zip(self._hosts, answers, strict=True)}
        if blind := [host for host, said in every.items() if not said.seen]:
            return f"no rank with {LIBRARY} saw the rules on {', '.join(blind)}"
        missed = [f"{nic.host} {nic.name}" for nic in self.nics if self.known_as(nic) not in every[nic.host].hits]
        return f"no {self.victim} of {', '.join(missed)} matched" if missed else ""

    def seen(self, answers: Sequence[Answer]) -> Mapping[str, Any]:
        """How many were hit, and when the first was (CLOCK_MONOTONIC of its host, as all times of a run)."""
        hits = [hit for answer in answers for hit in Said.by(answer).hits.values()]
        if not hits:
            return {}
        return {"hits": sum(hit.count for hit in hits), "first_hit_ns": min(hit.first_ns for hit in hits)}

    @property
    def _hosts(self) -> list[str]:
        return list(by_host(self.nics))

    def _files(self) -> Iterator[tuple[str, str, list[str]]]:
        """Of each host, its file and its rules. Hosts of the lab share a file system: the names differ."""
        for number, host in enumerate(self._hosts):
            rules = [self.rule(nic) for nic in self.nics if nic.host == host]
            yield host, str(folder() / f"{self.spec.id}-{number}"), rules


@dataclass(frozen=True)
class Hit:
    """Of one NIC, over all ranks of its host."""

    count: int
    first_ns: int


@dataclass(frozen=True)
class Said:
    """What a probe found: the rule file, if it is there, and what ranks answered."""

    there: bool
    seen: bool
    refused: str
    hits: Mapping[str, Hit]

    @classmethod
    def by(cls, answer: Answer) -> Said:
        lines = [line.split() for line in answer.stdout.splitlines()]
        counts: dict[tuple[str, str], int] = {}
        first: dict[str, int] = {}
        for words in lines:
            if len(words) == 5 and words[0] == "hit" and words[3].isdigit() and words[4].isdigit():
                counts[words[2], words[1]] = int(words[3])
                first.setdefault(words[2], int(words[4]))
        sums = {nic: sum(n for (of, _), n in counts.items() if of == nic) for nic in first}
        hits = {nic: Hit(count, first[nic]) for nic, count in sums.items() if count}
        refused = next((" ".join(words[2:]) for words in lines if words[:1] == ["refused"]), "")
        there = HEAD.split() in lines
        return cls(there, any(words[:1] == ["seen"] for words in lines), refused, hits)


def line(kind: str, target: str, action: str, settings: Mapping[str, object]) -> str:
    """A rule; settings that are None are left out."""
    return " ".join(
        [kind, target, action, *(f"{name}={value}" for name, value in settings.items() if value is not None)]
    )


def folder() -> Path:
    """One a controller, so that two experiments do not meet."""
    return Path(tempfile.gettempdir()) / f"r2cc-faults-{os.getpid()}"
