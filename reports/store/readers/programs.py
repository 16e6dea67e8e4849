"""What the programs of one process print: one after the other, each a table that has ended or not."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from harness.errors import UsageError
from harness.workloads.nccltests.rows import Columns, Row
from reports.store.readers.lines import Line
from reports.store.readers.origin import origin

ONE = r"(?:[-+]?\d[\d.]*(?:e[-+]?\d+)?|-?nan|-?inf|N/A)"
NUMBERS = re.compile(rf"(?<![\w.+-]){ONE}(?:\s+{ONE})*\s*$", re.IGNORECASE)
OTHERS = re.compile(r"(?:\[[^\]\s]+[^\]]*\]\s*)?(?:[A-Za-z][\w.-]*:\d+:\d+ \[\d+\] |NCCL version ).*")
"""What NCCL itself prints where a row has not ended yet: `host:pid:tid [0] NCCL INFO ...`."""
RANGE = re.compile(r"minBytes (\d+) maxBytes (\d+)")
Key = tuple[str, str, int]


class Mixed(UsageError):
    """Several programs print in turn, and nothing says which row is whose."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(
            f"line {line}: {what}: what several programs print is mixed here",
            "keep the output of each apart: mpirun --tag-output, srun --label, or one file each",
        )


@dataclass
class Turn:
    """Rows of one type, operation and root, once through the sizes. `sizes`: those seen, in order."""

    key: Key
    line: int
    rows: list[Row] = field(default_factory=list)
    sizes: dict[int, None] = field(default_factory=dict)

    @property
    def first(self) -> int | None:
        return next(iter(self.sizes), None)

    @property
    def last(self) -> int | None:
        return next(reversed(self.sizes), None)


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
    doubled: bool = False
    """A size came twice at once: it was rounded, or another program prints here, too."""
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
        """Sizes come again only when all of them do (`-N`), or at once. Raises Mixed."""
        key, size = (rows[0].type, rows[0].redop, rows[0].root), rows[0].size_bytes
        turn = next((turn for turn in reversed(self.turns) if turn.key == key), None)
        if turn is not None and size == turn.last and not self._is_one_size(turn):
            self._rounded(size, line)
            return
        if turn is None or size == turn.first:
            turn = Turn(key, line)
            self.turns.append(turn)
        elif size in turn.sizes:
            raise Mixed(line, f"{size} bytes come a second time")
        turn.rows += rows
        turn.sizes[size] = None

    def _is_one_size(self, turn: Turn) -> bool:
        """Whether no other size was asked for: then each row is a time through all of them."""
        asked = RANGE.search(self.settings)
        return len(turn.sizes) == 1 and turn.first != 0 and (asked is None or asked[1] == asked[2])

    def _rounded(self, size: int, line: int) -> None:
        """Sizes are rounded down to what ranks can share: small ones to 0, and neighbours to one. The first counts."""
        if size:
            self.doubled = True
            self.cut[line] = f"{size} bytes for the second time"


@dataclass
class Process:
    """All that one process, or the launcher in its place, prints."""

    origin: str
    programs: list[Program] = field(default_factory=list)
    half: tuple[int, list[str]] | None = None
    """A row of which a part is printed: its line, and its words so far."""

    @property
    def open(self) -> Program | None:
        """The program that has not ended yet."""
        return self.programs[-1] if self.programs and not self.programs[-1].ended else None

    @property
    def table(self) -> tuple[Program, Columns] | None:
        """The open one with its columns, once it has a header."""
        program = self.open
        return None if program is None or program.columns is None else (program, program.columns)

    def begin(self, name: str, line: int) -> Program:
        self.give_up()
        self.programs.append(Program(name, line))
        return self.programs[-1]

    def row(self, line: Line, text: str) -> bool:
        """Takes a row, or the first part of one; False where there is no table."""
        self.give_up()
        if self.table is not None:
            self._words(line.number, OTHERS.sub("", text).split(), line.whole)
        return self.table is not None

    def other(self, line: Line) -> None:
        """A line that is no row may be the next part of one: numbers alone, of the same process."""
        if self.table is None or (self.half is None and "NCCL" in line.text):
            return
        text = OTHERS.sub("", line.text)
        numbers = NUMBERS.search(text)
        if numbers is None:
            return
        words = numbers[0].split()
        if self.half is not None and origin(text[: numbers.start()]) == self.origin:
            self._words(self.half[0], [*self.half[1], *words], line.whole, joined=True)
        elif len(words) >= self.table[1].ends[-1] - self.table[1].ends[0]:
            self.table[0].cut[line.number] = "the last part of a row"

    def _words(self, number: int, words: list[str], whole: bool, *, joined: bool = False) -> None:
        assert self.table is not None
        program, columns = self.table
        more = len(words) - columns.ends[-1]
        rows = columns.rows(words) if whole and (more <= 0 or (columns.stamped and not joined)) else []
        self.half = number, words
        if rows:
            self.half = None
            program.add(rows, number)
        elif not whole or len(words) not in columns.ends[:-1]:
            self.give_up()

    def give_up(self) -> None:
        """What is left of a row that was never finished."""
        if self.half is not None and self.table is not None:
            number, words = self.half
            wanted = self.table[1].ends[-1]
            most = f"{len(words)} words in {wanted} columns" if len(words) > wanted else "words where numbers are"
            why = f"{len(words)} of {wanted} columns" if len(words) < wanted else most
            self.table[0].cut[number] = f"a row with {why}"
        self.half = None
