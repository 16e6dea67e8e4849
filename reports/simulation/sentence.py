"""The answer of a simulation in one sentence, and the key figures below it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.simulate.assumed import AXIS as ASSUMED
from reports.simulation import words
from reports.simulation.model import Simulation
from reports.words.cells import Tile

At = Mapping[str, Any]
VARIED = ("job", "serving", "training")
"""Kinds of workloads whose figures hang on what nobody measured. An axis ASSUMED varies it: what is told is of its
last value, with the range of all in brackets."""


WHAT = {"job": "rates and repair times", "serving": "times of a restart", "training": "shares that are not hidden"}
"""What the shipped files vary."""


def headline(sim: Simulation) -> str:
    """What the simulation says, of our first arm beside the first that is not ours."""
    ours, base = sim.ours(), sim.baseline()
    told = {"job": _job, "serving": _serving}.get(sim.kind, _worst)(sim, ours or sim.arms[0], base)
    told += _about_rates(sim)
    missed = sum(row.get("outcome") == "missed" for row in sim.value["references"])
    if missed:
        told += f" {missed} of {len(sim.value['references'])} published figures are missed."
    wrong = sum(check["outcome"] != "holds" for check in sim.value["checks"])
    if wrong:
        told += f" {wrong} of {len(sim.value['checks'])} checks do not hold."
    return told


def place(sim: Simulation, arm: str, name: str) -> At:
    """Where an arm does worst by a figure; the last place where all are alike."""
    _, about = words.figure(name, sim.kind)
    sign = -1.0 if about.better == "more" else 1.0
    places = sim.as_shipped(ASSUMED)
    found = [(sign * figure["value"], at) for at in places if (figure := sim.figure(at, arm, name)) is not None]
    return max(reversed(found), key=lambda each: each[0])[1] if found else places[-1]


def _about_rates(sim: Simulation) -> str:
    """What brackets are; or that there are none, where much is assumed."""
    if ASSUMED in sim.axes:
        told = " to ".join(map(str, list(sim.axes[ASSUMED])[:-1]))
        return f" In brackets: assumed {WHAT.get(sim.kind, 'parameters')} from {told}."
    return f" What is assumed is not varied (axis {ASSUMED})." if sim.kind in VARIED else ""


def _told(sim: Simulation, at: At, arm: str, name: str) -> str | None:
    """A figure, with its range over what is assumed."""
    told, between = _shown(sim, at, arm, name), _between(sim, at, arm, name)
    return f"{told} ({between})" if told is not None and between else told


def _between(sim: Simulation, at: At, arm: str, name: str) -> str:
    """How low and how high a figure gets over what is assumed; nothing where that is not varied."""
    alike = [each for each in sim.points() if {**each, ASSUMED: None} == {**at, ASSUMED: None}]
    found = [figure for each in alike if (figure := sim.figure(each, arm, name)) is not None]
    if ASSUMED not in at or not found:
        return ""
    return " to ".join(words.value(pick(each["value"] for each in found), found[0]["unit"]) for pick in (min, max))


def around(sim: Simulation, row: Mapping[str, Any]) -> str:
    """How low and how high what stands beside a published figure gets, with what is assumed; nothing where that is not
    varied."""
    if ASSUMED not in row["at"]:
        return ""
    wanted = {key: value for key, value in row["at"].items() if key != ASSUMED}
    places = [at for at in sim.points() if all(at.get(key) == value for key, value in wanted.items())]
    found = [each["value"] for at in places if (each := sim.figure(at, row["arm"], row["name"])) is not None]
    low, high = (words.value(pick(found, default=None), row["unit"]) for pick in (min, max))
    return f" ({low} to {high})"


def _shown(sim: Simulation, at: At, arm: str, name: str) -> str | None:
    figure = sim.figure(at, arm, name)
    return None if figure is None else words.value(figure["value"], figure["unit"])


def _job(sim: Simulation, ours: str, base: str | None) -> str:
    name = "effective_training_time"
    at = sim.points()[-1]
    days = sim.value["faults"].get("days", 0)
    named = {name: value for name, value in at.items() if name != ASSUMED}
    where = f"{sim.gpus(at):,} GPUs" + (f" ({words.at(named)})" if named else "")
    parts = [f"Over {days:g} days on {where}, {_kept(sim, at, ours, name)} the time on work that is kept"]
    if base is not None and (theirs := _told(sim, at, base, name)) is not None:
        parts.append(f", {words.inside(base)} {theirs}")
    saved, cost = (_told(sim, at, ours, name) for name in ("gpu_hours_saved", "cost_saved_usd"))
    if saved is not None:
        parts.append(f": {saved} saved" + (f", {cost}" if cost is not None else ""))
    return "".join(parts) + "."


def _kept(sim: Simulation, at: At, arm: str, name: str) -> str:
    return f"{words.arm(arm)} spends {_told(sim, at, arm, name) or 'no known share'} of"


def _serving(sim: Simulation, ours: str, base: str | None) -> str:
    name = "ttft_p99_ms"
    at = place(sim, ours, name)
    named = {name: value for name, value in at.items() if name != ASSUMED}
    told = f"{words.at(named)}: " if named else ""
    told += f"with {words.arm(ours)} 99 of 100 requests have their first token within {_told(sim, at, ours, name)}"
    if base is not None and (theirs := _told(sim, at, base, name)) is not None:
        told += f", with {words.inside(base)} {theirs}"
    return told[:1].upper() + told[1:] + "."


SAID = {
    "ratio": ("one collective takes {value} the healthy ring’s time with {arm}", "{value} with {arm}"),
    "overhead": ("an iteration takes {value} longer than a healthy one with {arm}", "{value} with {arm}"),
    "busbw_GBps": ("{arm} reaches {value}", "{arm} {value}"),
}
"""How a figure is said of the first arm, and of others after it."""


def _worst(sim: Simulation, ours: str, base: str | None) -> str:
    name = str(sim.value["draw"][0])
    at = place(sim, ours, name)
    title, _ = words.figure(name, sim.kind)
    first, others = SAID.get(name, (f"{title.lower()} is {{value}} with {{arm}}", "{value} with {arm}"))
    told = first.format(value=_told(sim, at, ours, name) or "an unknown time", arm=words.arm(ours))
    for arm in dict.fromkeys(each for each in ("balance", base) if each and each != ours and each in sim.arms):
        shown = _told(sim, at, arm, name)
        told += f", {others.format(value=shown, arm=words.inside(arm))}" if shown else f"; {words.inside(arm)} stops"
    named = {name: value for name, value in at.items() if name != ASSUMED}
    where = f"At {words.at(named)}: " if named else ""
    return f"{where}{told}."[:1].upper() + f"{where}{told}."[1:]


def tiles(sim: Simulation) -> list[Tile]:
    """Up to six: ours and the baseline by the figures that are drawn, where ours does worst by the first."""
    ours, base = sim.ours() or sim.arms[0], sim.baseline()
    at = sim.points()[-1] if sim.kind == "job" else place(sim, ours, str(sim.value["draw"][0]))
    found = []
    for name in sim.value["draw"]:
        title, _ = words.figure(str(name), sim.kind)
        for arm in dict.fromkeys(arm for arm in (ours, base) if arm is not None):
            if (shown := _shown(sim, at, arm, str(name))) is not None:
                between = _between(sim, at, arm, str(name))
                label = f"{title}, {words.arm(arm)}" + (f" ({between})" if between else "")
                found.append(Tile(shown, label, words.arm_class(arm)))
    return found[:6]
