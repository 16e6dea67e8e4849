"""Host by NIC: what each NIC sent while the fault was on, beside what it sent before; the number is in every cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reports.charts import svg
from reports.charts.frame import LEFT, RIGHT, WIDTH, Figure, Key, Panel, empty, panel
from reports.reading.trace import Trace
from reports.words.bytes_table import BytesRow
from reports.words.units import gbit

TOP, ROW = 22.0, 24.0
NARROWEST = 30.0
"""A cell that is narrower has its number in its title alone."""
LEVELS = ((0.1, "under 10 %"), (0.5, "10 to 50 %"), (0.9, "50 to 90 %"), (1.1, "90 to 110 %"), (1.5, "110 to 150 %"))
MOST = "150 % and more"
Tables = Mapping[str, Sequence[BytesRow]]


def figure(traces: Sequence[Trace], tables: Tables) -> Figure | None:
    """None when no NIC has counters. Of a run without a fault the shares are of the NIC that sent most."""
    rows = [row for table in tables.values() for row in table]
    if not rows:
        return None
    hit = any(len(row.spans) > 1 for row in rows)
    what = (
        "The mean rate that each NIC sent while the fault was on, in percent of its rate before it: 0 is a NIC that "
        "carries nothing, over 100 one that carries what others cannot."
        if hit
        else "The mean rate that each NIC sent, in percent of the NIC that sent most."
    )
    panels = [_panel(trace, tables[trace.arm]) for trace in traces]
    labels = [label for _, label in LEVELS] + [MOST]
    keys = [Key(f"heat heat-{number}", label) for number, label in enumerate(labels)]
    return Figure("heat", "Load of each host’s NICs", f"{what} A cell with a frame is the faulted NIC.", panels, keys)


def level(share: float) -> int:
    """The shade of a share, 0 for the least."""
    said = round(share, 2)
    return next((number for number, (below, _) in enumerate(LEVELS) if said < below), len(LEVELS))


def shares(table: Sequence[BytesRow]) -> list[tuple[BytesRow, float | None, str]]:
    """Each NIC's share and where it comes from; None for a NIC that sent nothing before either."""
    most = max((rate for row in table for _, _, rate in row.spans), default=0.0)
    found: list[tuple[BytesRow, float | None, str]] = []
    for row in table:
        rates = {name: rate for name, _, rate in row.spans}
        before, now = rates.get("before", most), rates.get("during", rates.get("whole run", 0.0))
        told = f"{gbit(now)} of {gbit(before)}"
        found.append((row, now / before if before > 0 else None, told))
    return found


def _panel(trace: Trace, table: Sequence[BytesRow]) -> Panel:
    if not table:
        return empty(trace, "heat", "no byte counters in the journal")
    hosts = list(dict.fromkeys(row.nic.host for row in table))
    nics = sorted({row.nic.nic for row in table})
    width = (WIDTH - RIGHT - LEFT) / len(nics)
    parts = [svg.text(LEFT - 5, TOP + (i + 0.5) * ROW + 4, _short(h), "label", "end") for i, h in enumerate(hosts)]
    if width >= NARROWEST:
        names = [(LEFT + (i + 0.5) * width, nic) for i, nic in enumerate(nics)]
        parts += [svg.text(x, TOP - 8, nic[-int(width / 6) :], "label", "middle") for x, nic in names]
    told = []
    for row, share, what in shares(table):
        x, y = LEFT + nics.index(row.nic.nic) * width, TOP + hosts.index(row.nic.host) * ROW
        said = "nothing before" if share is None else f"{share:.0%}"
        told.append(f"{row.nic} {said}")
        parts.append(_cell(row, share, (x, y, width), f"{row.nic}: {said}, {what}"))
    bottom = TOP + len(hosts) * ROW + 6
    return panel(trace, "heat", bottom, parts, title="Load of each NIC", text=f"{', '.join(told)}.")


def _cell(row: BytesRow, share: float | None, place: tuple[float, float, float], title: str) -> str:
    x, y, width = place
    shade = 0 if share is None else level(share)
    parts = [svg.rect(x, y, width, ROW, cls=f"heat heat-{shade}", title=title)]
    if row.faulted:
        parts.append(svg.rect(x + 2, y + 2, width - 4, ROW - 4, cls="frame"))
    if width >= NARROWEST:
        number = "–" if share is None else f"{share * 100:.0f}"
        parts.append(svg.text(x + width / 2, y + ROW / 2 + 4, number, "label", "middle"))
    return "".join(parts)


def _short(host: str) -> str:
    return host if len(host) <= 7 else f"…{host[-6:]}"
