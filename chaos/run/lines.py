"""What the processes of a run print: into the journal, and to whom it concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from chaos.record.clocks import ours
from chaos.record.journal import Journal
from chaos.run.kept import Kept
from chaos.run.plan import Plan
from harness.errors import InfraError, R2ccError
from harness.launch.job import PID_EVENT
from harness.launch.processes import Spoken, Started
from harness.launch.streams import Line as Printed
from harness.workloads.reading.lines import JsonLines, Line, LineReader, parsed

SAYS_PID = b'{"event":"' + PID_EVENT.encode()
QUOTED_BYTES = 500
Found = Callable[[], Iterable[Line | bytes]]


@dataclass
class Lines:
    """Of one run. Every rank has a reader of its own; samplers and launchers print JSON or text."""

    plan: Plan
    journal: Journal
    pid: Callable[[int, int, str], None]
    """Hears of the process id of a rank that a launcher started, and of its host's own name."""
    began_ns: int = 0
    """When the ranks were started."""
    _readers: dict[tuple[int, int | None], tuple[Started, LineReader]] = field(default_factory=dict)
    _kept: dict[int, Kept] = field(default_factory=dict)
    """By rank, of a program that is not ours."""

    def heard(self, spoken: Spoken) -> Iterator[Line]:
        """Lines as they stand in the journal now, but for their host. InfraError for a reader that fails."""
        speaker, printed, at_ns = spoken
        if self.plan.job is None and speaker.start.rank is not None:  # all are its own: there may be millions
            own = [text for _, text in printed or ()]
            yield from self._batch(speaker, speaker.start.rank, own, at_ns) if own else ()
        else:
            for rank, batch in groupby(printed or (), key=itemgetter(0)):
                yield from self._batch(speaker, rank, [text for _, text in self._without_pids(batch)], at_ns)
        if printed is None:
            if speaker.start.rank is not None:  # it may have printed nothing
                self._reader(speaker, speaker.start.rank)
            for (_, rank), (owner, reader) in list(self._readers.items()):
                if owner is speaker:
                    yield from self._merged(speaker, rank, reader, partial(reader.end, at_ns))

    def left(self, read: Callable[[int, str], str | None]) -> None:
        """What ranks left in files, into the journal; `read`: the text of a rank's file, None where there is none."""
        for (_, rank), (speaker, reader) in list(self._readers.items()):
            if rank is not None and reader.file:
                text = read(rank, reader.file)
                for _ in self._merged(speaker, rank, reader, partial(reader.left, text)):
                    pass

    def keep(self, raw: Path) -> None:
        """Writes what ranks printed, bounded, as `<arm>-<run>-rank0.out`."""
        for rank, kept in self._kept.items():
            kept.write(raw / f"{self.plan.arm}-{self.plan.run}-{self.plan.ranks[rank].name}.out")

    def quoted(self, speaker: Started) -> str:
        """What a process printed last."""
        every = [reader.quoted() for owner, reader in self._readers.values() if owner is speaker]
        return "\n".join(text for text in every if text)

    def _batch(self, speaker: Started, rank: int | None, lines: list[bytes], at_ns: int) -> Iterator[Line]:
        if rank is not None and rank >= len(self.plan.ranks):
            rank = None
        reader = self._reader(speaker, rank)
        if self.plan.foreign is not None and rank is not None:
            self._kept.setdefault(rank, Kept()).add(lines)
        yield from self._merged(speaker, rank, reader, partial(reader.read, lines, at_ns))

    def _reader(self, speaker: Started, rank: int | None) -> LineReader:
        key = (id(speaker), rank)
        if key not in self._readers:
            made = JsonLines() if rank is None else self.plan.reader(rank)
            made.begin(self.began_ns)
            self._readers[key] = speaker, made
        return self._readers[key][1]

    def _merged(self, speaker: Started, rank: int | None, reader: LineReader, found: Found) -> Iterator[Line]:
        for each in _guarded(reader, found):
            whose = each.get("rank") if rank is None and isinstance(each, dict) else rank
            name, host = self._source(speaker, whose)
            if isinstance(each, dict) and each["event"] == PID_EVENT:  # of what a program of ours watches over
                self._says_pid(each)
                continue
            if isinstance(each, bytes):
                text = each[:QUOTED_BYTES].decode(errors="replace").rstrip()
                self.journal.write("log", host=host, message=f"{name} printed: {text}")
                continue
            line = ours(each, self.plan.clocks.get(host)) if reader.own_time(each) else each
            self.journal.merge(host, line)
            yield line

    def _source(self, speaker: Started, rank: object) -> tuple[str, str]:
        """(name, host). Under a launcher, whose line it is says the launcher, or the line."""
        if self.plan.job is not None and isinstance(rank, int) and 0 <= rank < len(self.plan.ranks):
            launch = self.plan.ranks[rank]
            return launch.name, launch.host
        return speaker.start.shown, speaker.start.host.name

    def _says_pid(self, line: Line) -> None:
        self.pid(line["rank"], line["pid"], str(line.get("host", "")))

    def _without_pids(self, batch: Iterable[Printed]) -> Iterator[Printed]:
        """Under a launcher each rank begins by its process id, whatever its program prints."""
        for each in batch:
            line = parsed(each[1]) if self.plan.job is not None and each[1].startswith(SAYS_PID) else None
            if line is None:
                yield each
            else:
                self._says_pid(line)


def _guarded(reader: LineReader, found: Found) -> Iterator[Line | bytes]:
    """A reader may be anybody's."""
    try:
        yield from found()
    except R2ccError:
        raise
    except Exception as error:
        kind = type(reader)
        raise InfraError(f"the reader {kind.__module__}.{kind.__qualname__} failed: {error!r}") from error
