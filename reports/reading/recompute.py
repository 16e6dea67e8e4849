"""The summary, computed again from the journal, so that a report never repeats a figure it cannot show."""

from __future__ import annotations

from collections.abc import Container, Sequence

from harness.schemas import plain
from reports.reading.trace import Json

UNFINISHED = "the journal ends before the experiment did"
UNKNOWN = "unknown"
LONGEST = 300
DAMAGED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, StopIteration, RecursionError)
"""What lines raise that lack fields of their kind, or have others there."""
HARDWARE = {"fingerprint": UNKNOWN, "cpu": UNKNOWN, "cores": 0, "memory_bytes": 0}


def summary(lines: Sequence[Json], experiment: Json, environment: Json, known: Json, notes: list[str]) -> Json:
    """The summary of journal lines; `known` (summary.json, {} if missing) only says where it ran and why it stopped.

    Falls back on `known`, and says so, when the experiment cannot be read or lines lack fields of their kind.
    """
    from pydantic import ValidationError

    from chaos.analysis.summary import summarize
    from chaos.experiment.model import Experiment

    try:
        checked = Experiment.model_validate(experiment)
        arms = _arms(lines, known, set(map(str, checked.arms)))
        return plain(summarize(lines, checked, arms, **_circumstances(known, environment)))
    except (ValidationError, *DAMAGED) as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0][:LONGEST]
        instead = "; these are of summary.json" if known else ""
        notes.append(f"The figures could not be computed from the journal ({why}){instead}.")
        return known or {"verdict": "failed", "arms": [], "reasons": []}


def _arms(lines: Sequence[Json], known: Json, declared: Container[str]) -> list[str]:
    """The arms that the summary knows or else the journal, in the experiment's order and no others."""
    named = [str(arm["name"]) for arm in known.get("arms", [])]
    seen = named or list(dict.fromkeys(str(line["arm"]) for line in lines))
    return [name for name in seen if name in declared]


def _circumstances(known: Json, environment: Json) -> Json:
    build = environment.get("build") or {}
    return {
        "bed": known.get("bed") or UNKNOWN,
        "hardware": known.get("hardware") or environment.get("hardware") or HARDWARE,
        "build_id": known.get("build_id") or build.get("build_id"),
        "void_ok": known.get("verdict") == "void" and known.get("exit_code") == 0,
        "failure": _failure(known),
        "interrupted": known.get("exit_code") == 130,
    }


def _failure(known: Json) -> str | None:
    """What stopped the experiment, which only the controller knew; without its summary, that it never wrote one."""
    if not known:
        return UNFINISHED
    if known.get("verdict") != "failed" or any(arm.get("verdict") == "failed" for arm in known.get("arms", [])):
        return None
    return next(iter(known.get("reasons", [])), UNFINISHED)
