"""How much longer bytes take without some NICs: two hosts can still exchange what both have left, rail by rail.

A rail is the NICs with the same place on all hosts, joined by one switch: what h1 lost of rail 0 and h2 of rail 3 is
lost to what they send each other on both (docs/internals/schedules.md). Where all NICs see each other only sums count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chaos.analysis.paths import addresses
from chaos.analysis.rundata import Connection, Nic, RunData

Flows = Mapping[tuple[str, str], float]
"""(sending host, receiving host) -> chunks, or anything in proportion."""


@dataclass(frozen=True)
class Fabric:
    """Each host's NICs by their place. `rails`: no NIC reaches one of another place."""

    nics: Mapping[str, Sequence[str]]
    rails: bool = True

    def whole(self, host: str) -> list[float]:
        """What a host has while nothing is lost, as many places as the host with most."""
        most = max((len(names) for names in self.nics.values()), default=1)
        own = len(self.nics.get(host, ())) or most
        return [1.0] * own + [0.0] * (most - own)

    def left(self, lost: Mapping[Nic, float]) -> dict[str, list[float]]:
        """What each host that lost anything has left of each of its NICs, 0 to 1."""
        found = {host: self.whole(host) for host, _ in lost}
        for (host, nic), share in lost.items():
            place, ports = self._place(host, nic)
            found[host][place] = max(0.0, found[host][place] - share / ports)
        return found

    def place(self, host: str, nic: str) -> int | None:
        """Where a NIC, or a port of a merged one (`eth0+eth1`), is among its host's; None when it is not."""
        names = self.nics.get(host, ())
        return next((place for place, name in enumerate(names) if nic in (name, *name.split("+"))), None)

    def _place(self, host: str, nic: str) -> tuple[int, int]:
        """With the number of ports; one that the ranks call otherwise has the place that its number says."""
        place = self.place(host, nic)
        if place is not None:
            name = self.nics[host][place]
            return place, 1 if nic == name else len(name.split("+"))
        digits = "".join(letter for letter in nic if letter.isdigit())
        return int(digits or 0) % len(self.whole(host)), 1


def fabric(data: RunData) -> Fabric:
    """As the ranks and the controller tell it; a path between two places shows that all NICs see each other."""
    told = next(iter(data.by_event.get("run_start", [])), {})
    nics = {host: list(names) for host, names in told.get("nics", {}).items()}
    starts = data.by_event.get("bench_start", [])
    nics |= {str(line["host"]): [str(nic) for nic in line["nics"]] for line in starts if line["nics"]}
    made = Fabric(nics)
    return Fabric(made.nics, rails=not told.get("one_subnet") and not _crossed(data, made))


def _crossed(data: RunData, made: Fabric) -> bool:
    """Whether any path joined NICs of different places."""
    host_of = addresses(data)
    for line in data.by_event.get("path", []):
        here = made.place(str(line["host"]), str(line["nic"]))
        there = line.get("peer_nic")
        if isinstance(there, str):
            there = made.place(host_of.get(str(line.get("peer")), str(line["host"])), there)
        if line["state"] == "active" and here is not None and there is not None and there not in (-1, here):
            return True
    return False


def flows(connections: Iterable[Connection], chunks: Mapping[tuple[int, str], float]) -> Flows:
    """What hosts send each other when their connections carry `chunks`."""
    found: dict[tuple[str, str], float] = defaultdict(float)
    for connection in connections:
        found[connection.sender[0], connection.receiver[0]] += chunks.get(connection.key, 0.0)
    return dict(found)


def flows_of_paths(data: RunData) -> Flows:
    """The same where deliveries are not told: all connections that `path` lines know carry alike."""
    host_of = addresses(data)
    ends = {
        (str(line["host"]), str(line.get("peer", "")), str(line["connection"]))
        for line in data.by_event.get("path", [])
        if line.get("direction") == "recv"
    }
    return Counter((host_of[peer], host) for host, peer, _ in ends if peer in host_of)


def stretch(made: Fabric, lost: Mapping[Nic, float], sent: Flows) -> float | None:
    """How many times as long it takes at best; None where a host has nothing left, or shares no rail with its peer."""
    left = made.left(lost)
    work = [(sum(made.whole(host)), sum(nics)) for host, nics in left.items()]
    if made.rails:
        for (one, other), share in _shares(sent).items():
            both = [left.get(host, made.whole(host)) for host in (one, other)]
            healthy = min(sum(made.whole(host)) for host in (one, other))
            work.append((share * healthy, sum(map(min, *both))))
    if any(capacity <= 0 for _, capacity in work):
        return None
    return max(1.0, *(needed / capacity for needed, capacity in work)) if work else 1.0


def _shares(sent: Flows) -> dict[tuple[str, str], float]:
    """Each pair's part of all that the busier of the two sends or receives; what stays in a host needs no NIC."""
    away = {pair: chunks for pair, chunks in sent.items() if pair[0] != pair[1] and chunks > 0}
    out: dict[str, float] = defaultdict(float)
    into: dict[str, float] = defaultdict(float)
    for (one, other), chunks in away.items():
        out[one] += chunks
        into[other] += chunks
    return {(one, other): chunks / max(out[one], into[other]) for (one, other), chunks in away.items()}
