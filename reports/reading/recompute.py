"""The summary, computed again from the journal, so that a report never repeats a figure it cannot show."""

from __future__ import annotations

from collections.abc import Container, Sequence

from chaos.analysis.model import Summary
from harness.facts.environment import Hardware
from reports.reading.trace import Json

UNFINISHED = "the journal ends before the experiment did"
UNKNOWN = "unknown"
LONGEST = 300
DAMAGED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, StopIteration, RecursionError)
"""What lines raise that lack fields of their kind, or have others there."""
HARDWARE = Hardware(UNKNOWN, UNKNOWN, 0, 0)


def summary(
    lines: Sequence[Json], experiment: Json, environment: Json, known: Summary | None, notes: list[str]
) -> Summary:
    """The summary of journal lines; `known` (summary.json, if there is one) only says where it ran and why it stopped.

    Falls back on `known`, and says so, when the experiment cannot be read or lines lack fields of their kind.
    """
    from pydantic import ValidationError

    from chaos.analysis.summary import summarize
    from chaos.experiment.model import Experiment

    try:
        checked = Experiment.model_validate(experiment)
        arms = _arms(lines, known, set(map(str, checked.arms)))
        return summarize(lines, checked, arms, **_circumstances(known, environment))
    except (ValidationError, *DAMAGED) as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0][:LONGEST]
        instead = "; these are of summary.json" if known else ""
        notes.append(f"The figures could not be computed from the journal ({why}){instead}.")
        return known or Summary("failed", 3, "", UNKNOWN, HARDWARE, None, 0, [], [])


def _arms(lines: Sequence[Json], known: Summary | None, declared: Container[str]) -> list[str]:
    """The arms that the summary knows or else the journal, in the experiment's order and no others."""
    named = [arm.name for arm in known.arms] if known else []
    seen = named or list(dict.fromkeys(str(line["arm"]) for line in lines))
    return [name for name in seen if name in declared]


def _circumstances(known: Summary | None, environment: Json) -> Json:
    build = environment.get("build") or {}
    told = environment.get("hardware")
    return {
        "bed": (known and known.bed) or UNKNOWN,
        "hardware": known.hardware if known else HARDWARE if not told else hardware_in(told),
        "build_id": (known and known.build_id) or build.get("build_id"),
        "void_ok": bool(known and known.verdict == "void" and known.exit_code == 0),
        "failure": _failure(known),
        "interrupted": bool(known and known.exit_code == 130),
    }


def hardware_in(value: Json) -> Hardware:
    """KeyError or TypeError for what says no hardware."""
    known = {name: value[name] for name in ("fingerprint", "cpu", "cores", "memory_bytes")}
    return Hardware(**known, machines=value.get("machines"))


def _failure(known: Summary | None) -> str | None:
    """What stopped the experiment, which only the controller knew; without its summary, that it never wrote one."""
    if known is None:
        return UNFINISHED
    if known.exit_code == 130:
        return next(iter(known.reasons), UNFINISHED)
    if known.verdict != "failed" or any(arm.verdict == "failed" for arm in known.arms):
        return None
    return next(iter(known.reasons), UNFINISHED)
