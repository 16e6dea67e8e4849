"""The first moments of a failover, magnified: when the fault began, who noticed, and when data flowed again."""

from __future__ import annotations

from collections.abc import Sequence

from reports.charts import svg
from reports.charts.frame import RIGHT, WIDTH, Figure, Key, Panel, panel
from reports.reading import series
from reports.reading.trace import Json, Trace, moment_ns
from reports.words.units import ms

LEAD = 118.0
ROW = 24.0
TOP = 14.0
BEFORE_MS = 2.0
MIN_SPAN_MS = 15.0
MAX_SPAN_MS = 400.0


def figure(traces: Sequence[Trace]) -> Figure | None:
    """None when no arm of ours changed a path: there is nothing to magnify then."""
    panels = [p for t in traces if (p := _panel(t)) is not None]
    if not panels:
        return None
    caption = (
        "Milliseconds from the moment the fault’s command was issued. A dot is an event of one connection or NIC; "
        "shaded is the longest time around the fault that any connection got no data, its usual gap included."
    )
    keys = [Key("window", "longest gap"), Key("dot-ours", "event")]
    return Figure("failover", "The failover, step by step", caption, panels, keys)


def _panel(trace: Trace) -> Panel | None:
    windows = trace.windows()
    if not windows or not any(e["event"] == "path" for e in trace.events):
        return None
    onset = windows[0].start_ns
    start, end = series.longest_gap_ms(trace.all_deliveries(), onset, _active_ns(trace, onset)) or (0.0, 0.0)
    span = min(MAX_SPAN_MS, max(MIN_SPAN_MS, end * 1.15, _last_path_ms(trace, onset) * 1.2))
    steps = _steps(trace, onset, span)
    scale = svg.Scale(-BEFORE_MS, span, LEAD, WIDTH - RIGHT - 8)
    bottom = TOP + ROW * len(steps)
    left, right = scale(start), scale(end)
    parts = [svg.rect(left, TOP, right - left, bottom - TOP, cls="window", title=f"longest gap {ms(end - start)}")]
    parts += [_row(label, times, TOP + ROW * (i + 0.5), scale) for i, (label, times) in enumerate(steps.items())]
    parts.append(_axis(scale, bottom))
    text = "; ".join(f"{label} after {ms(min(times))}" for label, times in steps.items())
    gap = f" No data from {ms(start)} to {ms(end)}."
    return panel(trace, "failover", bottom + 26, parts, title="Steps of the failover", text=f"{text}.{gap}")


def _active_ns(trace: Trace, onset_ns: int) -> int:
    """When a probe confirmed the first fault: its effect began between the command and this."""
    active = [moment_ns(e) for e in trace.events if e["event"] == "fault" and e.get("phase") == "active"]
    return min((t for t in active if t >= onset_ns), default=onset_ns)


def _last_path_ms(trace: Trace, onset_ns: int) -> float:
    """When the last path became active after the fault, if that was soon: a failback seconds later is another story."""
    times = [
        (moment_ns(e) - onset_ns) / 1e6 for e in trace.events if e["event"] == "path" and e.get("state") == "active"
    ]
    return max((t for t in times if 0 <= t < MAX_SPAN_MS), default=0.0)


def _steps(trace: Trace, onset_ns: int, span_ms: float) -> dict[str, list[float]]:
    steps: dict[str, list[float]] = {}
    for line in sorted(trace.events, key=moment_ns):
        label = _label(line)
        at = (moment_ns(line) - onset_ns) / 1e6
        if label and -BEFORE_MS <= at <= span_ms:
            steps.setdefault(label, []).append(at)
    return steps


def _label(line: Json) -> str | None:
    event = line["event"]
    if event == "fault":
        return {"injected": "fault injected", "active": "fault confirmed", "reverted": "fault reverted"}.get(
            str(line.get("phase"))
        )
    if event == "link":
        return f"link {'up' if line.get('up') else 'down'}"
    if event == "nic":
        return f"NIC {line.get('state')}"
    return f"path {line.get('state')}" if event == "path" else None


def _row(label: str, times: Sequence[float], y: float, scale: svg.Scale) -> str:
    parts = [svg.line(LEAD, y, WIDTH - RIGHT, y, "grid"), svg.text(LEAD - 8, y + 4, label, "label", "end")]
    spread = sorted({round(t, 2) for t in times})[:60]
    parts += [
        svg.tag("circle", svg.tag("title", f"{label} +{ms(t)}"), cx=scale(t), cy=y, r=3.5, class_="dot-ours")
        for t in spread
    ]
    return "".join(parts)


def _axis(scale: svg.Scale, y: float) -> str:
    ticks = svg.nice_ticks(0, scale.high, 6)
    marks = [svg.text(scale(t), y + 16, f"{t:g}{' ms' if t == ticks[-1] else ''}", anchor="middle") for t in ticks]
    return svg.line(LEAD, y, WIDTH - RIGHT, y, "axis") + "".join(marks)
