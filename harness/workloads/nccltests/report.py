"""What nccl-tests (2.19) print and write: rows line by line, and the JSON at their end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.workloads.nccltests import torn_json
from harness.workloads.nccltests.rows import LARGEST, WHOLE, Columns, Row, columns_of, integer, number


@dataclass(frozen=True)
class Report:
    """A JSON file, without the environment that it holds all of. `complete`: the program came to its end."""

    rows: list[Row]
    complete: bool
    nccl_version: int | None = None
    ranks: int = 0
    wrong_rows: int | None = None
    """How many the program itself counted."""
    config: Mapping[str, Any] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


def read_json(text: str) -> Report:
    """As much of it as is certain: a program that was killed leaves half a file."""
    value, whole = torn_json.loads(text)
    value = value if isinstance(value, dict) else {}
    results, config = _list(value.get("results")), _mapping(value.get("config"))
    count = _mapping(value.get("out_of_bounds")).get("count")
    return Report(
        rows=[row for result in results for row in _rows_of(_mapping(result))],
        complete=whole and "end_time" in value,
        nccl_version=_counted(value.get("nccl_version")),
        ranks=len(_list(config.get("devices"))),
        wrong_rows=_counted(count),
        config={name: _plain(entry) for name, entry in config.items() if name != "devices"},
        errors=[str(error) for error in _list(value.get("errors")) if error],
    )


def _rows_of(result: Mapping[str, Any]) -> list[Row]:
    """Those of a result that are whole; `out_of_place` is null where only the other was measured."""
    return [
        row
        for kind in ("out_of_place", "in_place")
        if (row := _row(result, _mapping(result.get(kind)), _mapping(result.get(f"{kind}_per_iter")), kind)) is not None
    ]


def _row(result: Mapping[str, Any], part: Mapping[str, Any], each: Mapping[str, Any], kind: str) -> Row | None:
    try:
        return Row(
            size_bytes=_whole(result["size"]),
            count=_whole(result["count"]),
            type=str(result["type"]),
            redop=str(result["redop"]),
            root=_whole(result["root"]),
            time_us=number(part["cpu_time"] if "cpu_time" in part else part["time"]),
            algbw_GBps=number(part["alg_bw"]),
            busbw_GBps=number(part["bus_bw"]),
            wrong=integer(part["nwrong"]),
            in_place=kind == "in_place",
            times_us=tuple(time for entry in _list(each.get("times_us")) if (time := number(entry)) is not None),
        )
    except (KeyError, TypeError, ValueError):
        return None


@dataclass
class Lines:
    """What the programs print, line by line. Columns are known by the header above them: their number varies."""

    columns: Columns | None = None
    headers: int = 0
    """More than one: so many programs that know nothing of each other print here."""
    rows: list[Row] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    """The words of a row that has not ended: it is printed in pieces, and a warning of NCCL's may come between them."""

    def add(self, line: str) -> list[Row]:
        """The rows of one line: none, or one for each kind of its columns. What is no row is passed over."""
        header = columns_of(line)
        if header is not None:
            self.columns, self.headers, self.torn = header, self.headers + 1, []
        if header is not None or self.columns is None or not line.endswith("\n"):
            return []
        words = line.split()
        found = self.columns.rows(words) or self._joined(self.columns, words)
        if found:
            self.torn = []
        self.rows += found
        return found

    def _joined(self, columns: Columns, words: Sequence[str]) -> list[Row]:
        """The row whose last piece these words are; none where they are another piece of one, or no piece at all."""
        *pieces, _ = columns.ends
        begun = columns.with_redop(words)
        if len(begun) in pieces and all(WHOLE.fullmatch(word) for word in begun[:2]):
            self.torn = list(begun)
        elif self.torn and all(map(_is_figure, words)):
            more = [*self.torn, *words]
            if found := columns.rows(more):
                return found
            self.torn = more if len(more) in pieces else self.torn
        return []


def _is_figure(word: str) -> bool:
    try:
        number(word)
    except ValueError:
        return False
    return True


def _whole(value: Any) -> int:
    """Raises ValueError for what is none, or has more than 63 bits; TypeError for what is no number at all."""
    found = int(value)
    if abs(found) >= LARGEST:
        raise ValueError("more than 63 bits")
    return found


def _counted(value: Any) -> int | None:
    """None, too, of what is no count."""
    try:
        return integer(value)
    except (TypeError, ValueError):
        return None


def _plain(value: Any) -> Any:
    """Truth is written as a string."""
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
