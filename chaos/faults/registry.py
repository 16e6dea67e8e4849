"""The kinds of faults there are: entry points of `r2cc.faults`, ours among them (pyproject.toml)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from inspect import isabstract
from random import Random
from typing import Annotated, Any

from pydantic import ConfigDict, SerializeAsAny, ValidationError, WrapValidator, field_validator

from chaos.faults.example import example_of, made
from chaos.faults.fault import Fault, NicLike
from chaos.faults.needs import MEANING
from chaos.faults.spec import FaultSpec
from chaos.faults.steps import Step
from harness import plugins
from harness.config.words import meant

GROUP = "r2cc.faults"


def kinds() -> Mapping[str, type[Fault]]:
    """By name. What cannot be used is told on stderr, once, and left out."""
    return _loaded().made


@cache
def _loaded() -> plugins.Kinds[type[Fault]]:
    return plugins.kinds(GROUP, "fault", checked)


def problem_of(kind: object) -> str:
    """Why there is no such kind."""
    broken = _loaded().problems.get(str(kind))
    return broken or f"there is no fault {kind}{meant(kind, kinds())}; there are {', '.join(kinds())}"


class Unknown(FaultSpec):
    """An entry whose kind is not there: no valid one."""

    model_config = ConfigDict(extra="ignore")

    @field_validator("kind")
    @classmethod
    def _not_there(cls, kind: str) -> str:
        raise ValueError(problem_of(kind))


def model_of(words: object) -> type[FaultSpec]:
    """What an entry of a timeline is checked by."""
    kind = words.get("kind") if isinstance(words, Mapping) else None
    found = kinds().get(kind) if isinstance(kind, str) else None
    return Unknown if found is None else found.Settings


def spec_of(words: Mapping[str, Any]) -> FaultSpec:
    """An entry of a timeline. Raises pydantic's ValidationError."""
    return model_of(words).model_validate(words)


def takes_bandwidth(kind: str) -> bool:
    """Whether it is known how much of a NIC's data is lost to it; a kind that is not installed here: no."""
    found = kinds().get(kind)
    return found is not None and (found.Settings.cuts or found.Settings.slows)


def _of_its_kind(value: Any, _handler: Any) -> FaultSpec:
    return value if isinstance(value, FaultSpec) else spec_of(value)


AnyFault = Annotated[SerializeAsAny[FaultSpec], WrapValidator(_of_its_kind)]
"""An entry of a timeline, by its `kind`; what is installed when it is read counts."""


def forms() -> dict[str, dict[str, Any]]:
    """JSON Schemas: `FaultSpec`, which all entries fit, and `fault_KIND` of each kind; and what they refer to."""
    found: dict[str, dict[str, Any]] = {}
    for name, kind in kinds().items():
        form = kind.Settings.model_json_schema(ref_template="#/$defs/{model}")
        found |= form.pop("$defs", {})
        own = {key: value for key, value in form["properties"].items() if key not in FaultSpec.model_fields}
        needed = [key for key in form["required"] if key in own] + ["duration_s"] * kind.Settings.timed
        found[f"fault_{name}"] = {
            "$ref": "#/$defs/FaultSpec",
            "title": name,
            "description": kind.does,
            "properties": {"kind": {"const": name}, **own},
            "required": needed,
            "unevaluatedProperties": False,
        }
    common = FaultSpec.model_json_schema(ref_template="#/$defs/{model}")
    del common["additionalProperties"], common["$defs"]
    return {**found, "FaultSpec": common}


def fault_of(spec: FaultSpec, nics: Sequence[NicLike], host: str) -> Fault:
    """The fault that an experiment asks for, on the NICs of this testbed that it names, or on a host (a rank's)."""
    return made(kinds()[spec.kind], spec, nics, host)


def checked(name: str, found: object) -> type[Fault]:
    """The class behind an entry point. ValueError or TypeError for what breaks the contract of Fault."""
    if not isinstance(found, type) or not issubclass(found, Fault):
        raise TypeError(f"{found!r} is no class derived from chaos.faults.fault.Fault")
    if isabstract(found):
        raise ValueError(f"{found.__name__} lacks {', '.join(sorted(found.__abstractmethods__))}")
    if found.kind != name:
        raise ValueError(f"its kind is {found.kind!r}, its entry point's name {name!r}")
    if lacking := [word for word in ("noun", "does", "peer_sees") if not getattr(found, word)]:
        raise ValueError(f"{found.__name__} does not say {', '.join(lacking)}")
    if strange := [feature for feature in found.features if feature not in MEANING]:
        raise ValueError(f"unknown feature {', '.join(strange)}; there are {', '.join(MEANING)}")
    for inside in (False, True):
        fault = _tried(found, "its example", inside=inside)
        steps = [*fault.facts(), *fault.inject(), *fault.revert(), *fault.probe()]
        if not all(isinstance(step, Step) for step in steps):
            raise TypeError("facts, inject, revert and probe are lists of chaos.faults.steps.Step")
    _tried(found, "what it draws for the soak", instead=found.draw(Random(0)))
    return found


def _tried(kind: type[Fault], what: str, *, inside: bool = False, instead: Mapping[str, Any] | None = None) -> Fault:
    """Its example, or what stands instead. ValueError, in one line, where that is no valid entry of a timeline."""
    try:
        return example_of(kind, inside=inside, instead=instead)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{what} is no entry of a timeline: {place}: {first['msg']}") from error
