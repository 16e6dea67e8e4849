"""Reading a run directory: the journal is the truth, everything else only helps to name things.

A run that was killed leaves half a journal, perhaps with half a last line, and no summary. It still loads; what is
missing is said in `notes`, which every rendering shows.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness import schemas
from harness.errors import UsageError
from harness.progress import Progress, show
from reports import recompute
from reports.samples import OUTSIDE, UNREADABLE, Samples
from reports.trace import Json, NicId, Trace

COMMON = {"t_ns", "host", "arm", "run", "event"}


@dataclass
class RunDir:
    """A run directory, read: what was asked for, where it ran, what happened, and what it came to."""

    path: Path
    experiment: Json
    environment: Json
    traces: list[Trace]
    summary: Json
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The experiment's name, else the directory's."""
        return str(self.experiment.get("name") or self.path.name)

    def traces_of(self, arm: str) -> list[Trace]:
        """The repeats of an arm, in order."""
        return [trace for trace in self.traces if trace.arm == arm]

    def arm_names(self) -> list[str]:
        """Arms in the summary's order, then those that only the journal knows (a run that was killed)."""
        named = [str(arm["name"]) for arm in self.summary.get("arms", [])]
        return named + [name for name in dict.fromkeys(t.arm for t in self.traces) if name not in named]

    def faulted(self) -> list[NicId]:
        """The NICs that faults were aimed at, each once."""
        return list(dict.fromkeys(w.target for trace in self.traces for w in trace.windows()))

    def raw_files(self) -> list[str]:
        """Names of the run's files that hold something, relative to the directory, for the links of a report."""
        names = ["journal.jsonl", "summary.json", "experiment.yaml", "environment.json", "report.md"]
        found = [name for name in names if (self.path / name).is_file()]
        raw = [p for p in sorted((self.path / "raw").rglob("*")) if p.is_file() and p.stat().st_size]
        return found + [str(p.relative_to(self.path)) for p in raw]


def load(path: Path, progress: Progress = show) -> RunDir:
    """Read a run directory.

    Raises UsageError when there is no journal: without one there is nothing to report.
    """
    journal = path / "journal.jsonl"
    if not journal.is_file() and (brought_in := _imported(path)) is not None:
        return brought_in
    if not journal.is_file():
        hint = "name a directory that `r2cc chaos run` made, such as runs/<time>-<experiment>"
        raise UsageError(f"{path} is not a run directory: it has no journal.jsonl", hint)
    notes: list[str] = []
    with progress("reading the journal"), _keeping_all():
        return _read_whole(path, notes)


@contextmanager
def _keeping_all() -> Iterator[None]:
    """A long journal is a million objects, none of them garbage: to look for some takes a quarter of the time."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _read_whole(path: Path, notes: list[str]) -> RunDir:
    samples = Samples()
    lines = read_lines(path / "journal.jsonl", notes, samples)
    experiment = _read_yaml(path / "experiment.yaml", notes)
    environment = _read_json(path / "environment.json", notes)
    known = _read_summary(path / "summary.json", notes)
    traces = group(lines, samples, notes)
    summary = recompute.summary([*lines, *samples.ends()], experiment, environment, known, notes)
    return RunDir(path, experiment, environment, traces, summary, notes)


def _imported(path: Path) -> RunDir | None:
    """What `r2cc runs import` made: figures of another tool, which keeps no journal. None for anything else."""
    notes: list[str] = []
    environment = _read_json(path / "environment.json", notes)
    known = _read_summary(path / "summary.json", notes)
    if notes or "source" not in environment:
        return None
    return RunDir(path, {"name": known["experiment"]}, environment, [], known)


def read_lines(path: Path, notes: list[str], samples: Samples) -> list[Json]:
    """The lines of a journal that have the common fields; how many have not is said in `notes`. Byte counters go to
    `samples` instead: they are nearly all of a long journal, and as lines would take all memory."""
    lines: list[Json] = []
    broken: list[int] = []
    with path.open("rb", buffering=1 << 20) as file:
        for number, raw in enumerate(file, start=1):
            if samples.take(raw):
                continue
            line = _parse(raw)
            if line is None:
                broken.append(number)
            elif not _is_sample(line, samples):
                lines.append(line)
    samples.finish()
    lines += [line for raw in samples.odd if (line := _parse(raw)) is not None]
    if broken:
        cut = f"{len(broken)} line(s) of journal.jsonl could not be read, the first is line {broken[0]}"
        notes.append(f"{cut}: the run was cut short, or the file was damaged.")
    return lines


def _parse(raw: bytes) -> Json | None:
    try:
        line = json.loads(raw.decode())
    except ValueError:
        return None
    return line if isinstance(line, dict) and line.keys() >= COMMON else None


def _is_sample(line: Json, samples: Samples) -> bool:
    """True when its counters were taken; one that lacks a field stays a line, to be told of with the others."""
    if line["event"] != "sample" or line["arm"] == OUTSIDE:
        return False
    try:
        samples.add(line)
    except UNREADABLE:
        return False
    return True


def group(lines: Iterable[Json], samples: Samples, notes: list[str]) -> list[Trace]:
    """All arms and repeats, in order of appearance. A line that lacks a field of its kind is left out and counted."""
    traces: dict[tuple[str, int], Trace] = {}
    odd = 0
    for line in lines:
        if line["arm"] == OUTSIDE:
            continue
        try:
            key = (str(line["arm"]), int(line["run"]))
            traces.setdefault(key, Trace(*key)).add(line)
        except UNREADABLE:
            odd += 1
    for key, nics in samples.by_run.items():
        traces.setdefault(key, Trace(*key)).samples = nics
    if odd:
        notes.append(f"{odd} line(s) of journal.jsonl lack a field and are left out.")
    notes.extend(_missing(list(traces.values())))
    return list(traces.values())


def _missing(traces: list[Trace]) -> list[str]:
    if not traces:
        return ["journal.jsonl holds no run: nothing was measured."]
    return [
        f"Arm {t.arm}, repeat {t.run + 1} did not end: the journal stops after {len(t.iterations)} iteration(s)."
        for t in traces
        if not t.ended
    ]


def _read_summary(path: Path, notes: list[str]) -> Json:
    """summary.json if it is one: what other tools left there must not break a page."""
    value = _read_json(path, notes)
    if value and (wrong := schemas.problems("summary", value)):
        notes.append(f"{path.name} is not used, it does not fit its schema: {wrong[0]}")
        return {}
    return value


def _read_json(path: Path, notes: list[str]) -> Json:
    return _read(path, notes, json.loads)


def _read_yaml(path: Path, notes: list[str]) -> Json:
    import yaml

    return _read(path, notes, yaml.safe_load)


def _read(path: Path, notes: list[str], parse: Callable[[str], object]) -> Json:
    """A mapping from a file; {} and a note when the file is missing, cannot be parsed, or holds something else."""
    from yaml import YAMLError

    try:
        value = parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        notes.append(f"{path.name} is missing.")
        return {}
    except (ValueError, YAMLError):
        notes.append(f"{path.name} cannot be read.")
        return {}
    if not isinstance(value, dict):
        notes.append(f"{path.name} holds no mapping.")
        return {}
    return value
