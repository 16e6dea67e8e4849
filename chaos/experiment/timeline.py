"""What is wrong with a timeline as a whole: places that do not exist, total loss, overlaps, what never comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from chaos.experiment.overlaps import Cuts, cuts_of, overlapping
from chaos.faults.spec import FaultSpec
from harness.config.words import listed

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
    for index, earlier, thing in overlapping(real, broken):
        what = f"overlaps {real[earlier].id} on {' '.join(thing)}: a NIC is broken once at a time"
        report(("faults", index, "at"), what)
    if nics is not None:
        _total_losses(real, nics, report)


def places_of(fault: FaultSpec, nics: Mapping[str, list[str]]) -> set[tuple[str, str]]:
    """What no two faults may break together: NICs, or a rank in the same way."""
    named = {(fault.host, fault.nic)} if fault.nic else set()
    return set(fault.targets(dict(nics))) or named or {(fault.kind, f"{fault.host}{fault.rank}")}


def _chains(faults: Mapping[int, FaultSpec], report: Report) -> None:
    """`after` must name another fault, one that comes to an end where that is waited for, and no circle."""
    by_id = {fault.id: fault for fault in faults.values()}
    circling = _circling(by_id)
    for index, fault in faults.items():
        place: Place = ("faults", index, "at", "after")
        before = fault.at.after
        if before is not None and before not in by_id:
            report(place, f"there is no fault {before}; there are {listed(by_id)}")
        elif before is not None and by_id[before].forever and fault.at.event == "reverted":
            report(place, f"{before} is never undone")
        if fault.id in circling:
            report(place, f"{fault.id} waits for itself")


def _circling(by_id: Mapping[str, FaultSpec]) -> set[str]:
    """Faults that stand in a circle of `after`, or wait for one."""
    circling, known = set[str](), set[str]()
    for name in by_id:
        chain: dict[str, None] = {}
        step: str | None = name
        while step is not None and step in by_id and step not in known and step not in chain:
            chain[step] = None
            step = by_id[step].at.after
        if step in chain or step in circling:
            circling.update(chain)
        known.update(chain)
    return circling


def _exists(index: int, fault: FaultSpec, nics: Mapping[str, list[str]], report: Report, per_host: int) -> bool:
    found: list[tuple[str, str]] = []
    if fault.where == "host" or fault.nic:
        found += [("host", f"the topology has no host {fault.host}; it has {listed(nics)}")] * (fault.host not in nics)
    if fault.nic and fault.host in nics and fault.nic not in nics[fault.host]:
        found.append(("nic", f"{fault.host} has no NIC {fault.nic}; it has {listed(nics[fault.host])}"))
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


def _total_losses(faults: Mapping[int, FaultSpec], nics: Mapping[str, list[str]], report: Report) -> None:
    """A host with no path left can do nothing but hold: that has to be asked for."""
    cutting = {index: fault.targets(dict(nics)) for index, fault in faults.items() if fault.cuts}
    cuts = cuts_of(faults, cutting)
    for index, targets in cutting.items():
        alone = None if faults[index].allow_total_loss else _alone(faults[index], targets, nics, cuts)
        if alone is not None:
            report(("faults", index), f"leaves {alone} without any path; say allow_total_loss: true if that is meant")


def _alone(
    fault: FaultSpec,
    targets: Sequence[tuple[str, str]],
    nics: Mapping[str, list[str]],
    cuts: Mapping[tuple[str, str], Cuts],
) -> str | None:
    """The first host that may have no NIC left while the fault lasts."""

    def lost(host: str, nic: str) -> bool:
        return (host, nic) in cut or ((host, nic) in cuts and cuts[host, nic].may_meet(fault))

    cut = set(targets)
    hosts = dict.fromkeys(host for host, _ in targets)
    return next((host for host in hosts if all(lost(host, nic) for nic in nics[host])), None)
