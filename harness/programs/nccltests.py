"""Upstream's nccl-tests (2.19): their command lines, and what they print and write.

Ranks of several processes meet through MPI alone: without it one process drives all GPUs, which are of one host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.launch.job import Job
from harness.launch.launchers import mpirun as open_mpi
from harness.programs import torn_json
from harness.programs.nccltests_rows import LARGEST, Columns, Row, columns_of, integer, number

OPS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv", "alltoall")
SIZE = re.compile(r"^\d+(\.\d+)?[KMGkmg]?$")
HOST = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
BY_LINE = ("stdbuf", "-oL")
"""Rows as they come: what is no terminal gets them in blocks otherwise."""


@dataclass(frozen=True)
class Spec:
    """What one program of nccl-tests is told. `gpus`: of each host; sizes as it takes them, such as 8 or 1G."""

    op: str
    folder: Path
    gpus: int
    begin: str = "8"
    end: str = "1G"
    factor: int = 2
    iterations: int = 20
    warmup: int = 5
    datatype: str = "float"
    check: bool = True
    each_iteration: bool = False
    """The time of every single iteration, in the JSON."""
    cycles: int = 1
    """How often to go through the sizes; 0: for ever."""
    json: Path | None = None
    """Must not be there yet, and ends with .json. Written by rank 0, on its host."""

    def __post_init__(self) -> None:
        if self.op not in OPS:
            raise UsageError(f"nccl-tests: no operation {self.op!r}", f"there are {', '.join(OPS)}")
        for size in (self.begin, self.end):
            if not SIZE.match(size):
                raise UsageError(f"nccl-tests: {size!r} is no size", "for example 8, 64K, 1M or 1G")

    @property
    def program(self) -> Path:
        return self.folder / f"{self.op}_perf"


def plain(spec: Spec) -> list[str]:
    """One process with all GPUs of this host; there is no way to have more without MPI."""
    return [*BY_LINE, *_program(spec, spec.gpus)]


def mpirun(
    spec: Spec, hosts: Sequence[str], names: Iterable[str], *, preload: Path | None = None, as_root: bool = False
) -> list[str]:
    """One process a GPU under Open MPI 4; `names` of variables go to all of them with the values that mpirun has.

    The library is preloaded into the programs, not into mpirun. UsageError for what is no host name.
    """
    wrong = [host for host in hosts if not HOST.match(host)]
    if wrong or not hosts:
        raise UsageError(f"not a host name: {', '.join(map(repr, wrong)) or 'none was given'}", "--mpi node1,node2")
    slots = {host: spec.gpus * list(hosts).count(host) for host in hosts}
    job = Job(one_of_many(spec), slots, "", preload=str(preload or ""), told=(), mpi=True)
    return open_mpi.command(job, names=names, as_root=as_root)


def one_of_many(spec: Spec) -> tuple[str, ...]:
    """A process that has one GPU and meets the others through MPI."""
    return (*BY_LINE, *_program(spec, 1))


def _program(spec: Spec, gpus: int) -> list[str]:
    options: dict[str, object] = {
        "-b": spec.begin,
        "-e": spec.end,
        "-f": spec.factor,
        "-g": gpus,
        "-n": spec.iterations,
        "-w": spec.warmup,
        "-d": spec.datatype,
        "-c": int(spec.check),
        **({"-I": 1} if spec.each_iteration else {}),
        **({"-N": spec.cycles} if spec.cycles != 1 else {}),
        **({"-J": spec.json} if spec.json is not None else {}),
    }
    return [str(spec.program), *(str(word) for option in options.items() for word in option)]


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

    def add(self, line: str) -> list[Row]:
        """The rows of one line: none, or one for each kind of its columns. What is no row is passed over."""
        header = columns_of(line)
        if header is not None:
            self.columns, self.headers = header, self.headers + 1
        if header is not None or self.columns is None or not line.endswith("\n"):
            return []
        found = self.columns.rows(line.split())
        self.rows += found
        return found


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
