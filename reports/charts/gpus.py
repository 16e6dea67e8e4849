"""The load of every GPU over time, beside the NICs: a GPU that waits for the network is seen to wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.charts import svg
from reports.charts.frame import LEFT, RIGHT, WIDTH, Figure, Key, Panel, empty, panel, shade, time_axis, time_scale
from reports.reading import series
from reports.reading.gpus import GpuLoad
from reports.reading.trace import GpuId, Trace

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

TOP, HEIGHT, GAP = 20.0, 32.0, 7.0


def figure(traces: Sequence[Trace]) -> Figure | None:
    """None where no GPU was watched."""
    gpus = sorted({gpu for trace in traces for gpu in trace.gpus})
    if not gpus:
        return None
    axis = series.common_axis(traces)
    measured = any(load.measures_sm() for trace in traces for load in trace.gpus.values())
    what = "multiprocessors at work" if measured else "time in which a kernel ran, also one that waited for data"
    caption = (
        f"Every strip goes from 0 to 100 %: the area is the share of {what}, the line that of the memory in use. A "
        "strip that falls while a fault is on shows a GPU that waits for the network."
    )
    keys = [Key("area-nic", what), Key("rx", "memory"), Key("window", "fault on")]
    return Figure("gpus", "Load of each GPU over time", caption, [_panel(t, gpus, axis) for t in traces], keys)


def binned(load: GpuLoad, values: NDArray[float64], origin_ns: int, axis: series.Axis) -> list[float]:
    """The mean in each bin; in one without a sample, what the next one says, as it is about the time before it."""
    import numpy as np

    moments = load.t_ns() - origin_ns
    edges = np.arange(axis.bins + 1, dtype=np.int64) * axis.bin_ns
    first, after = np.searchsorted(moments, edges[:-1]), np.searchsorted(moments, edges[1:])
    total = np.concatenate(([0.0], np.cumsum(values)))
    inside = np.maximum(after - first, 1)
    mean = np.where(after > first, (total[after] - total[first]) / inside, np.append(values, 0.0)[first])
    found: list[float] = mean.tolist()
    return found


def _panel(trace: Trace, gpus: Sequence[GpuId], axis: series.Axis) -> Panel:
    if not trace.gpus:
        return empty(trace, "gpus", "no load of GPUs in the journal")
    scale = time_scale(axis)
    bottom = TOP + len(gpus) * (HEIGHT + GAP) - GAP
    parts = [shade(trace, scale, TOP, bottom)]
    parts += [_strip(trace, gpu, TOP + row * (HEIGHT + GAP), axis) for row, gpu in enumerate(gpus)]
    parts.append(time_axis(scale, bottom + 4))
    means = [f"{gpu}: {float(load.activity().mean()):.0%}" for gpu, load in sorted(trace.gpus.items())]
    text = f"Mean of the whole run: {'; '.join(means)}."
    return panel(trace, "gpus", bottom + 26, parts, title="Load of GPUs over time", text=text)


def _strip(trace: Trace, gpu: GpuId, top: float, axis: series.Axis) -> str:
    bottom, load = top + HEIGHT, trace.gpus.get(gpu)
    parts = [
        svg.line(LEFT, bottom, WIDTH - RIGHT, bottom, "grid"),
        svg.text(LEFT - 5, (top + bottom) / 2 + 4, str(gpu).replace(" gpu", " g"), "label", "end"),
    ]
    if load is not None:
        across, up = svg.Scale(0, axis.bins, LEFT, WIDTH - RIGHT), svg.Scale(0.0, 1.0, bottom, top)
        origin_ns = trace.origin_ns()
        work = [(across(i + 0.5), up(v)) for i, v in enumerate(binned(load, load.activity(), origin_ns, axis))]
        memory = binned(load, load.columns()["memory_busy"], origin_ns, axis)
        parts.insert(1, svg.path([(across(0), bottom), *work, (across.end, bottom)], "area-nic", close=True))
        parts.insert(2, svg.path([(across(i + 0.5), up(v)) for i, v in enumerate(memory)], "rx"))
    return "".join(parts)
