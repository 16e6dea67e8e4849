"""What is wrong with a timeline as a whole: places that do not exist, total loss, overlaps, what never comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations

from chaos.fault_spec import CUTTING, RULES, FaultSpec

Place = tuple[str | int, ...]
Report = Callable[[Place, str], None]


def problems_of_timeline(
    faults: Mapping[int, FaultSpec],
    iterations: int | None,
    nics: Mapping[str, list[str]] | None,
    report: Report,
    per_host: int = 1,
) -> None:
    """Reports everything wrong with faults that are right one by one.

    `nics` are the topology's, by host; None when the topology could not be read, and `iterations` likewise;
    `per_host`: ranks of a host.
    """
    for index, fault in faults.items():
        if iterations is not None and fault.at.iteration is not None and fault.at.iteration >= iterations:
            report(
                ("faults", index, "at", "iteration"),
                f"iteration {fault.at.iteration} is never reached: the last one is {iterations - 1}",
            )
    _chains(faults, report)
    real = {
        index: fault for index, fault in faults.items() if nics is None or _exists(index, fault, nics, report, per_host)
    }
    broken = {index: places_of(fault, nics or {}) for index, fault in real.items()}
    for (index_of_first, first), (index, second) in combinations(real.items(), 2):
        common = sorted(broken[index_of_first] & broken[index])
        if common and overlap(first, second):
            report(
                ("faults", index, "at"),
                f"overlaps {first.id} on {' '.join(common[0])}: a NIC is broken once at a time",
            )
    for index, fault in real.items() if nics is not None else ():
        _total_loss(index, fault, list(real.values()), nics or {}, report)


def places_of(fault: FaultSpec, nics: Mapping[str, list[str]]) -> set[tuple[str, str]]:
    """What no two faults may break together: NICs, or a rank in the same way."""
    named = {(fault.host, fault.nic)} if fault.nic else set()
    return set(fault.targets(dict(nics))) or named or {(fault.kind, f"{fault.host}{fault.rank}")}


def _chains(faults: Mapping[int, FaultSpec], report: Report) -> None:
    """`after` must name another fault, one that comes to an end where that is waited for, and no circle."""
    by_id = {fault.id: fault for fault in faults.values()}
    for index, fault in faults.items():
        place: Place = ("faults", index, "at", "after")
        seen, before = {fault.id}, fault.at.after
        if before is not None and before not in by_id:
            report(place, f"there is no fault {before}; there are {', '.join(by_id)}")
            continue
        if before is not None and by_id[before].forever and fault.at.event == "reverted":
            report(place, f"{before} is never undone")
        while before is not None and before in by_id:
            if before in seen:
                report(place, f"{fault.id} waits for itself")
                break
            seen.add(before)
            before = by_id[before].at.after


def _exists(index: int, fault: FaultSpec, nics: Mapping[str, list[str]], report: Report, per_host: int) -> bool:
    found: list[tuple[str, str]] = []
    where = RULES[fault.kind].where
    if where == "host" or fault.nic:
        found += [("host", f"the topology has no host {fault.host}; it has {', '.join(nics)}")] * (
            fault.host not in nics
        )
    if fault.nic and fault.host in nics and fault.nic not in nics[fault.host]:
        found.append(("nic", f"{fault.host} has no NIC {fault.nic}; it has {', '.join(nics[fault.host])}"))
    if fault.rank is not None and fault.rank >= len(nics) * per_host:
        each = f" with {per_host} ranks each" if per_host > 1 else ""
        found.append(("rank", f"there is no rank {fault.rank}: the topology has {len(nics)} hosts{each}"))
    if fault.rail is not None and not fault.targets(dict(nics)):
        found.append(("rail", f"the topology has no rail {fault.rail}"))
    alone = [fault.model_copy(update={"nics": (name,)}) for name in fault.nics]
    found += [("nics", f"{one.nics[0]} is no NIC of the topology") for one in alone if not one.targets(dict(nics))]
    for key, what in found:
        report(("faults", index, key), what)
    return not found


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
    if fault.allow_total_loss or fault.kind not in CUTTING:
        return
    cut = {
        target
        for other in faults
        if other.kind in CUTTING and (other is fault or _may_overlap(fault, other))
        for target in other.targets(dict(nics))
    }
    for host in dict.fromkeys(host for host, _ in fault.targets(dict(nics))):
        if {nic for theirs, nic in cut if theirs == host} == set(nics[host]):
            report(("faults", index), f"leaves {host} without any path; say allow_total_loss: true if that is meant")
            return


def _may_overlap(first: FaultSpec, second: FaultSpec) -> bool:
    """Unlike `overlap`, true unless it is certain that they are apart: total loss must never happen by surprise."""
    if (first.at.time_s is None) != (second.at.time_s is None) or first.at.time_s is None:
        return True
    return overlap(first, second)
