"""What is wrong with a timeline as a whole: places that do not exist, total loss, overlaps, what never comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations

from chaos.model import FaultSpec

Place = tuple[str | int, ...]
Report = Callable[[Place, str], None]


def problems_of_timeline(
    faults: Mapping[int, FaultSpec], iterations: int | None, nics: Mapping[str, list[str]] | None, report: Report
) -> None:
    """Reports everything wrong with faults that are right one by one.

    `nics` are the topology's, by host; None when the topology could not be read, and `iterations` likewise.
    """
    for index, fault in faults.items():
        if iterations is not None and fault.at.iteration is not None and fault.at.iteration >= iterations:
            report(
                ("faults", index, "at", "iteration"),
                f"iteration {fault.at.iteration} is never reached: the last one is {iterations - 1}",
            )
    real = {index: fault for index, fault in faults.items() if nics is None or _exists(index, fault, nics, report)}
    for (_, first), (index, second) in combinations(real.items(), 2):
        if (first.host, first.nic) == (second.host, second.nic) and overlap(first, second):
            report(
                ("faults", index, "at"),
                f"overlaps {first.id} on {first.host} {first.nic}: a NIC is broken once at a time",
            )
    for index, fault in real.items() if nics is not None else ():
        _total_loss(index, fault, list(real.values()), nics or {}, report)


def _exists(index: int, fault: FaultSpec, nics: Mapping[str, list[str]], report: Report) -> bool:
    place: Place = ("faults", index)
    if fault.host not in nics:
        report((*place, "host"), f"the topology has no host {fault.host}; it has {', '.join(nics)}")
        return False
    if fault.nic not in nics[fault.host]:
        report((*place, "nic"), f"{fault.host} has no NIC {fault.nic}; it has {', '.join(nics[fault.host])}")
        return False
    return True


def overlap(first: FaultSpec, second: FaultSpec) -> bool:
    """True when both are certain to be active together: known by time, or struck in the same iteration.

    How long iterations take is not known before the run; a fault that would strike a NIC still broken by another one is
    refused by the runner when it happens.
    """
    one, two = sorted((first, second), key=_start)
    if one.at.time_s is not None and two.at.time_s is not None:
        return two.at.time_s < one.at.time_s + one.lasts_s
    return one.at.iteration is not None and one.at.iteration == two.at.iteration


def _start(fault: FaultSpec) -> float:
    if fault.at.time_s is not None:
        return fault.at.time_s
    return (fault.at.iteration or 0) + (fault.at.fraction or 0.0)


def _total_loss(
    index: int, fault: FaultSpec, faults: list[FaultSpec], nics: Mapping[str, list[str]], report: Report
) -> None:
    """A host with no path left can do nothing but hold: that has to be asked for."""
    if fault.allow_total_loss:
        return
    gone = {
        other.nic for other in faults if other.host == fault.host and (other is fault or _may_overlap(fault, other))
    }
    if gone == set(nics[fault.host]):
        report(("faults", index), f"leaves {fault.host} without any path; say allow_total_loss: true if that is meant")


def _may_overlap(first: FaultSpec, second: FaultSpec) -> bool:
    """Unlike `overlap`, true unless it is certain that they are apart: total loss must never happen by surprise."""
    if (first.at.time_s is None) != (second.at.time_s is None) or first.at.time_s is None:
        return True
    return overlap(first, second)
