"""Drivers on a bed: started, followed line by line, ended; and what is said of how they ended."""

from __future__ import annotations

import json
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.errors import CommandError
from harness.lab.client import AgentProcess
from harness.workloads.bench import bench_env
from netcases.bed import Bed, Shape, made
from netcases.waited import Waited, too_long

HOLD_MS = 6000
NET_FAILED = 3
"""The driver's code when the net returned an error."""
GIVE_UP_S = 5
STRAGGLER_S = 10
POLL_S, LOOK_S = 0.01, 0.05
Line = dict[str, Any]


@dataclass
class Ended:
    """One driver after its end. `lines` are its own and the library's events, in order; `log` is NCCL's and its own."""

    exit_code: int
    lines: list[Line]
    log: str
    waited_ms: float = 0.0
    """What its threads waited for a core."""

    def of(self, event: str) -> list[Line]:
        return [line for line in self.lines if line["event"] == event]

    @cached_property
    def last(self) -> Line:
        """Its last count of messages."""
        counts = self.of("end") or self.of("second")
        return counts[-1] if counts else {"done": 0, "bad": 0, "bytes": 0, "longest_gap_ms": 0.0, "silent_ms": 0.0}

    @property
    def iterations_ms(self) -> list[float]:
        return [ms for line in self.of("iterations") for ms in line["ms"]]

    @property
    def gap_ms(self) -> float:
        """The longest silence between two messages."""
        return max(float(self.last["longest_gap_ms"]), float(self.last["silent_ms"]))

    @property
    def why(self) -> str:
        said = self.of("error") + self.of("silence")
        return str(said[0]["why"]) if said else ""

    def seen(self) -> str:
        """In a few words, how it ended."""
        if self.exit_code < 0:
            return f"ended by {signal.Signals(-self.exit_code).name}"
        if self.exit_code == 134:
            return "aborted (134)"
        if self.why:
            return f"{self.why}, {self.last['done']} messages"
        wrong = f"{self.last['bad']} wrong, " if self.last["bad"] else ""
        return f"{wrong}code {self.exit_code}, longest gap {self.gap_ms:.0f} ms"


class Driver:
    """A running driver; its lines lie in a file, so that it never waits for us."""

    def __init__(self, process: AgentProcess, output: Path, log: Path) -> None:
        self.process, self._output, self._log = process, output, log
        self.waited = Waited(process.pid)

    def lines(self) -> list[Line]:
        """All whole lines so far."""
        text = self._output.read_text(errors="replace")
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def wait_for(self, event: str, timeout_s: float = 10.0, *, of: Mapping[str, Any] | None = None) -> bool:
        """Until it has said that; False when it ended or time was over before."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            ended = self.process.poll() is not None
            if any(line["event"] == event and (of or {}).items() <= line.items() for line in self.lines()):
                return True
            if ended:
                return False
            time.sleep(POLL_S)
        return False

    def end(self, timeout_s: float = 60.0, *beside: Driver) -> Ended:
        """Waits for it; one that hangs is killed, and its code says so. `beside`: who else waits for cores."""
        until = time.monotonic() + timeout_s
        while (code := self._over(LOOK_S)) is None:
            for driver in (self, *beside):
                driver.waited.look()
            if time.monotonic() > until:
                self.process.kill()
                code = self.process.wait(10)
                break
        return Ended(code, self.lines(), self._log.read_text(errors="replace"), self.waited.ms)

    def _over(self, within_s: float) -> int | None:
        with suppress(CommandError):
            return self.process.wait(within_s)
        return None


@dataclass
class Stage:
    """Where cases are played: which library, which mode, and a folder for what the drivers say."""

    driver: Path
    library: Path
    mode: int
    folder: Path
    stock_ms: dict[tuple[Shape, int], float] = field(default_factory=dict)
    """Iterations of stock where nothing is broken, measured once for each network and size of messages."""
    _count: int = 0

    @property
    def ours(self) -> bool:
        return self.mode != 0

    def stock(self) -> Stage:
        """The same with R2CC_MODE=0."""
        folder = self.folder / "stock"
        folder.mkdir(exist_ok=True)
        return Stage(self.driver, self.library, 0, folder, self.stock_ms)

    def stock_iteration_ms(self, shape: Shape, size: int) -> float:
        """The median of stock's iterations on a healthy bed of that shape."""
        if (shape, size) not in self.stock_ms:
            with made(shape) as bed:
                both = self.stock().pair(bed, "--bytes", size, "--seconds", 1).end()
            assert not both.exact(), both.exact()
            self.stock_ms[shape, size] = statistics.median(both.receiver.iterations_ms)
        return self.stock_ms[shape, size]

    def start(self, bed: Bed, host: str, words: Sequence[object], env: Mapping[str, str] | None = None) -> Driver:
        self._count += 1
        output, log = self.folder / f"{self._count}.jsonl", self.folder / f"{self._count}.log"
        extra = {"NCCL_DEBUG": "INFO", "R2CC_HOLD_MS": str(HOLD_MS), **(env or {})}
        argv = [str(word) for word in (self.driver, "--library", self.library, *words)]
        with output.open("ab") as out, log.open("ab") as err:
            process = bed.host(host).spawn(argv, env=bench_env(self.mode, extra=extra), stdout=out, stderr=err)
        return Driver(process, output, log)

    def handle(self) -> Path:
        self._count += 1
        return self.folder / f"{self._count}.handle"

    def pair(
        self,
        bed: Bed,
        *words: object,
        send: Sequence[object] = (),
        recv: Sequence[object] = (),
        env: Mapping[str, str] | None = None,
        hosts: tuple[str, str] = ("h0", "h1"),
        give_up_s: int = GIVE_UP_S,
    ) -> Pair:
        """A sender and a receiver, one on each host. `words` are for both."""
        both = ("--handle", self.handle(), "--give-up-s", give_up_s, "--connect-s", give_up_s + 2, *words)
        receiver = self.start(bed, hosts[1], ["--role", "recv", *both, *recv], env)
        return Pair(self.start(bed, hosts[0], ["--role", "send", *both, *send], env), receiver)

    def alone(self, bed: Bed, role: str, *words: object, env: Mapping[str, str] | None = None) -> Ended:
        return self.start(bed, "h0", ["--role", role, "--give-up-s", GIVE_UP_S, *words], env).end()


@dataclass
class Pair:
    """A sender and a receiver while they run, and what is done to them at a time after their first second began."""

    sender: Driver
    receiver: Driver
    began: float = 0.0

    def connected(self) -> bool:
        """True when both are. Times of `at` count from now on."""
        both = self.sender.wait_for("connected") and self.receiver.wait_for("connected")
        self.began = time.monotonic()
        return both

    def at(self, seconds: float, what: Callable[[], object]) -> None:
        """Does it that long after connecting."""
        time.sleep(max(0.0, self.began + seconds - time.monotonic()))
        what()

    def signal(self, number: int, *, sender: bool = True, receiver: bool = True) -> None:
        for driver, wanted in ((self.sender, sender), (self.receiver, receiver)):
            if wanted:
                driver.process.send_signal(number)

    def end(self) -> Both:
        """Of both. One that hangs long after the other ended is killed."""
        return Both(self.sender.end(60.0, self.receiver), self.receiver.end(STRAGGLER_S))


@dataclass
class Both:
    """A pair after its end."""

    sender: Ended
    receiver: Ended

    @property
    def ends(self) -> tuple[Ended, Ended]:
        return self.sender, self.receiver

    @property
    def gap_ms(self) -> float:
        return max(end.gap_ms for end in self.ends)

    @property
    def waited_ms(self) -> float:
        return sum(end.waited_ms for end in self.ends)

    @property
    def log(self) -> str:
        return self.sender.log + self.receiver.log

    def exact(self) -> list[str]:
        """What is wrong with how it ended; nothing when every message came once and whole."""
        names = ("sender", "receiver")
        found = [f"{name}: {end.seen()}" for name, end in zip(names, self.ends, strict=True) if end.exit_code != 0]
        found += [
            f"{name}: {end.last['bad']} wrong" for name, end in zip(names, self.ends, strict=True) if end.last["bad"]
        ]
        if not found and not 0 < self.receiver.last["done"] == self.sender.last["done"]:
            found = [f"{self.sender.last['done']} messages sent, {self.receiver.last['done']} came"]
        return found

    def within(self, ms: float) -> list[str]:
        """Exact, and never silent for longer."""
        what = f"silent for {self.gap_ms:.0f} ms, not {ms:.0f} at most"
        late = [too_long(what, self.gap_ms - ms, self.waited_ms)] if self.gap_ms > ms else []
        return self.exact() + late

    def seen(self) -> str:
        bad = [end for end in self.ends if end.exit_code != 0]
        return bad[0].seen() if bad else f"exact, longest gap {self.gap_ms:.0f} ms"


@dataclass
class Outcome:
    """What was seen, and what of it is not right; `figures` are for the record."""

    seen: str
    problems: list[str]
    figures: dict[str, Any] = field(default_factory=dict)


def outcome(both: Both, problems: list[str], **figures: Any) -> Outcome:
    iterations = both.receiver.iterations_ms
    median = round(statistics.median(iterations), 2) if iterations else None
    done = both.receiver.last["done"]
    figures = {"longest_gap_ms": round(both.gap_ms, 1), "iteration_ms": median, "messages": done, **figures}
    return Outcome(both.seen(), problems, figures)


@contextmanager
def stage(
    driver: Path, library: Path, mode: int, stock_ms: dict[tuple[Shape, int], float] | None = None
) -> Iterator[Stage]:
    """Nothing of it is left afterwards, however the case ended."""
    with tempfile.TemporaryDirectory(prefix="r2cc-case-") as folder:
        yield Stage(driver, library, mode, Path(folder), {} if stock_ms is None else stock_ms)


Play = Callable[[Stage], Outcome]


@dataclass(frozen=True)
class Case:
    """One row: what is done, and what is right."""

    name: str
    done: str
    right: str
    play: Play
    modes: tuple[int, ...] = (1,)
    long: bool = False
    """Takes over ten seconds: not in `.ci/run`."""


__all__ = ["Bed", "Both", "Case", "Driver", "Ended", "Outcome", "Pair", "Shape", "Stage", "made", "outcome", "stage"]
