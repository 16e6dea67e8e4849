"""The kinds of workloads there are: entry points of `r2cc.workloads`, ours among them (pyproject.toml)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from inspect import isabstract
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, SerializeAsAny, ValidationError, WrapValidator, field_validator

from harness import plugins
from harness.config.words import listed, meant, shown
from harness.errors import InputErrors
from harness.workloads.kinds.bench import Bench
from harness.workloads.kinds.workload import Place, Programs, Workload

GROUP = "r2cc.workloads"
PROGRAMS = Programs(Path("r2cc_bench"), Path("libr2cc_net.so"), Path("libnccl.so.2"), Path("rank.py"))
TRIED = Place(PROGRAMS, ranks=4, root="192.0.2.1:29500", rank=0, gpu=0)


def kinds() -> Mapping[str, type[Workload]]:
    """By name. What cannot be used is said on stderr, once, and left out."""
    return _loaded().made


@cache
def _loaded() -> plugins.Kinds[type[Workload]]:
    return plugins.kinds(GROUP, "workload", checked)


class Unknown(Bench):
    """A section whose kind is not there: no valid one."""

    model_config = ConfigDict(extra="ignore")
    kind: Any

    @field_validator("kind")
    @classmethod
    def _not_there(cls, kind: object) -> object:
        raise ValueError(
            _loaded().problems.get(str(kind))
            or f"there is no workload {kind}{meant(kind, kinds())}; there are {', '.join(kinds())}"
        )


def model_of(section: object) -> type[Workload]:
    """What a `workload` section is checked by: the bench where no kind is named."""
    kind = section.get("kind", "bench") if isinstance(section, Mapping) else "bench"
    found = kinds().get(kind) if isinstance(kind, str) else None
    return Unknown if found is None else found


def _of_its_kind(value: Any, _handler: Any) -> Workload:
    return value if isinstance(value, Workload) else model_of(value).model_validate(value)


AnyWorkload = Annotated[SerializeAsAny[Workload], WrapValidator(_of_its_kind)]
"""A `workload` section, by its `kind`; what is installed when it is read counts."""


def forms() -> dict[str, dict[str, Any]]:
    """JSON Schemas by the name of the class, and of what they refer to."""
    found: dict[str, dict[str, Any]] = {}
    for name, kind in kinds().items():
        form = kind.model_json_schema(ref_template="#/$defs/{model}")
        found |= form.pop("$defs", {})
        form["properties"]["kind"] |= {"const": name}
        found[f"workload_{name}"] = form
    return found


def checked(name: str, found: object) -> type[Workload]:
    """The class behind an entry point. ValueError or TypeError for what breaks the contract of Workload."""
    if not isinstance(found, type) or not issubclass(found, Workload):
        raise TypeError(f"{found!r} is no class derived from harness.workloads.kinds.workload.Workload")
    if isabstract(found):
        raise ValueError(f"{found.__name__} lacks {', '.join(sorted(found.__abstractmethods__))}")
    if not found.about:
        raise ValueError(f"{found.__name__} does not say about")
    try:
        command = found.model_validate({"kind": name, **found.example}).command(TRIED)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"it cannot do without settings: {place}: {first['msg']}") from error
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise TypeError("command is a list of words")
    return found


def asked(kind: str, given: Mapping[str, Any], common: Mapping[str, Any]) -> Workload:
    """What `r2cc run KIND --set NAME=VALUE` asks for. InputErrors with every setting that it does not understand."""
    model = kinds()[kind].outside()
    problems = [
        f"--set {name}: {kind} has no such setting{meant(name, model.own())}; it has {listed(model.own())}"
        for name in given
        if name not in model.own()
    ]
    try:
        known = {name: value for name, value in given.items() if name in model.own()}
        found = model.model_validate({"kind": kind, **common, **known})
    except ValidationError as error:
        raise InputErrors(problems + [_words(dict(problem)) for problem in error.errors()]) from error
    if problems:
        raise InputErrors(problems)
    return found


def _words(problem: Mapping[str, Any]) -> str:
    said = str(problem["msg"])
    return f"--set {'.'.join(map(str, problem['loc']))}: {said[:1].lower()}{said[1:]}, not {shown(problem['input'])}"
