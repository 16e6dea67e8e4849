"""Where every NIC stands, from a journal's lines as they come: state, what it carries, faults and their countdowns."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

WINDOW_NS = 1_000_000_000
"""Rates are those of the last second."""
MARK_NS = 100_000_000
BROKEN, WORRYING, FINE = "bold red", "yellow", "green"
STYLES = {"up": FINE, "no carrier": BROKEN, "down": BROKEN, "armed": "cyan"}

Line = Mapping[str, Any]
Place = tuple[str, str]
"""Host and NIC."""


@dataclass
class Carried:
    """Counters of a NIC over the last second or so: (when, sent, received)."""

    marks: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=WINDOW_NS // MARK_NS + 2))
    last: tuple[int, int, int] | None = None

    def count(self, t_ns: int, tx_bytes: int, rx_bytes: int) -> None:
        self.last = (t_ns, tx_bytes, rx_bytes)
        if not self.marks or t_ns - self.marks[-1][0] >= MARK_NS:
            self.marks.append(self.last)

    def rates_gbit(self, now_ns: int) -> tuple[float, float]:
        """Sent and received. Samples leave a NIC out whose counters stand still: it carries nothing."""
        if self.last is None:
            return 0.0, 0.0
        older = [mark for mark in self.marks if mark[0] <= now_ns - WINDOW_NS]
        base = older[-1] if older else self.marks[0]
        passed_ns = max(now_ns, self.last[0]) - base[0]
        if passed_ns < MARK_NS:
            return 0.0, 0.0
        return (self.last[1] - base[1]) * 8 / passed_ns, (self.last[2] - base[2]) * 8 / passed_ns


@dataclass
class Trouble:
    """One fault of the run: what it does where, and since when."""

    kind: str
    host: str
    nics: list[Place]
    phase: str = "armed"
    cycle: int = 0
    since_ns: int = 0
    timer_ns: int | None = None
    """When the host undoes it by itself, should nobody do so before."""

    @property
    def active(self) -> bool:
        return self.phase in ("injected", "active")


@dataclass
class NicState:
    """One NIC. `judged` is what the net library thinks of it; empty: nothing bad."""

    carrier: bool = True
    judged: str = ""
    carried: Carried = field(default_factory=Carried)

    @property
    def state(self) -> str:
        return (self.judged or "up") if self.carrier else "no carrier"


class Grid:
    """Feed it lines; look at it at any time. Of the experiment it knows how long each outage of each fault lasts."""

    def __init__(self, lasts_s: Mapping[str, Sequence[float]] | None = None) -> None:
        self._lasts_s = dict(lasts_s or {})
        self.nics: dict[Place, NicState] = {}
        self.faults: dict[str, Trouble] = {}
        self.now_ns = 0
        """Time of the newest line."""

    def feed(self, line: Line) -> str | None:
        """Takes a line in. Returns what a reader without a grid should be told of it, if anything."""
        self.now_ns = max(self.now_ns, int(line.get("t_ns", 0)))
        event = line.get("event")
        if event == "sample":
            self._sample(line)
        elif event == "fault":
            self._fault(line)
        elif event in ("link", "nic"):
            return self._changed(line)
        elif event == "run_start":
            self._start(line)
        return None

    def _start(self, line: Line) -> None:
        self.faults = {}
        self.nics = {(host, nic): NicState() for host, nics in line.get("nics", {}).items() for nic in nics}

    def _nic(self, host: str, nic: str) -> NicState:
        return self.nics.setdefault((host, nic), NicState())

    def _sample(self, line: Line) -> None:
        for name, counted in line["nics"].items():
            self._nic(line["host"], name).carried.count(line["t_ns"], counted["tx_bytes"], counted["rx_bytes"])

    def _changed(self, line: Line) -> str | None:
        """Of a carrier, or of what the library thinks of a NIC as a whole; of a single path nothing is shown."""
        if not line.get("nic") or line.get("peer") is not None:
            return None
        nic = self._nic(line["host"], line["nic"])
        before = nic.state
        if line["event"] == "link":
            nic.carrier = bool(line["up"])
        else:
            nic.judged = _judgement(line)
        return None if nic.state == before else f"{line['host']} {line['nic']}: {nic.state}"

    def _fault(self, line: Line) -> None:
        nics = [(host, nic) for host, nic in line.get("nics", [[line["host"], line.get("nic")]]) if nic]
        known = self.faults.setdefault(line["id"], Trouble(line["kind"], line["host"], nics))
        if line["phase"] != "armed" or not known.active:  # else its timer was set again
            known.phase, known.cycle = line["phase"], line.get("cycle", 0)
        if line.get("ttl_s") is not None:
            known.timer_ns = line["t_ns"] + round(line["ttl_s"] * 1e9)
        if line["phase"] == "injected":
            known.since_ns = line.get("before_ns", line["t_ns"])
        elif line["phase"] in ("verified", "missed"):
            known.timer_ns = None

    def on(self, place: Place) -> list[str]:
        """Ids of faults that are active there."""
        return [id_ for id_, fault in self.faults.items() if fault.active and place in fault.nics]

    def undone_in_s(self, id_: str, now_ns: int) -> float | None:
        """Seconds until the experiment undoes it; None: it does not, or nobody said when."""
        fault, lasts_s = self.faults[id_], self._lasts_s.get(id_, ())
        if not fault.active or fault.cycle >= len(lasts_s):
            return None
        return max(0.0, lasts_s[fault.cycle] - (now_ns - fault.since_ns) / 1e9)

    def heals_in_s(self, id_: str, now_ns: int) -> float | None:
        """Seconds until the host undoes it by itself; None: no timer is armed."""
        timer_ns = self.faults[id_].timer_ns
        return None if timer_ns is None else max(0.0, (timer_ns - now_ns) / 1e9)


def _judgement(line: Line) -> str:
    state = str(line["state"])
    if state == "degraded" and "capacity_percent" in line:
        return f"degraded {line['capacity_percent']} %"
    return "" if state in ("up", "located") else state


def view(grid: Grid, now_ns: int, most_hosts: int = 16) -> RenderableType:
    """Hosts by rails, then a line for each fault that is armed or active."""
    from rich.console import Group

    parts: list[RenderableType] = []
    if grid.nics:
        parts.append(_table(grid, now_ns, most_hosts))
    parts += [_fault_line(grid, id_, now_ns) for id_, fault in grid.faults.items() if fault.phase in SHOWN_PHASES]
    return Group(*parts)


SHOWN_PHASES = ("armed", "injected", "active", "reverted")


def _table(grid: Grid, now_ns: int, most_hosts: int) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    by_host: dict[str, list[str]] = {}
    for host, nic in grid.nics:
        by_host.setdefault(host, []).append(nic)
    shown = _hosts_shown(grid, by_host, most_hosts)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("host")
    for rail in range(max(map(len, by_host.values()))):
        table.add_column(f"rail {rail}  Gbit/s out, in")
    for host in shown:
        table.add_row(Text(host), *(_cell(grid, (host, nic), now_ns) for nic in by_host[host]))
    if len(by_host) > len(shown):
        table.add_row(Text(f"and {len(by_host) - len(shown)} more", style="dim"))
    return table


def _hosts_shown(grid: Grid, by_host: Mapping[str, list[str]], most: int) -> list[str]:
    """In their order; where there are too many, those go first whose NICs are not all well."""
    ill = [host for host in by_host if any(_ill(grid, (host, nic)) for nic in by_host[host])]
    chosen = {*[*ill, *(host for host in by_host if host not in ill)][:most]}
    return [host for host in by_host if host in chosen]


def _ill(grid: Grid, place: Place) -> bool:
    return grid.nics[place].state != "up" or bool(grid.on(place))


def _cell(grid: Grid, place: Place, now_ns: int) -> Text:
    from rich.text import Text

    nic = grid.nics[place]
    sent, received = nic.carried.rates_gbit(now_ns)
    text = Text.assemble((place[1], "bold"), " ", (nic.state, STYLES.get(nic.state, WORRYING)))
    text.append(f" {_rate(sent)} {_rate(received)}")
    for id_ in grid.on(place):
        text.append(f" {grid.faults[id_].kind}", BROKEN)
    return text


def _rate(gbit: float) -> str:
    return f"{gbit:.2f}" if gbit < 10 else f"{gbit:.1f}"


def _fault_line(grid: Grid, id_: str, now_ns: int) -> Text:
    from rich.text import Text

    fault = grid.faults[id_]
    where = " ".join(f"{host}:{nic}" for host, nic in fault.nics[:4]) or fault.host
    more = f" and {len(fault.nics) - 4} more" if len(fault.nics) > 4 else ""
    text = Text.assemble((id_, "bold"), f" {fault.kind} {where}{more} ")
    text.append(fault.phase, BROKEN if fault.active else STYLES.get(fault.phase, WORRYING))
    for told in _countdowns(grid, id_, now_ns):
        text.append(f", {told}")
    return text


def _countdowns(grid: Grid, id_: str, now_ns: int) -> Iterator[str]:
    undone_s, heals_s = grid.undone_in_s(id_, now_ns), grid.heals_in_s(id_, now_ns)
    if undone_s is not None:
        yield f"undone in {undone_s:.1f} s"
    if heals_s is not None:
        yield f"its host undoes it by itself in {heals_s:.0f} s"
