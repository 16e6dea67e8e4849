"""Many names as one range in ClusterShell's notation; `harness.hosts.ranges.expand` is the way back."""

from __future__ import annotations

import re
from collections.abc import Iterable

NUMBERED = re.compile(r"(?P<before>.*?)(?P<number>\d+)(?P<after>\D*)")


def fold(names: Iterable[str]) -> str:
    """`h0 h1 h2 login` becomes `h[0-2],login`. The last number of a name is what counts."""
    groups: dict[tuple[str, str, int], list[str]] = {}
    order: list[tuple[str, str, int]] = []
    for name in dict.fromkeys(names):
        found = NUMBERED.fullmatch(name)
        key = (found["before"], found["after"], _width(found["number"])) if found else (name, "", -1)
        if key not in groups:
            order.append(key)
        groups.setdefault(key, []).append(found["number"] if found else "")
    return ",".join(_one(*key, groups[key]) for key in order)


def _width(number: str) -> int:
    """Numbers of one group are written with as many digits; 0: as they come."""
    return len(number) if len(number) > 1 and number.startswith("0") else 0


def _one(before: str, after: str, width: int, numbers: list[str]) -> str:
    if width < 0:
        return before
    if len(numbers) == 1:
        return f"{before}{numbers[0]}{after}"
    return f"{before}[{','.join(_runs(sorted(int(each) for each in numbers), width))}]{after}"


def _runs(numbers: list[int], width: int) -> list[str]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    ends = [(str(run[0]).zfill(width), str(run[-1]).zfill(width)) for run in runs]
    return [first if first == last else f"{first}-{last}" for first, last in ends]
