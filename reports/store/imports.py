"""Figures of other tools as runs of the store: nccl-tests' JSON and text, Megatron's logs. The file itself is kept."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.analysis.model import Arm, Check, Healthy, Run, Summary
from harness.config.files import Unreadable, bytes_of
from harness.config.plain import printable
from harness.errors import UsageError
from harness.facts.environment import Hardware
from harness.progress import show
from harness.schemas.form import form
from reports.store.names import when_of
from reports.store.readers import megatron, nccl_tests
from reports.store.readers.lines import decoded, lines
from reports.store.readers.model import Content, Reading, Source

if TYPE_CHECKING:
    from harness.files.rundir import RunDir

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
MOST_BYTES = 256 << 20
SHOWN, MOST_WHYS, MOST_NOTES = 60, 5, 10


@form("environment")
@dataclass(frozen=True)
class Imported:
    """What wrote the file that a run was made of."""

    source: Source
    file: str


@form("runs_imported", "r2cc runs import")
@dataclass(frozen=True)
class Made:
    """What became runs."""

    runs: Sequence[str]
    """ids"""
    notes: Sequence[str]
    """what is to be known of the files: lines left out, what several runs are of, what did not end"""


@dataclass(frozen=True)
class About:
    """What the file does not say."""

    name: str
    arm: str = "stock"
    bed: str = "imported"
    hardware: str = ""
    """Figures are comparable among runs with the same word here."""
    build_id: str = ""


@dataclass(frozen=True)
class Degraded:
    """The same measured while NICs were missing; `left` is the share of the bandwidth that there still was."""

    file: Path
    left: float | None = None


def detect(text: str) -> str:
    """`nccl-tests` or `megatron`. UsageError for what is neither, or both."""
    if nccl_tests.is_json(text):
        return nccl_tests.SOURCE
    told = [line for line in lines(text) if line.text.strip()]
    kinds = {nccl_tests.SOURCE: nccl_tests.has_table, megatron.SOURCE: megatron.is_log}
    found = {kind: line.number for line in reversed(told) for kind, is_it in kinds.items() if is_it(line.text)}
    if len(found) == 1:
        return next(iter(found))
    if found:
        places = " and ".join(f"{kind} (line {number})" for kind, number in sorted(found.items()))
        raise UsageError(f"there are lines of {places} in it", "say with --kind which to take")
    raise UsageError(
        "this is no file of nccl-tests (its JSON or what it prints) and no log of Megatron-LM: it has no line "
        f"'# size count type ...' and none 'iteration 1/ 100 | ...', and line {told[0].number} is "
        f"'{printable(told[0].text.strip()[:SHOWN])}'",
        "is it the right file? docs/reference/stored-runs.md",
    )


def parse(text: str, kind: str) -> Content:
    """UsageError, with the lines that say why, when there is not one figure in it."""
    found = READERS[kind](text)
    if not any(reading.metrics for reading in found.readings):
        whys = [*found.notes, *(reading.why for reading in found.readings if reading.why)]
        why = f": {'; '.join(whys[:MOST_WHYS])}" if whys else ""
        raise UsageError(f"there is no figure of {kind} in it{why}", "is it the right file, and is it whole?")
    return found


READERS: dict[str, Callable[[str], Content]] = {nccl_tests.SOURCE: nccl_tests.read, megatron.SOURCE: megatron.read}


def with_degraded(healthy: Reading, degraded: Reading, left: float | None) -> Reading:
    """Both as one run. What is left of the healthy bandwidth bounds the degraded one, size by size."""
    whole = {each.size_bytes: each.value for each in healthy.metrics if each.name == "busbw" and each.value is not None}
    bounds = {size: value * left for size, value in whole.items()} if left is not None else {}
    added = [
        replace(each, name="busbw_degraded", bound=bounds.get(each.size_bytes))
        for each in degraded.metrics
        if each.name == "busbw"
    ]
    counted = [reading.wrong for reading in (healthy, degraded) if reading.wrong is not None]
    return replace(
        healthy,
        metrics=[*healthy.metrics, *added],
        wrong=sum(counted) if counted else None,
        completed=healthy.completed and degraded.completed,
        iterations=healthy.iterations + degraded.iterations,
        doubt="; ".join(reading.doubt for reading in (healthy, degraded) if reading.doubt),
        why="; ".join(reading.why for reading in (healthy, degraded) if reading.why and not reading.completed),
    )


def summary(found: Reading, about: About) -> Summary:
    """Of a run with one arm. What the tool did not check is no check of the run."""
    verdict = found.verdict
    exact = Check("exact", "deviated" if found.wrong else "holds", found.wrong, 0, "elements")
    run = Run(
        run=0,
        completed=found.completed,
        iterations=found.iterations,
        wrong_elements=found.wrong or 0,
        healthy_ms=Healthy(found.healthy_ms, None),
        bytes_per_nic={},
        faults=[],
        metrics=found.metrics,
        void=[],
        errors=[],
        checks=[exact] if found.wrong is not None else [],
        verdict=verdict,
    )
    judged = None if verdict == "failed" else verdict == "holds"
    return Summary(
        verdict=verdict,
        exit_code=0 if verdict == "holds" else 1 if verdict == "deviated" else 3,
        experiment=_experiment(found, about),
        bed=about.bed,
        hardware=Hardware(about.hardware, "", 0, 0),
        build_id=about.build_id or None,
        seed=0,
        reasons=found.reasons,
        arms=[Arm(about.arm, 0, "holds", verdict, judged, [run], [], [])],
    )


def _experiment(found: Reading, about: About) -> str:
    """What is measured differently is another experiment: else `compare` would take it for a repeat."""
    return f"{about.name}-{found.part}" if found.part else about.name


def bring_in(
    store: Path,
    files: Sequence[Path],
    about: About,
    kind: str | None = None,
    degraded: Degraded | None = None,
    *,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """A run directory for each measurement of each file; `tell` hears what is to be known of them.

    UsageError, before any is made, for a file that cannot be read or says nothing. What fails later leaves none behind.
    """
    if not NAME.fullmatch(about.name):
        raise UsageError(f"'{about.name}' is no name of an experiment", "small letters, digits, - and _")
    if degraded is not None and len(files) != 1:
        raise UsageError("a degraded measurement belongs to one healthy one", "name one FILE with --degraded")
    read = [(file, _read(file, kind)) for file in files]
    if degraded is not None:
        both = with_degraded(_only(*read[0]), _only(degraded.file, _read(degraded.file, "nccl-tests")), degraded.left)
        return _write_all(store, [([files[0], degraded.file], both)], about)
    for file, content in read:
        for line in _told(content, about):
            tell(printable(f"{file}: {line}"))
    return _write_all(store, [([file], reading) for file, content in read for reading in content.readings], about)


def _only(file: Path, content: Content) -> Reading:
    if len(content.readings) != 1:
        parts = ", ".join(f"{reading.part or 'one'} (line {reading.line})" for reading in content.readings)
        raise UsageError(f"{file} holds {len(content.readings)} measurements: {parts}", "cut out the one that is meant")
    return content.readings[0]


def _told(content: Content, about: About) -> Iterator[str]:
    """What a reader of the figures has to know: what was left out, what there is, and what did not end well."""
    yield from content.notes[:MOST_NOTES]
    if (more := len(content.notes) - MOST_NOTES) > 0:
        yield f"and {more} more lines are left out"
    for reading in content.readings:
        said = f"line {reading.line}: {_experiment(reading, about)}: {reading.verdict}"
        if reading.reasons or len(content.readings) > 1:
            yield f"{said}: {'; '.join(reading.reasons)}" if reading.reasons else said


def _read(file: Path, kind: str | None) -> Content:
    try:
        with show(f"reading {printable(file.name)}"):
            text = decoded(bytes_of(file.resolve(), MOST_BYTES))
            return parse(text, kind or detect(text))
    except Unreadable as error:
        raise UsageError(f"cannot read {file}: {error.message}", "check the path") from error
    except UsageError as error:
        raise UsageError(f"{file}: {error.message}", error.hint) from error


def _write_all(store: Path, runs: Sequence[tuple[Sequence[Path], Reading]], about: About) -> list[Path]:
    """All or none, whenever it is killed."""
    from reports.store.staging import batch

    kept: dict[Path, Path] = {}
    with batch(store) as made:
        for files, reading in runs:
            _fill(made.begin(_experiment(reading, about), when_of(files[0])), files, reading, about, kept)
    return made.made


def _fill(run: RunDir, files: Sequence[Path], found: Reading, about: About, kept: dict[Path, Path]) -> None:
    run.raw.mkdir()
    for number, file in enumerate(files):
        _keep(file, run.raw / (file.name if not number else f"degraded-{file.name}"), kept)
    run.write_json("environment.json", Imported(found.source, printable(files[0].name)))
    run.write_json("summary.json", summary(found, about))


def _keep(file: Path, place: Path, kept: dict[Path, Path]) -> None:
    """A copy of the file; `kept` are those made so far: the runs of one file share it, as far as the disk can."""
    try:
        place.hardlink_to(kept[file])
    except (KeyError, OSError):
        shutil.copyfile(file, place)
    kept[file] = place
