"""Which charts a simulation's report has: one figure a quantity, one panel for each combination of the other axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chaos.simulate.assumed import AXIS
from reports.charts.frame import Figure, Panel
from reports.simulation import chart, words
from reports.simulation.chart import Axis, Mark, Series
from reports.simulation.model import Simulation

PANELS = 6
"""Shown; the others are folded."""
BANDS = "Bands and bars are where nine of ten traces lie."


def build(sim: Simulation) -> list[Figure]:
    """All figures in the order that the file asks for, then the distributions."""
    found = [_figure(sim, name) for name in sim.value["draw"]]
    return [*(figure for figure in found if figure is not None), *_distributions(sim)]


def _figure(sim: Simulation, name: str) -> Figure | None:
    if not sim.drawn_arms(name):
        return None
    title, about = words.figure(name, sim.kind)
    along = _along(sim)
    panels = [
        panel
        for number, place in enumerate(_places(sim, along))
        if (panel := _panel(sim, name, along, place, f"svg-{name}-{number}")) is not None
    ]
    over = f" over {words.axis(along)}" if along else ""
    caption = f"Modelled: {about.words}. {BANDS if _has_bands(sim, name) else ''}".strip()
    more = panels[PANELS:]
    return Figure(_id(name), f"{title}{over}", caption, panels[:PANELS], [], more, f"{len(more)} more")


def _id(name: str) -> str:
    return f"sim-{name.replace('_', '-').lower()}"


def _along(sim: Simulation) -> str | None:
    """The axis that charts run along: the numeric one with the most values."""
    lengths = {name: len(values) for name, values in sim.axes.items() if chart.numeric(values)}
    return max(lengths, key=lambda name: lengths[name]) if lengths else None


def _places(sim: Simulation, along: str | None) -> list[dict[str, Any]]:
    """Combinations of all other axes' values."""
    if along is None:
        return [{}]
    found: list[dict[str, Any]] = []
    for at in sim.as_shipped(AXIS):
        rest = {key: value for key, value in at.items() if key != along}
        if rest not in found:
            found.append(rest)
    return found


def _panel(sim: Simulation, name: str, along: str | None, place: Mapping[str, Any], ident: str) -> Panel | None:
    title, about = words.figure(name, sim.kind)
    up = Axis(title, about.unit)
    series = [Series(arm, _marks(sim, name, arm, along, place)) for arm in sim.drawn_arms(name)]
    series = [each for each in series if each.marks]
    if not series:
        return None
    where = words.at(place) if place else ""
    if along is not None:
        drawn = chart.lines(series, Axis(words.axis(along)), up, ident=ident, title=f"{title} {where}".strip())
    else:
        labels = [words.at(at) for at in sim.points()]
        drawn = chart.rows(series, labels, up, ident=ident, title=title)
    return Panel(where, drawn)


def _marks(sim: Simulation, name: str, arm: str, along: str | None, place: Mapping[str, Any]) -> list[Mark]:
    found: list[tuple[float, Mapping[str, Any]]] = []
    for number, at in enumerate(sim.points()):
        figure = sim.figure(at, arm, name)
        if figure is None:
            continue
        if along is None:
            found.append((float(number), figure))
        elif {key: value for key, value in at.items() if key != along} == place:
            found.append((float(at[along]), figure))
    return chart.marks_of(found)


def _has_bands(sim: Simulation, name: str) -> bool:
    return any(
        each["name"] == name and each["low"] is not None and each["low"] != each["high"]
        for point in sim.value["points"]
        for each in point["figures"]
    )


def _distributions(sim: Simulation) -> Iterator[Figure]:
    shapes = sim.value.get("distributions", [])
    for name in dict.fromkeys(str(shape["name"]) for shape in shapes):
        mine = [shape for shape in shapes if shape["name"] == name]
        unit = str(mine[0]["unit"])
        panels = [_shape(mine, at, name, unit, number) for number, at in enumerate(sim.points())]
        title = {"ttft": "Time to the first token", "tpot": "Time per output token"}.get(name, name)
        caption = (
            f"Modelled: all requests of all traces together; the share that got their {title.lower()} within a time."
        )
        shown = [panel for panel in panels if panel is not None]
        more = shown[PANELS:]
        yield Figure(
            f"sim-dist-{name}", f"{title}: distribution", caption, shown[:PANELS], [], more, f"{len(more)} more"
        )


def _shape(
    shapes: Sequence[Mapping[str, Any]], at: Mapping[str, Any], name: str, unit: str, number: int
) -> Panel | None:
    series = [
        Series(str(shape["arm"]), [Mark(float(x), float(share)) for share, x in shape["quantiles"]])
        for shape in shapes
        if shape["at"] == at and shape["quantiles"]
    ]
    if not series:
        return None
    drawn = chart.shapes(
        series, Axis(name.upper(), unit), ident=f"svg-dist-{name}-{number}", title=f"{name.upper()} distribution"
    )
    return Panel(words.at(at) if at else "", drawn)
