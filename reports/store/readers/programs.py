"""Which programs of nccl-tests print in a text, and what each: several may run one after the other or side by side."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.errors import UsageError
from harness.workloads.nccltests_rows import Columns, Row, columns_of
from reports.store.readers.deaths import death
from reports.store.readers.origin import origin
from reports.store.readers.text import Line

HEADER = re.compile(r"#?\s*\b(?:size|bytes)(?:\(B\))?\s+(?:count|N)\b")
BEGIN = re.compile(r"#\s*Collective test starting:\s*(\S+)")
SETTINGS = re.compile(r"#\s*nThreads?\s+\d+\s+nGpus\s+\d+")
DEVICE = re.compile(r"#\s+Rank\s+\d+\b.*\bdevice\s+\d+")
ROW = re.compile(
    r"(?<![\w.,-])\d+\s+\d+\s+(?:u?int\d*|char|half|float\d*|double|bf(?:loat)?16|f(?:p|loat)?8\w*)(?=\s|$)"
)
BOUNDS = re.compile(r"#?\s*Out of bounds values\s*:\s*(\d+)")
END = re.compile(r"#?\s*Avg bus bandwidth\s*:\s*(\S+)(\s+FAILED)?")
PROGRAM = re.compile(r"\b([a-z][a-z0-9_]*)_perf(?:_mpi)?\b")
NUMBERS = re.compile(r"(?:(?:^|\s)(?:[-+]?\d[\d.]*(?:e[-+]?\d+)?|-?nan|-?inf|N/A))+\s*$", re.IGNORECASE)
OTHERS = re.compile(r"(?:\[[^\]\s]+[^\]]*\]\s*)?(?:[A-Za-z][\w.-]*:\d+:\d+ \[\d+\] |NCCL version ).*")
"""What NCCL itself prints where a row has not ended yet: `host:pid:tid [0] NCCL INFO ...`."""
Key = tuple[str, str, int]
APART = "keep the output of each apart: mpirun --tag-output, srun --label, or one file each"


class Mixed(UsageError):
    """Several programs print in turn, and nothing says which row is whose."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}: what several programs print is mixed here", APART)


@dataclass
class Turn:
    """Rows of one type, operation and root, once through the sizes. `sizes`: those seen, in order."""

    key: Key
    line: int
    rows: list[Row] = field(default_factory=list)
    sizes: dict[int, None] = field(default_factory=dict)

    def begins_again(self, size: int) -> bool:
        return size == next(iter(self.sizes), None)


@dataclass
class Program:
    """What one program printed. `line`: where it begins; `cut`: rows that are not whole, by line."""

    name: str
    line: int
    columns: Columns | None = None
    ranks: int = 0
    settings: str = ""
    turns: list[Turn] = field(default_factory=list)
    cut: dict[int, str] = field(default_factory=dict)
    wrong_sizes: int | None = None
    """Out of bounds values, as the program counted them."""
    ended: bool = False
    below: str = ""
    """Its average bandwidth where the program itself found that too low."""
    died: str = ""

    @property
    def begun(self) -> bool:
        """It printed more than its name."""
        return bool(self.settings) or self.columns is not None

    def add(self, rows: list[Row], line: int) -> None:
        """Sizes come again only when all of them do (`-N`). Raises Mixed."""
        of, size = key(rows[0]), rows[0].size_bytes
        turn = next((turn for turn in reversed(self.turns) if turn.key == of), None)
        if turn is None or turn.begins_again(size):
            turn = Turn(of, line)
            self.turns.append(turn)
        elif size in turn.sizes:
            raise Mixed(line, f"{size} bytes come a second time")
        turn.rows += rows
        turn.sizes[size] = None


@dataclass
class Process:
    """All that one process, or the launcher in its place, prints: one program after the other."""

    origin: str
    programs: list[Program] = field(default_factory=list)
    half: tuple[int, list[str]] | None = None
    """A row of which a part is printed: its line, and its words so far."""

    @property
    def open(self) -> Program | None:
        """The program that has not ended yet."""
        return self.programs[-1] if self.programs and not self.programs[-1].ended else None

    def begin(self, name: str, line: int) -> Program:
        self.give_up()
        self.programs.append(Program(name, line))
        return self.programs[-1]

    def give_up(self) -> None:
        """What is left of a row that was never finished."""
        if self.half is not None and self.programs and (columns := self.programs[-1].columns) is not None:
            number, words = self.half
            self.programs[-1].cut[number] = f"a row with {len(words)} of {columns.ends[-1]} columns"
        self.half = None


class Programs:
    """Reads line by line. UsageError where the output of several processes cannot be told apart."""

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
        kinds = (
            (BEGIN, self._begin), (SETTINGS, self._settings), (DEVICE, self._device), (HEADER, self._header),
            (ROW, self._row), (BOUNDS, self._bounds), (END, self._end),
        )  # fmt: skip
        for pattern, take in kinds:
            if (found := pattern.search(line.text)) is not None:
                take(self._process(line.text[: found.start()]), found, line)
                return
        self._other(line)

    def _process(self, before: str) -> Process:
        name = origin(before)
        return self.processes.setdefault(name, Process(name))

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
        begun = process.open
        if begun is not None and begun.columns is not None:
            raise Mixed(line.number, f"a table begins before the one of line {begun.line} has ended")
        if begun is None:
            begun = process.begin(self._take_name(), line.number)
        begun.columns = columns

    def _take_name(self) -> str:
        """Of the program that a script named before it ran it."""
        name, self._named = self._named, ""
        return name

    def _row(self, process: Process, found: re.Match[str], line: Line) -> None:
        begun = process.open
        if begun is None or begun.columns is None:
            self.strays[line.number] = "a row, but above it no header of the same process says what its columns are"
            return
        process.give_up()
        self._words(process, begun.columns, line.number, OTHERS.sub("", line.text[found.start() :]).split(), line.whole)

    def _words(self, process: Process, columns: Columns, number: int, words: list[str], whole: bool) -> None:
        """Takes a row, or keeps the part of it that there is."""
        rows = columns.rows(words) if whole else []
        begun = process.programs[-1]
        if rows:
            process.half = None
            begun.add(rows, number)
        elif whole and len(words) in columns.ends[:-1]:
            process.half = number, words
        else:
            process.half = None
            begun.cut[number] = (
                f"a row with {len(words)} of {columns.ends[-1]} columns, or with words where numbers are"
            )

    def _bounds(self, process: Process, found: re.Match[str], _line: Line) -> None:
        process.give_up()
        if process.open is not None:
            process.open.wrong_sizes = int(found[1])

    def _end(self, process: Process, found: re.Match[str], line: Line) -> None:
        process.give_up()
        if process.open is not None:
            process.open.below = found[1] if found[2] else ""
            process.open.ended = True
        elif any(not program.ended and not program.died for program in process.programs):
            raise Mixed(line.number, "a second table ends here")

    def _other(self, line: Line) -> None:
        if (why := death(line.text)) != "":
            for process in self.processes.values():
                if process.open is not None and not process.open.died:
                    process.open.died = f"line {line.number}: {why}"
        if (named := PROGRAM.findall(line.text)) and "concluded" not in line.text:
            self._named = named[-1]
        for process in self.processes.values():
            if process.half is not None:
                self._go_on(process, line)

    def _go_on(self, process: Process, line: Line) -> None:
        """The next part of a row that was interrupted: numbers alone, of the same process."""
        text = OTHERS.sub("", line.text)
        found = NUMBERS.search(text)
        columns = process.programs[-1].columns
        if found is None or process.half is None or columns is None or origin(text[: found.start()]) != process.origin:
            return
        number, words = process.half
        self._words(process, columns, number, [*words, *found[0].split()], line.whole)


def key(row: Row) -> Key:
    """What a row is of: rows of different keys are different measurements."""
    return row.type, row.redop, row.root


def _short(program: str) -> str:
    found = PROGRAM.search(program)
    return found[1] if found is not None else program
