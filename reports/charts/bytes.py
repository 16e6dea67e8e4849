"""Bytes that each NIC sent before, while and after the fault was on, as bars: where the traffic went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reports.charts import svg
from reports.charts.frame import LEFT, WIDTH, Figure, Key, Panel, empty, panel
from reports.reading.trace import NicId, Trace
from reports.words import names
from reports.words.bytes_table import BytesRow
from reports.words.units import size

BAR, GAP, TOP = 5.0, 7.0, 6.0
END = WIDTH - 62.0
CLASSES = {"before": "bar-before", "during": "bar-during", "after": "bar-after", "whole run": "bar-whole"}
KEYS = {
    "before": "before the fault (upper bar)",
    "during": "while it was on (middle)",
    "after": "after it (lower, hollow)",
    "whole run": "in the whole run",
}
Tables = Mapping[str, Sequence[BytesRow]]


def figure(traces: Sequence[Trace], tables: Tables, faulted: Sequence[NicId]) -> Figure | None:
    """`tables` has the rows of each arm. The faulted hosts for everyone to see, the others behind a fold."""
    rows = [row for table in tables.values() for row in table]
    if not rows:
        return None
    hosts = list(dict.fromkeys(row.nic.host for row in rows))
    main = [host for host in hosts if any(nic.host == host for nic in faulted)] or hosts[:1]
    rest = [host for host in hosts if host not in main]
    peak = max((span.tx_bytes for row in rows for _, span, _ in row.spans), default=0) or 1
    scale = svg.Scale(0, peak, LEFT, END)
    periods = list(dict.fromkeys(name for row in rows for name, _, _ in row.spans))
    caption = f"Bytes sent; the longest bar is {size(peak)}, the same scale for all arms. {_lengths(traces, tables)}"
    return Figure(
        id="nic-bytes",
        title="Bytes that each NIC sent",
        caption=caption.strip(),
        panels=[_panel(t, _of(tables[t.arm], main), scale, "nic-bytes") for t in traces],
        keys=[Key(CLASSES[name], KEYS[name]) for name in periods],
        more=[_panel(t, _of(tables[t.arm], rest), scale, "nic-bytes-rest") for t in traces] if rest else [],
        more_title=f"The other {'host' if len(rest) == 1 else f'{len(rest)} hosts'}: {', '.join(rest)}",
    )


def _of(table: Sequence[BytesRow], hosts: Sequence[str]) -> list[BytesRow]:
    return [row for row in table if row.nic.host in hosts]


def _lengths(traces: Sequence[Trace], tables: Tables) -> str:
    """How long each period was: bytes of a longer one are more without any NIC being faster."""
    said = []
    for trace in traces:
        spans = tables[trace.arm][0].spans if tables[trace.arm] else []
        if len(spans) > 1:
            said.append(
                f"{names.arm(trace.arm)} {', '.join(f'{span.seconds:.1f} s {name}' for name, span, _ in spans)}"
            )
    return f"The periods are not equally long: {'; '.join(said)}." if said else ""


def _panel(trace: Trace, rows: Sequence[BytesRow], scale: svg.Scale, name: str) -> Panel:
    if not rows:
        return empty(trace, name, "no byte counters in the journal")
    parts, y = [], TOP
    single = len({row.nic.host for row in rows}) == 1
    for row in rows:
        parts.append(_bars(row, y, scale, row.nic.nic if single else f"{row.nic.host} {row.nic.nic[-4:]}"))
        y += BAR * max(2, len(row.spans)) + GAP
    parts.append(svg.line(LEFT, TOP - 2, LEFT, y - GAP + 2, "axis"))
    told = "; ".join(f"{row.nic}: {', '.join(_said(row))}" for row in rows)
    return panel(trace, name, y, parts, title="Bytes sent by each NIC", text=f"{told}.")


def _bars(row: BytesRow, y: float, scale: svg.Scale, label: str) -> str:
    height = BAR * max(2, len(row.spans))
    parts = [svg.text(LEFT - 5, y + height / 2 + 4, label, "label faulted" if row.faulted else "label", "end")]
    for number, ((name, span, _), said) in enumerate(zip(row.spans, _said(row), strict=True)):
        top = y + number * BAR + 0.5
        width = scale(span.tx_bytes) - LEFT
        parts.append(svg.rect(LEFT, top, width, BAR - 1, cls=CLASSES[name], title=f"{row.nic}, {said}"))
    parts.append(svg.text(END + 6, y + height / 2 + 4, size(sum(span.tx_bytes for _, span, _ in row.spans))))
    return "".join(parts)


def _said(row: BytesRow) -> list[str]:
    return [f"{size(span.tx_bytes)} {name}" for name, span, _ in row.spans]
