"""Simulation files: YAML to a checked Experiment, with every error of the file at once, each with file and line.

A file describes many points: every combination of its axes' values. Each point is checked as if it were a file of its
own, and what is wrong with it alone is told at the axes that made it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from chaos.simulate.faults.trace import LARGEST
from chaos.simulate.workloads import kinds
from chaos.simulate.workloads.sections import Expect, Faults, Header, Ratio, Reference
from harness.config import documents, yaml_text
from harness.config.documents import Document
from harness.config.dotted import applied
from harness.config.files import MOST_INPUT_BYTES, input_of
from harness.config.fitting import words
from harness.config.kinds import SIMULATION
from harness.config.words import in_order, listed
from harness.errors import InputErrors, UsageError
from harness.schemas.form import form

Place = tuple[str | int, ...]
MOST_POINTS = 10_000
NAMES_SHOWN = 3


@dataclass(frozen=True)
class Point:
    """One combination of the axes' values, with everything that a cell of it needs to know, as plain values."""

    index: int
    at: Mapping[str, Any]
    topology: Mapping[str, Any]
    workload: Mapping[str, Any]
    faults: Mapping[str, Any]
    params: Mapping[str, Any]

    def label(self) -> str:
        """`topology.hosts=8, workload.bytes=1024`, for messages."""
        return ", ".join(f"{key}={value}" for key, value in self.at.items()) or "the only point"


@dataclass(frozen=True)
class Experiment:
    """A whole file, checked. `value` is the file's own plain value with the files that it names in it."""

    name: str
    title: str
    seed: int
    arms: tuple[str, ...]
    points: tuple[Point, ...]
    ratios: tuple[Ratio, ...]
    references: tuple[Reference, ...]
    expect: tuple[Expect, ...]
    draw: tuple[str, ...]
    keep_traces: bool
    value: Mapping[str, Any]
    trace: str | None = None
    """The text of the trace's file, where the file names one."""

    def dump(self) -> str:
        """As YAML; loading it again, beside its trace, gives the same experiment."""
        return yaml_text.dumped(dict(self.value))


def load(path: Path, settings: Mapping[str, Any] | None = None) -> Experiment:
    """Reads and checks a file, with `settings` (dotted keys) put into it first.

    Raises InputErrors with every error, UsageError when it cannot be read.
    """
    return Reader(path, read_text(path, "simulation"), from_here(settings or {})).experiment()


def from_here(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Files that settings name and that are there, seen from the working directory, where whoever typed them is."""
    return {key: _from_here(key, value) for key, value in settings.items()}


def _from_here(key: str, value: Any) -> Any:
    if key in ("topology", "faults.trace") and isinstance(value, str) and Path(value).is_file():
        return str(Path(value).resolve())
    if key == "faults" and isinstance(value, dict) and "trace" in value:
        return {**value, "trace": _from_here("faults.trace", value["trace"])}
    return value


def read_text(path: Path, what: str) -> str:
    """The text of an input file; UsageError when there is none."""
    return input_of(path, f"the {what}", "give the path of a file, for example experiments/sim/overhead.yaml")


class Reader:
    """One file being read."""

    def __init__(self, path: Path, text: str, settings: Mapping[str, Any]) -> None:
        self.path = path
        self.document: Document = documents.parse(text, str(path), SIMULATION)
        self.errors = list(self.document.errors)
        self.value: Any = self.document.value
        inside = {key: value for key, value in settings.items() if key.startswith("topology.")}
        self._set({key: value for key, value in settings.items() if key not in inside})
        self.inside = self._inside(inside)
        _without_checks(self.value, [key for key in settings if key.partition(".")[0] in SIMULATED])
        self.simulated: dict[str, Any] = {}
        """The value without what grows with the number of points: it is copied for each."""
        self.trace: str | None = None
        self.shared: dict[tuple[Place, str], list[str]] = {}
        self.wrong: set[str] = set()
        self.count = 1

    def _set(self, settings: Mapping[str, Any]) -> None:
        self.value, wrong = applied(self.value, settings)
        self.errors += [f"--set {key}: {why}" for key, why in wrong.items()]

    def _inside(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Settings of the topology that wait until its file is read; where it stands in the file, they are set now."""
        if isinstance(self.value, dict) and isinstance(self.value.get("topology"), str):
            return settings
        self._set(settings)
        return {}

    def experiment(self) -> Experiment:
        """Raises InputErrors with all errors."""
        header = self._header()
        if header is None:
            raise InputErrors(self.errors)
        self._files()
        points = self._points(header)
        self._names(header)
        for (place, text), labels in self.shared.items():
            self.report(place, f"{_some(labels, self.count)}{text}")
        if self.errors:
            raise InputErrors(in_order(self.errors, str(self.path)))
        return Experiment(
            header.name, header.title, header.seed, tuple(dict.fromkeys(header.arms)), tuple(points), header.ratios,
            header.references, header.expect, header.draw, header.keep_traces, self.value, self.trace,
        )  # fmt: skip

    def report(self, place: Place, what: str) -> None:
        self.errors.append(self.document.said(place, what))

    def _header(self) -> Header | None:
        """Of what is right, with stand-ins for what is not, so that errors do not come one after the other."""
        if self.document.unreadable:
            return None
        if not isinstance(self.value, dict):
            self.report((), "a simulation is a mapping with name, topology, workload and arms")
            return None
        try:
            return Header.model_validate(self.value)
        except ValidationError as error:
            problems = error.errors()
        for problem in problems:
            self.report(problem["loc"], words(Header, problem))
        self.wrong = {str(problem["loc"][0]) for problem in problems}
        right = {key: value for key, value in self.value.items() if key not in self.wrong}
        return Header.model_validate({**STAND_INS, **right})

    def _files(self) -> None:
        """Puts the topology's file into the value, and reads the trace's."""
        topology = self.value.get("topology")
        if isinstance(topology, str):
            found = self._read(("topology",), topology, "topology")
            self.value["topology"] = {} if found is None else self._topology(topology, found)
            self._set(self.inside)
        faults = self.value.get("faults")
        if isinstance(faults, dict) and isinstance(faults.get("trace"), str):
            self.trace = self._read(("faults", "trace"), faults["trace"], "trace")
            if self.trace is not None:
                self._check_trace(faults["trace"], self.trace)
            faults["trace"] = TRACE

    def _topology(self, name: str, text: str) -> Any:
        """The value of a topology's file, whose errors are told with its own lines."""
        from chaos.simulate.cluster import topology_files as topologies

        try:
            return topologies.parse(text, str(self.path.parent / name)).as_dict()
        except InputErrors as error:
            self.errors += error.errors
            self.wrong.add("topology")
            return {}

    def _check_trace(self, name: str, text: str) -> None:
        from chaos.simulate.faults import trace

        try:
            trace.parse(text, str(self.path.parent / name))
        except InputErrors as error:
            self.errors += error.errors

    def _read(self, place: Place, name: str, what: str) -> str | None:
        file = self.path.parent / name
        try:
            return input_of(file, f"the {what}", "", LARGEST if what == "trace" else MOST_INPUT_BYTES)
        except UsageError as error:
            self.report(place, error.message)
            self.wrong.add(str(place[0]))
            return None

    def _points(self, header: Header) -> list[Point]:
        before = len(self.errors)
        self.simulated = {
            key: value for key, value in self.value.items() if key not in ("axes", "references", "expect")
        }
        axes = [self._axis(name, values) for name, values in header.axes.items()]
        count = 1
        for axis in axes:
            count *= max(1, len(axis))
        if count > MOST_POINTS:
            self.report(("axes",), f"they make {count} points, and {MOST_POINTS} is the most")
        if len(self.errors) > before:
            self._point(0, header, [])
            return []
        self.count = count
        chosen = itertools.product(*axes)
        found = [self._point(index, header, list(settings)) for index, settings in enumerate(chosen)]
        return [point for point in found if point is not None]

    def _axis(self, name: str, values: Any) -> list[tuple[str, Any, Mapping[str, Any]]]:
        """(axis, what the value is called, what it sets): a list sets the axis' own key, a mapping what it says."""
        if isinstance(values, list) and values:
            return [(name, value, {name: value}) for value in values]
        if isinstance(values, dict) and values and all(isinstance(item, dict) for item in values.values()):
            return [(name, label, settings) for label, settings in values.items()]
        wanted = "a list of values, or a mapping of names to what each sets"
        self.report(("axes", name), f"{wanted} is needed, for example [1, 2, 4]")
        return []

    def _point(self, index: int, header: Header, chosen: Sequence[tuple[str, Any, Mapping[str, Any]]]) -> Point | None:
        at = {name: value for name, value, _ in chosen}
        label = ", ".join(f"{name}={value}" for name, value in at.items())
        value: Any = self.simulated
        for name, _, settings in chosen:
            value, wrong = applied(value, settings)
            for key, why in wrong.items():
                self._shared(("axes", name), f"{key}: {why}", label)
        keys = [key for _, _, settings in chosen for key in settings]
        axis_of = {key: name for name, _, settings in chosen for key in settings}
        problems = [*self._faults_problems(value), *kinds.problems(value, self.wrong)]
        for place, text in problems:
            told = _at_axis(place, keys, axis_of)
            self._shared(told, text if told == place else f"{_dotted(place)}{text}", label)
        if problems or self.errors:
            return None
        return Point(
            index, at, value["topology"], kinds.resolved(value["workload"]),
            Faults.model_validate(value.get("faults", {})).model_dump(mode="json", by_alias=True),
            dict(value.get("params") or {}),
        )  # fmt: skip

    def _faults_problems(self, value: Any) -> Iterator[tuple[Place, str]]:
        if "faults" in self.wrong:
            return
        try:
            Faults.model_validate(value.get("faults") or {})
        except ValidationError as error:
            for problem in error.errors():
                yield ("faults", *problem["loc"]), words(Faults, problem)

    def _shared(self, place: Place, text: str, label: str) -> None:
        self.shared.setdefault((place, text), []).append(label)

    def _names(self, header: Header) -> None:
        """References and expectations name points, arms and figures that there are."""
        known = set(kinds.figures(self.value.get("workload")))
        arms = {*header.arms, *(f"{ratio.arm}/{ratio.over}" for ratio in header.ratios)}
        for index, ratio in enumerate(header.ratios):
            for key in ("arm", "over"):
                if getattr(ratio, key) not in header.arms and "arms" not in self.wrong:
                    self.report(("ratios", index, key), f"no arm {getattr(ratio, key)!r} here; {_list(header.arms)}")
            if known and ratio.figure not in known:
                self.report(("ratios", index, "figure"), f"no figure {ratio.figure!r}; there are {_list(known)}")
        known |= {ratio.name for ratio in header.ratios} if known else set()
        arms = set() if "arms" in self.wrong else arms
        for section in ("references", "expect"):
            for index, entry in enumerate(getattr(header, section)):
                self._name((section, index), entry, (arms, known), header)

    def _name(self, place: Place, entry: Reference | Expect, names: tuple[set[str], set[str]], header: Header) -> None:
        arms, known = names
        if arms and entry.arm not in arms:
            self.report((*place, "arm"), f"no arm {entry.arm!r} here; there are {_list(arms)}")
        if known and entry.figure not in known:
            self.report((*place, "figure"), f"no figure {entry.figure!r}; there are {_list(known)}")
        for key in entry.at:
            if key not in header.axes:
                self.report((*place, "at", key), f"no axis {key!r}; there are {_list(header.axes) or 'none'}")
            elif entry.at[key] not in _labels(header.axes[key]):
                self.report((*place, "at", key), f"no point is there: the axis has {_list(_labels(header.axes[key]))}")


SIMULATED = ("topology", "workload", "faults", "params", "axes")
"""Sections that say what is simulated, and so what a published figure was of."""


def _without_checks(value: Any, changed: Sequence[str]) -> None:
    """Published figures are of the file as it is: beside something else they are shown, and no check."""
    entries = value.get("references") if isinstance(value, dict) and changed else None
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.pop("within", None) is not None:
            note = f"of the file without --set {', '.join(changed)}: not checked"
            entry["note"] = f"{entry['note']}; {note}" if entry.get("note") else note


STAND_INS = {"name": "x", "topology": {}, "workload": {}, "arms": ["stock"]}
TRACE = "trace.jsonl"
"""What the trace of a run is called in its directory."""


def fits(wanted: Mapping[str, Any], at: Mapping[str, Any]) -> bool:
    """Whether a point is one that is meant."""
    return all(key in at and at[key] == value for key, value in wanted.items())


def _at_axis(place: Place, keys: Sequence[str], axis_of: Mapping[str, str]) -> Place:
    """Where to tell an error of a point: at the axis that set what is wrong, else where the file has it."""
    dotted = ".".join(map(str, place))
    for key in keys:
        if dotted == key or dotted.startswith(f"{key}.") or key.startswith(f"{dotted}."):
            return ("axes", axis_of[key])
    return place


def _dotted(place: Place) -> str:
    return "".join(f"{'.' if number else ''}{part}" for number, part in enumerate(place)) + ": " if place else ""


def _some(labels: Sequence[str], points: int) -> str:
    """Which points an error is of; nothing when it is of all."""
    if not labels[0] or len(labels) >= points > 1:
        return ""
    more = len(labels) - NAMES_SHOWN
    return f"at {'; '.join(labels[:NAMES_SHOWN])}{f' and {more} more' if more > 0 else ''}: "


def _labels(axis: Any) -> list[Any]:
    return list(axis) if isinstance(axis, list | dict) else []


def _list(names: Any) -> str:
    return listed(sorted(map(str, names)))


def digest_of(value: Any) -> str:
    """A short name for a plain value."""
    import hashlib

    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


@form("sim_experiment")
def json_schema() -> dict[str, Any]:
    """The form of a file as JSON Schema; a test keeps harness/schemas/sim_experiment.schema.json equal."""
    form = Header.model_json_schema(by_alias=True)
    defs = form.setdefault("$defs", {})
    for name in kinds.KINDS:
        section = kinds.kind(name).Section.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
        defs |= section.pop("$defs", {})
        defs[f"workload_{name}"] = section
    form["properties"]["workload"] = {"oneOf": [{"$ref": f"#/$defs/workload_{name}"} for name in kinds.KINDS]}
    about = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "r2cc:sim_experiment:1"}
    return {**about, **form, "title": "A simulation's file"}
