"""Reading a run directory: the journal is the truth, everything else only helps to name things.

A run that was killed leaves half a journal, perhaps with half a last line, and no summary. It still loads; what is
missing is said in `notes`, which every rendering shows.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from chaos.analysis.model import Summary, summary_of
from harness import schemas
from harness.config import documents, jsons
from harness.config.files import Unreadable, is_there, opened
from harness.config.plain import LARGEST_COUNTER, MOST_DEPTH, cleaned, printable
from harness.errors import UsageError
from harness.progress import Progress, show
from reports.reading import recompute
from reports.reading.lines import fits
from reports.reading.samples import OUTSIDE, UNREADABLE, Samples
from reports.reading.trace import Json, NicId, Trace
from reports.store.names import id_of

JOURNAL = "journal.jsonl"
LONGEST_LINE = 64 << 20
LONGEST_NOTE = 300


@dataclass
class RunDir:
    """A run directory, read: what was asked for, where it ran, what happened, and what it came to."""

    path: Path
    experiment: Json
    environment: Json
    traces: list[Trace]
    summary: Summary
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The experiment's name, else the directory's."""
        return str(self.experiment.get("name") or id_of(self.path.name))

    def traces_of(self, arm: str) -> list[Trace]:
        """The repeats of an arm, in order."""
        return [trace for trace in self.traces if trace.arm == arm]

    def arm_names(self) -> list[str]:
        """Arms in the summary's order, then those that only the journal knows (a run that was killed)."""
        named = [arm.name for arm in self.summary.arms]
        return named + [name for name in dict.fromkeys(t.arm for t in self.traces) if name not in named]

    def faulted(self) -> list[NicId]:
        """The NICs that faults were aimed at, each once."""
        return list(dict.fromkeys(w.target for trace in self.traces for w in trace.windows()))

    def raw_files(self) -> list[str]:
        """Names of the run's files that hold something, relative to the directory, for the links of a report."""
        names = ["journal.jsonl", "summary.json", "experiment.yaml", "environment.json", "report.md"]
        found = [name for name in names if is_there(self.path / name)]
        return found + [str(file.relative_to(self.path)) for file in _raw_files(self.path / "raw")]


def _raw_files(folder: Path) -> list[Path]:
    """Those that hold something; no link is followed, and what is not named in UTF-8 cannot be linked to."""
    if folder.is_symlink():
        return []
    files = [file for file in sorted(folder.rglob("*")) if is_there(file) and file.stat().st_size]
    return [file for file in files if str(file).isprintable()]


def load(path: Path, progress: Progress = show) -> RunDir:
    """Read a run directory.

    Raises UsageError when there is no journal, or one that cannot be read, or that a newer r2cc wrote: without one
    there is nothing to report.
    """
    journal = path / JOURNAL
    if not os.path.lexists(journal):
        return _imported(path)
    notes: list[str] = []
    try:
        with progress("reading the journal"), _keeping_all():
            return _read_whole(path, notes)
    except Unreadable as error:
        raise UsageError(f"{path}: {error.message}", error.hint or "it is not as `r2cc chaos run` made it") from error


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
    every = read_lines(path / JOURNAL, notes, samples)
    lines = [line for line in every if fits(line)]
    experiment = _read_yaml(path / "experiment.yaml", notes)
    environment = _read_json(path / "environment.json", notes)
    known = _read_summary(path / "summary.json", notes)
    traces = group(lines, samples, notes, len(every) - len(lines))
    summary = recompute.summary([*lines, *samples.ends()], experiment, environment, known, notes)
    notes += _missing(traces, summary)
    return RunDir(path, experiment, environment, traces, summary, notes)


def _imported(path: Path) -> RunDir:
    """What `r2cc runs import` made: figures of another tool, which keeps no journal. UsageError for anything else."""
    notes: list[str] = []
    environment = _read_json(path / "environment.json", notes)
    known = _read_summary(path / "summary.json", notes) if "source" in environment else None
    if known:
        return RunDir(path, {"name": known.experiment}, environment, [], known)
    if "source" in environment or any("missing" not in note for note in notes):
        raise UsageError(f"{path}: {notes[-1]}", "it is not as `r2cc runs import` made it")
    hint = "name a directory that `r2cc chaos run` made, such as runs/<time>-<experiment>"
    raise UsageError(f"{path} is not a run directory: it has no {JOURNAL}", hint)


def read_lines(path: Path, notes: list[str], samples: Samples) -> list[Json]:
    """The lines of a journal that have the common fields; how many have not is said in `notes`. Byte counters go to
    `samples` instead: they are nearly all of a long journal, and as lines would take all memory."""
    lines: list[Json] = []
    broken: list[int] = []
    with opened(path, None) as file:
        for number, raw in enumerate(iter(partial(file.readline, LONGEST_LINE), b""), start=1):
            if samples.take(raw):
                continue
            line = _parse(raw, number)
            if line is None:
                broken.append(number)
            elif not _is_sample(line, samples):
                lines.append(line)
    samples.finish()
    lines += [line for raw in samples.odd if (line := _parse(raw, 0)) is not None]
    if broken:
        cut = f"{len(broken)} line(s) of journal.jsonl could not be read, the first is line {broken[0]}"
        notes.append(f"{cut}: the run was cut short, or the file was damaged.")
    return lines


def _parse(raw: bytes, number: int) -> Json | None:
    """None for what is no line of a journal. Unreadable for one of another version of r2cc."""
    try:
        line = _loaded(raw)
    except (ValueError, RecursionError, Unreadable):
        return None
    if not isinstance(line, dict) or not _has_common(line):
        return None
    if line.get("schema", 1) != 1:
        jsons.check_version(line, 1, f"line {number} of {JOURNAL}")
    return line


def _has_common(line: Json) -> bool:
    """The fields that every line has; written out, as a journal has millions of them."""
    t_ns, run = line.get("t_ns"), line.get("run")
    if type(t_ns) is not int or type(run) is not int or t_ns < 0 or run < 0:
        return False
    return type(line.get("host")) is str and type(line.get("arm")) is str and type(line.get("event")) is str


def _loaded(raw: bytes) -> object:
    """Nearly no line holds what is looked at twice: it would take longer than all the rest. Control characters are
    escaped, or have one of two bytes."""
    if raw.count(b"[") + raw.count(b"{") <= MOST_DEPTH and not jsons.is_odd(raw):
        line = json.loads(raw.decode())
        return cleaned(line) if b"\\" in raw or b"\x7f" in raw or b"\xc2" in raw else line
    return cleaned(jsons.loaded(raw, JOURNAL, LARGEST_COUNTER))


def _is_sample(line: Json, samples: Samples) -> bool:
    """True when its counters were taken; one that lacks a field stays a line, to be told of with the others."""
    if line["event"] != "sample" or line["arm"] == OUTSIDE:
        return False
    try:
        samples.add(line)
    except UNREADABLE:
        return False
    return True


def group(lines: Iterable[Json], samples: Samples, notes: list[str], odd: int) -> list[Trace]:
    """All arms and repeats, in order of appearance. A line that lacks a field of its kind is left out and counted,
    with the `odd` ones that were left out before."""
    traces: dict[tuple[str, int], Trace] = {}
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
        notes.append(f"{odd} line(s) of journal.jsonl lack a field, or have another there, and are left out.")
    return list(traces.values())


def _missing(traces: list[Trace], summary: Summary) -> list[str]:
    """One note for each run that was cut short, and whether tables have it."""
    if not traces:
        return ["journal.jsonl holds no run: nothing was measured."]
    runs = {(arm.name, run.run): run for arm in summary.arms for run in arm.runs}
    whole = {arm for (arm, _), run in runs.items() if not run.cut}
    cut = [t for t in traces if not t.ended or ((run := runs.get((t.arm, t.run))) is not None and run.cut)]
    return [_unfinished(trace, left_out=trace.arm in whole) for trace in cut]


def _unfinished(trace: Trace, *, left_out: bool) -> str:
    why = "it was interrupted" if trace.ended else "the journal stops"
    told = f"Arm {trace.arm}, run {trace.run} did not end: {why} after {len(trace.iterations)} iteration(s)"
    return f"{told}, and is left out of the tables." if left_out else f"{told}. The tables show what there is."


def _read_summary(path: Path, notes: list[str]) -> Summary | None:
    """summary.json if it is one: what other tools left there must not break a page."""
    value = _read_json(path, notes)
    if not value:
        return None
    if not (wrong := schemas.problems("summary", value)):
        try:
            return summary_of(value)
        except ValueError as error:  # 1e272 is a whole number to the schema, and too large to be one here
            wrong = [" ".join(str(error).split())]
    notes.append(f"{path.name} is not used, it does not fit its schema: {printable(wrong[0][:LONGEST_NOTE])}")
    return None


def _read_json(path: Path, notes: list[str]) -> Json:
    return _read(path, notes, partial(jsons.mapping_of, schema=1))


def _read_yaml(path: Path, notes: list[str]) -> Json:
    return _read(path, notes, documents.mapping_of)


def _read(path: Path, notes: list[str], parse: Callable[[Path], Json]) -> Json:
    """A mapping from a file; {} and a note when the file is missing, cannot be read, or holds something else."""
    try:
        return dict(cleaned(parse(path)))
    except Unreadable as error:
        notes.append(f"{error.message}.")
        return {}
