"""Many names as one range in ClusterShell's notation; `harness.sites.ranges.expand` is the way back."""

from __future__ import annotations

import re
from collections.abc import Iterable

NUMBERED = re.compile(r"(?P<before>.*?)(?P<number>\d+)(?P<after>\D*)")


def fold(names: Iterable[str]) -> str:
    """`h0 h1 h2 login` becomes `h[0-2],login`. The last number of a name is what counts."""
    found = {name: NUMBERED.fullmatch(name) for name in dict.fromkeys(names)}
    padded = {
        (match["before"], match["after"], len(match["number"]))
        for match in found.values()
        if match and len(match["number"]) > 1 and match["number"].startswith("0")
    }
    groups: dict[tuple[str, str, int], list[str]] = {}
    for name, match in found.items():
        if match is None:
            groups[name, "", -1] = []
            continue
        before, number, after = match["before"], match["number"], match["after"]
        width = len(number) if (before, after, len(number)) in padded else 0
        groups.setdefault((before, after, width), []).append(number)
    return ",".join(_one(*key, numbers) for key, numbers in groups.items())


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
