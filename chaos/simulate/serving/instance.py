"""One instance: continuous batching with a token budget, first come first served, step by step, but decoding alone is
advanced by as many steps at once as nothing happens in (`fast`; without it every token is a step of its own)."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from chaos.simulate.serving.pace import Pace

REGAIN, FINISH = 0, 1
"""In this order at one step: a request may get its first new token and be done."""


@dataclass(slots=True)
class Book:
    """What is written down of every request, by number. Times from the start; inf: not yet."""

    arrival_s: list[float]
    prompt: list[int]
    output: list[int]
    first_s: list[float] = field(default_factory=list)
    finish_s: list[float] = field(default_factory=list)
    gap_s: list[float] = field(default_factory=list)
    last_s: list[float] = field(default_factory=list)
    """When its last token came, of requests that a crash took back or that went from one instance to another."""
    delivered: list[int] = field(default_factory=list)
    """Tokens that its user has, of the same; 0: of others."""
    rejected: list[bool] = field(default_factory=list)
    redone_tokens: int = 0

    def __post_init__(self) -> None:
        count = len(self.arrival_s)
        self.first_s, self.finish_s = [inf] * count, [inf] * count
        self.gap_s, self.last_s = [0.0] * count, [0.0] * count
        self.delivered, self.rejected = [0] * count, [False] * count


class Steps:
    """The longest step since any step, by number: those that no later one surpasses."""

    __slots__ = ("count", "longest", "numbers")

    def __init__(self) -> None:
        self.count, self.numbers, self.longest = 0, list[int](), list[float]()

    def add(self, longest_s: float) -> None:
        while self.longest and self.longest[-1] <= longest_s:
            self.longest.pop()
            self.numbers.pop()
        self.numbers.append(self.count)
        self.longest.append(longest_s)
        self.count += 1

    def since(self, number: int) -> float:
        place = bisect_left(self.numbers, number)
        return self.longest[place] if place < len(self.longest) else 0.0


class Instance:
    """`advance(t)` ends every step that ends by t; the step in flight then is `start` to `end` (inf: none).

    `handed`: of one that only prefills, (time, request) that are ready for others."""

    def __init__(self, book: Book, pace: Pace | None, capacity: int, *, batch: int, budget: int, role: str = "both",
                 fast: bool = True) -> None:  # fmt: skip
        self.book, self.pace, self.capacity, self.role, self.fast = book, pace, capacity, role, fast
        self.most, self.budget = batch, budget
        self.start, self.end, self.blocked_s = 0.0, inf, 0.0
        self.waiting: deque[int] = deque()
        self.fresh = False
        """Somebody came since the step in flight began."""
        self.handed: list[tuple[float, int]] = []
        self.running: dict[int, tuple[int, int]] = {}
        """Who decodes: number of tokens before this run, and number of the step entry since which gaps count."""
        self.events: list[tuple[int, int, int]] = []
        """(step, FINISH or REGAIN, request): after which step something happens to a request."""
        self.prefilling: deque[list[int]] = deque()
        """[request, tokens of its prompt that are done]."""
        self.pieces: list[tuple[list[int], int]] = []
        self.done_steps, self.context, self.held = 0, 0, 0
        self.steps = Steps()

    @property
    def load(self) -> int:
        return len(self.waiting) + len(self.prefilling) + len(self.running)

    def enqueue(self, request: int, now_s: float) -> None:
        """At a time to which it was advanced."""
        self.waiting.append(request)
        self.fresh = True
        self.wake(now_s)

    def requeue(self, requests: Iterable[int], now_s: float) -> None:
        """Those that were here or elsewhere before: in the order in which they came, with those that wait."""
        self.waiting = deque(sorted([*self.waiting, *requests]))
        self.fresh = True
        self.wake(now_s)

    def wake(self, now_s: float) -> None:
        """Begins a step if it idles and may."""
        if self.end == inf and self.blocked_s <= now_s:
            self.start = now_s
            self._begin()

    def advance(self, until_s: float) -> None:
        if self.end == inf and self.blocked_s <= until_s:
            self.wake(max(self.start, self.blocked_s))
        while self.end <= until_s and self.end < inf:
            if self.fast and not self.pieces and not self.fresh:
                self._decode(until_s)
            else:
                self._commit()
            self._begin()

    def stall(self, now_s: float, lasts_s: float) -> None:
        """Nothing moves from now on for so long; stalls that overlap are one."""
        until_s = now_s + lasts_s
        more_s = until_s - max(now_s, self.blocked_s)
        if more_s <= 0:
            return
        if self.end < inf:
            self.end += more_s
        self.blocked_s = until_s

    def crash(self, now_s: float, up_s: float) -> list[int]:
        """All that it held is lost, and it is up again at `up_s`. Returns the requests that it had begun."""
        book, lost = self.book, [request for request, _ in self.prefilling]
        for request, (before, since) in self.running.items():
            self._take_back(request, before, since)
            lost.append(request)
        book.redone_tokens += sum(done for _, done in self.prefilling)
        self.running, self.events, self.prefilling, self.pieces = {}, [], deque(), []
        self.context = self.held = 0
        self.start, self.end, self.blocked_s = now_s, inf, up_s
        return sorted(lost)

    def _take_back(self, request: int, before: int, since: int) -> None:
        """Its user keeps the tokens and waits for the next. `before`: where in its output this run stood at step 0."""
        book, made = self.book, self.done_steps - before
        book.redone_tokens += made + book.prompt[request]
        if made >= book.delivered[request]:
            book.gap_s[request] = max(book.gap_s[request], self.steps.since(since))
            book.last_s[request], book.delivered[request] = self.start, made

    def _begin(self) -> None:
        """The next step, from `start`: who waits is let in as long as there is room."""
        pace = self.pace
        if pace is None or self.blocked_s == inf:
            self.end = inf
            return
        self.fresh = False
        if self.waiting:
            self._admit()
        decoding = len(self.running)
        room = self.budget - decoding
        self.pieces = []
        tokens, pairs, read = decoding, float(self.context), float(self.context)
        for entry in self.prefilling:
            if room <= 0:
                break
            piece = min(room, self.book.prompt[entry[0]] - entry[1])
            self.pieces.append((entry, piece))
            room -= piece
            tokens += piece
            pairs += piece * entry[1] + piece * (piece + 1) / 2
            read += entry[1] + piece
        self.end = self.start + pace.step_s(tokens, pairs, read) if tokens else inf

    def _admit(self) -> None:
        book = self.book
        while self.waiting and len(self.running) + len(self.prefilling) < self.most:
            request = self.waiting[0]
            need = book.prompt[request] + (book.output[request] if self.role != "prefill" else 1)
            if self.held + need > self.capacity:
                return
            self.waiting.popleft()
            self.held += need
            if self.role == "decode":
                self._join(request)
            else:
                self.prefilling.append([request, 0])

    def _join(self, request: int) -> None:
        """It has one token and decodes from the next step on."""
        book = self.book
        self.running[request] = (self.done_steps - 1, self.steps.count)
        self.context += book.prompt[request] + 1
        if 0 < book.delivered[request] < book.output[request]:
            heappush(self.events, (self.done_steps + book.delivered[request], REGAIN, request))
        heappush(self.events, (self.done_steps + book.output[request] - 1, FINISH, request))

    def _commit(self) -> None:
        """Ends one step."""
        self._ended(1, self.end - self.start, self.end)
        for entry, piece in self.pieces:
            entry[1] += piece
            if entry[1] == self.book.prompt[entry[0]]:
                self.prefilling.popleft()
                self._prefilled(entry[0])
        self.pieces = []

    def _ended(self, count: int, longest_s: float, now_s: float) -> None:
        decoding = len(self.running)
        self.done_steps += count
        self.context += count * decoding
        if decoding:
            self.steps.add(longest_s)
        self.start = now_s
        events, done = self.events, self.done_steps
        while events and events[0][0] <= done:
            _, kind, request = heappop(events)
            if kind == FINISH:
                self._finish(request)
            else:
                self._regain(request)

    def _decode(self, until_s: float) -> None:
        """Ends the step in flight and as many that are like it as end by `until_s`, up to what happens to someone."""
        assert self.pace is not None
        first_s = self.end - self.start
        most = self.events[0][0] - self.done_steps
        batch, context = len(self.running), self.context + len(self.running)
        room_s, more = until_s - self.end, most - 1
        if more:
            more, took_s = self._fits(batch, context, more, room_s)
        if not more:
            self._ended(1, first_s, self.end)
            return
        last_s = self.pace.step_s(batch, context + (more - 1) * batch, context + (more - 1) * batch)
        self._ended(1 + more, max(first_s, last_s), self.end + took_s)

    def _fits(self, batch: int, context: int, most: int, room_s: float) -> tuple[int, float]:
        """How many steps take no more than `room_s`, and how long they take."""
        decode_s = self.pace.decode_s  # type: ignore[union-attr]
        took_s = decode_s(batch, context, most)
        if took_s <= room_s:
            return most, took_s
        low, high, low_s = 0, most, 0.0
        while high - low > 1:
            middle = (low + high) // 2
            took_s = decode_s(batch, context, middle)
            if took_s <= room_s:
                low, low_s = middle, took_s
            else:
                high = middle
        return low, low_s

    def _prefilled(self, request: int) -> None:
        book = self.book
        if book.first_s[request] == inf:
            book.first_s[request] = self.start
        if self.role == "prefill":
            self.held -= book.prompt[request] + 1
            if book.output[request] > 1:
                self.handed.append((self.start, request))
            else:
                book.finish_s[request] = self.start
        elif book.output[request] == 1:
            self.held -= book.prompt[request] + 1
            book.finish_s[request] = self.start
        else:
            self._join(request)

    def _regain(self, request: int) -> None:
        """The first token that its user did not have when a crash took it back."""
        book = self.book
        before, _ = self.running[request]
        book.gap_s[request] = max(book.gap_s[request], self.start - book.last_s[request])
        book.delivered[request] = 0
        self.running[request] = (before, self.steps.count)

    def _finish(self, request: int) -> None:
        book = self.book
        _, since = self.running.pop(request)
        total = book.prompt[request] + book.output[request]
        self.held -= total
        self.context -= total
        book.finish_s[request] = self.start
        book.gap_s[request] = max(book.gap_s[request], self.steps.since(since))
