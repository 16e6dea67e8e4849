"""Which programs of nccl-tests print in a text: one after the other, or several processes side by side."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.workloads.nccltests.rows import columns_of
from reports.store.readers.deaths import death
from reports.store.readers.lines import Line
from reports.store.readers.origin import origin
from reports.store.readers.programs import Mixed, Process

HEADER = re.compile(r"#?\s*\b(?:size|bytes)(?:\(B\))?\s+(?:count|N)\b")
BEGIN = re.compile(r"#\s*Collective test starting:\s*(\S+)")
SETTINGS = re.compile(r"#\s*nThreads?\s+\d+\s+nGpus\s+\d+")
DEVICE = re.compile(r"#\s+Rank\s+\d+\b.*\bdevice\s+\d+")
TYPE = r"(?:u?int\d*|char|half|float\d*|double|bf(?:loat)?16|f(?:p|loat)?8\w*)"
ROW = re.compile(rf"(?<![\w.,-])\d+\s+\d+\s+{TYPE}(?=\s|$)")
BOUNDS = re.compile(r"#?\s*Out of bounds values\s*:\s*(\d{1,18})")
END = re.compile(r"#?\s*Avg bus bandwidth\s*:\s*(\S+)(\s+FAILED)?")
HINT = re.compile(
    r"starting:|nThread|# +Rank|(?:size|bytes)(?:\(B\))?\s+|\d\s+(?:u?int|char|half|float|double|b?f|fp)"
    r"|Out of b|Avg bus"
)
"""Something of it is in every line that is taken."""
PROGRAM = re.compile(r"\b([a-z][a-z0-9_]*)_perf(?:_mpi)?\b")


class Printed:
    """Reads line by line. Raises Mixed where the output of several processes cannot be told apart."""

    def __init__(self) -> None:
        self.processes: dict[str, Process] = {}
        self.strays: dict[int, str] = {}
        """Rows that nobody's header explains, by line."""
        self._named = ""

    def read(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self._take(line)
        for process in self.processes.values():
            process.give_up()

    def _take(self, line: Line) -> None:
        if HINT.search(line.text) is None:
            return self._other(line)
        kinds = (
            (BEGIN, self._begin), (SETTINGS, self._settings), (DEVICE, self._device), (HEADER, self._header),
            (ROW, self._row), (BOUNDS, self._bounds), (END, self._end),
        )  # fmt: skip
        for pattern, take in kinds:
            if (found := pattern.search(line.text)) is not None:
                name = origin(line.text[: found.start()])
                process = self.processes.get(name, Process(name))
                take(process, found, line)
                if process.programs:
                    self.processes[name] = process
                return None
        return self._other(line)

    def _begin(self, process: Process, found: re.Match[str], line: Line) -> None:
        process.begin(_short(found[1]), line.number)
        self._named = ""

    def _settings(self, process: Process, found: re.Match[str], line: Line) -> None:
        begun = process.open
        if begun is None or begun.begun:
            begun = process.begin(self._take_name(), line.number)
        begun.settings = line.text[found.start() :]

    def _device(self, process: Process, _found: re.Match[str], _line: Line) -> None:
        if process.open is not None:
            process.open.ranks += 1

    def _header(self, process: Process, found: re.Match[str], line: Line) -> None:
        columns = columns_of(line.text[found.start() :])
        if columns is None:
            return
        if process.table is not None:
            raise Mixed(line.number, f"a table begins before the one of line {process.table[0].line} has ended")
        begun = process.open or process.begin(self._take_name(), line.number)
        begun.columns = columns

    def _take_name(self) -> str:
        """Of the program that a script named before it ran it."""
        name, self._named = self._named, ""
        return name

    def _row(self, process: Process, found: re.Match[str], line: Line) -> None:
        if not process.row(line, line.text[found.start() :]):
            self.strays[line.number] = "a row, but above it no header of the same process says what its columns are"

    def _bounds(self, process: Process, found: re.Match[str], _line: Line) -> None:
        process.give_up()
        if process.open is not None:
            process.open.wrong_sizes = int(found[1])

    def _end(self, process: Process, found: re.Match[str], line: Line) -> None:
        """Scripts print it once more as their summary; then no table is open, nor was one left open before."""
        process.give_up()
        if process.open is not None:
            process.open.below = found[1] if found[2] else ""
            process.open.ended = True
        elif any((not program.ended and not program.died) or program.doubled for program in process.programs):
            raise Mixed(line.number, "a second table ends here")

    def _other(self, line: Line) -> None:
        if "_perf" in line.text and (named := PROGRAM.findall(line.text)) and "concluded" not in line.text:
            self._named = named[-1]
        why = death(line.text)
        for process in self.processes.values():
            if why and process.open is not None and not process.open.died:
                process.open.died = f"line {line.number}: {why}"
            process.other(line)


def _short(program: str) -> str:
    found = PROGRAM.search(program)
    return found[1] if found is not None else program
