"""From rows and the JSON of nccl-tests to iterations on the run's time axis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from harness.errors import InfraError
from harness.workloads.nccltests.place import Printed, placed, usual_spare_us
from harness.workloads.nccltests.report import Lines, read_json
from harness.workloads.nccltests.rows import Row, columns_of
from harness.workloads.reading.lines import Line
from harness.workloads.reading.steps import CommandLines

FILE = "nccl-tests.json"
US = 1000


@dataclass
class Rows(CommandLines):
    """Rank 0's output; the others print none of it.

    A row is printed when all of its size is done. So when a row comes, `progress` lines say when each iteration of the
    next one should begin, for faults that wait for one. What really was is in the JSON, which is there at the end.
    """

    file: ClassVar[str] = FILE
    sizes: Sequence[int] = ()
    each: int = 1
    """Iterations out of place, and as many in place."""
    op: str = ""
    table: Lines = field(default_factory=Lines)
    printed: list[Printed] = field(default_factory=list)
    header_ns: int = 0

    def _program(self, text: bytes, read_ns: int) -> Iterator[Line | bytes]:
        yield from super()._program(text, read_ns)
        for line in text.decode(errors="replace").split("\n"):
            if columns_of(line) is not None and not self.header_ns:
                self._with_others()
                self.header_ns = read_ns
                yield {**self._start(read_ns), "program": f"{self.op}_perf"}
                yield self._begins(read_ns)
            rows = self.table.add(f"{line}\n")
            if rows:
                self.printed.append(Printed(read_ns, self._last_ns(), tuple(rows)))
                yield from self._foreseen()

    def _with_others(self) -> None:
        """Built without MPI, each rank runs alone on its GPU, and every check of it passes."""
        if self.wanted.rank != 0:
            raise InfraError(
                f"rank {self.wanted.rank} of nccl-tests printed a table of its own: each ran by itself, without MPI",
                "build them with MPI (r2cc build nccl-tests --mpi DIR), and start them with that MPI's mpirun",
            )

    def _last_ns(self) -> int | None:
        """When the row before was printed; of the first one nobody knows when it began."""
        return self.printed[-1].at_ns if self.printed else None

    def _foreseen(self) -> Iterator[Line]:
        """When the iterations of the next row should begin, as they did the last time at this size."""
        now, count = self.printed[-1], len(self.printed)
        self.index = count * 2 * self.each
        alike = self.printed[count - len(self.sizes)] if count >= len(self.sizes) else None
        if alike is None:
            yield self._begins(now.at_ns)
            return
        times = [[row.time_us or 0.0] * self.each for row in alike.rows]
        taken = sum(map(sum, times))
        spare = usual_spare_us([alike], [taken])
        start_us = spare / 4
        for way, part in enumerate(times):
            for place, time_us in enumerate(part):
                start_ns = now.at_ns + round((start_us + sum(part[:place])) * US)
                index = self.index + way * self.each + place
                yield {**self._begins(start_ns), "index": index, "usual_ms": time_us / US}
            start_us += sum(part) + spare / 2

    def end(self, read_ns: int) -> Iterable[Line | bytes]:
        if self.rest:
            yield from self._program(self.rest, read_ns)
        if self.printed:  # without a row it did not complete
            wrong = sum(row.wrong or 0 for each in self.printed for row in each.rows)
            yield {
                "event": "bench_end", "t_ns": read_ns, "rank": self.wanted.rank,
                "completed": len(self.printed) * 2 * self.each, "wrong_elements": wrong, "max_rss_bytes": 0,
                "cpu_s": 0.0, "checked": all(row.wrong is not None for each in self.printed for row in each.rows),
            }  # fmt: skip

    def left(self, text: str | None) -> Iterator[Line | bytes]:
        """Each iteration, where it was; rows that the JSON lacks have their mean alone."""
        if not self.printed:
            return
        exact = [] if text is None else _by_size(read_json(text).rows)
        rows = [self._exact(each, exact[place : place + 1]) for place, each in enumerate(self.printed)]
        if len(exact) < len(self.printed):
            lacking = len(self.printed) - len(exact)
            message = f"nccl-tests left no times of {lacking} of {len(rows)} rows: their iterations have the mean"
            yield {"event": "log", "t_ns": self.printed[-1].at_ns, "message": message}
        for place, (row, where) in enumerate(zip(rows, placed(rows), strict=True)):
            for way, (measured, times) in enumerate(zip(row.rows, where.spans, strict=True)):
                for number, (start_ns, end_ns) in enumerate(times):
                    index = (2 * place + way) * self.each + number
                    line = self._iteration(index, measured, start_ns, end_ns, last=number == len(times) - 1)
                    if where.beside_us and (way, number) == where.longest:
                        line["beside_ms"] = round(where.beside_us / US, 3)
                        line["row"] = [2 * place * self.each, 2 * (place + 1) * self.each - 1]
                        line["row_ns"] = [row.before_ns, row.at_ns]
                    yield line

    def _exact(self, printed: Printed, found: Sequence[tuple[Row, ...]]) -> Printed:
        """With the times of single iterations, where they are known; the mean of all otherwise."""
        rows = found[0] if found and len(found[0]) == len(printed.rows) else printed.rows
        times = tuple(
            row.times_us if len(row.times_us) == self.each else (row.time_us or 0.0,) * self.each for row in rows
        )
        return Printed(printed.at_ns, printed.before_ns, tuple(rows), times)

    def _iteration(self, index: int, row: Row, start_ns: int, end_ns: int, *, last: bool) -> Line:
        """Elements were counted after the last one of a row. Bus bandwidth goes as one over the time."""
        carried = (row.busbw_GBps or 0.0) * (row.time_us or 0.0)
        took_us = (end_ns - start_ns) / US
        return {
            "event": "iteration", "t_ns": end_ns, "rank": self.wanted.rank, "index": index, "start_ns": start_ns,
            "end_ns": end_ns, "bytes": row.size_bytes, "wrong_elements": (row.wrong or 0) if last else 0,
            **({"busbw_GBps": carried / took_us} if carried and took_us else {}),
        }  # fmt: skip


def _by_size(rows: Sequence[Row]) -> list[tuple[Row, ...]]:
    """Out of place and in place of each size, in order."""
    found: list[tuple[Row, ...]] = []
    for row in rows:
        if row.in_place and found:
            found[-1] = (*found[-1], row)
        else:
            found.append((row,))
    return found
