"""nccl-tests: what its programs print (every version since NCCL 1's own tests) and the JSON that today's write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from chaos.analysis.model import Metric
from harness.errors import UsageError
from harness.workloads.nccltests import torn_json
from harness.workloads.nccltests.report import read_json
from harness.workloads.nccltests.rows import Row
from reports.store.readers.lines import lines
from reports.store.readers.model import Content, Reading, metric, named
from reports.store.readers.origin import slug, word
from reports.store.readers.printed import HEADER, Printed
from reports.store.readers.programs import Process, Program, Turn
from reports.store.readers.tags import joined

SOURCE: Final = "nccl-tests"
MOST_WRONG = 2**63 - 1
SETTINGS = re.compile(r"(nThread|nGpus|agg iters|graph):?\s+(\d+)")
"""Those that change what is measured; sizes and counts of iterations do not."""


def is_json(text: str) -> bool:
    return text.lstrip().startswith("{") and '"results"' in text


def has_table(line: str) -> bool:
    """Whether a line begins a table."""
    return ("size" in line or "bytes" in line) and HEADER.search(line) is not None


def read(text: str) -> Content:
    """UsageError where it cannot be told which row is whose."""
    return _json(text) if is_json(text) else _printed(text)


def _printed(text: str) -> Content:
    printed = Printed()
    printed.read(joined(lines(text)))
    found = [(process, program) for process in printed.processes.values() for program in process.programs]
    found.sort(key=lambda pair: pair[1].line)
    readings = [reading for process, program in found for reading in _of_program(process, program)]
    lost = {
        number: why for _, program in found for number, why in program.cut.items() if program.ended or program.turns
    }
    cut = sorted({**printed.strays, **lost}.items())
    return Content(named(readings, within="test"), [f"line {number}: {why}: left out" for number, why in cut])


def _of_program(process: Process, program: Program) -> Iterator[Reading]:
    """One for each time through the sizes; one without a figure of a program that printed none."""
    unsaid = program.wrong_sizes if program.wrong_sizes and not any(map(_wrong, program.turns)) else 0
    traits = {"test": _test(process, program), "process": word(process.origin), **_settings(program)}
    for turn in program.turns or [Turn(("", "", -1), program.line)]:
        checked = any(row.wrong is not None or row.error is not None for row in turn.rows)
        reading = _of_rows(turn.rows, {**traits, **_key(turn)}, program.ended)
        yield replace(
            reading,
            wrong=min(_wrong(turn) + unsaid, MOST_WRONG) if checked or unsaid else None,
            doubt=_too_slow(program.below),
            why=program.died or _last_words(program),
            line=program.line if turn is next(iter(program.turns), turn) else turn.line,
        )


def _of_rows(rows: Sequence[Row], traits: dict[str, str], completed: bool) -> Reading:
    metrics = [each for row in rows for each in _metrics(row)]
    return Reading(SOURCE, metrics, completed, len(rows), traits=traits)


def _wrong(turn: Turn) -> int:
    return sum(row.wrong or 0 for row in turn.rows)


def _too_slow(below: str) -> str:
    return f"nccl-tests itself says FAILED of the average bus bandwidth, {below} GB/s" if below else ""


def _last_words(program: Program) -> str:
    if program.columns is None:
        return f"it began at line {program.line} and printed no table"
    return "" if program.turns else f"the table of line {program.line} has no whole row"


def _test(process: Process, program: Program) -> str:
    """Its name; a number where nobody says it and there are several, as then nobody knows whether they are alike."""
    if program.name or len(process.programs) == 1:
        return slug(program.name)
    return str(1 + next(place for place, each in enumerate(process.programs) if each is program))


def _key(turn: Turn) -> dict[str, str]:
    kind, redop, root = turn.key
    return {"type": slug(kind), "redop": slug(redop), "root": f"root{root}"}


def _settings(program: Program) -> dict[str, str]:
    told = {name: slug(f"{name.replace(' ', '_')}{value}") for name, value in SETTINGS.findall(program.settings)}
    return {"ranks": f"{program.ranks}ranks" if program.ranks else "", **told}


def _metrics(row: Row) -> list[Metric]:
    place = "_in_place" if row.in_place else ""
    values = (("busbw", "GBps", row.busbw_GBps), ("algbw", "GBps", row.algbw_GBps), ("latency_us", "us", row.time_us))
    return [metric(f"{name}{place}", unit, value, row.size_bytes) for name, unit, value in values if value is not None]


def _json(text: str) -> Content:
    """The same readings; what the program knows better than its rows is taken from it."""
    if rest := torn_json.rest(text).strip():
        line = text[: len(text.rstrip()) - len(rest)].count("\n") + 1
        raise UsageError(f"line {line}: more follows after the JSON", "one file for each program")
    report = read_json(text)
    program = Program("", 1, ended=report.complete and not report.errors, wrong_sizes=report.wrong_rows)
    for rows in _by_size(report.rows):
        program.add(rows, 1)
    program.died = "; ".join(report.errors)
    program.below = _below(text)
    return Content(named([*_of_program(Process("", [program]), program)] if program.turns else [], within="test"))


def _below(text: str) -> str:
    """The average bandwidth, where the program says that it is not okay."""
    value, _ = torn_json.loads(text)
    told = value.get("average_bus_bandwidth") if isinstance(value, dict) else None
    return str(told.get("bandwidth")) if isinstance(told, dict) and told.get("okay") in ("false", False) else ""


def _by_size(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Out of place and in place together."""
    held: list[Row] = []
    for row in rows:
        if held and not (row.in_place and not held[0].in_place and row.size_bytes == held[0].size_bytes):
            yield held
            held = []
        held.append(row)
    if held:
        yield held
