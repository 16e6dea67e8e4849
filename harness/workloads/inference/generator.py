"""Sends the requests at their times and says what came of each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from harness.workloads.inference.answers import Failed
from harness.workloads.inference.arrivals import Load, Request, requests
from harness.workloads.inference.completions import Timed, complete, models
from harness.workloads.inference.output import Output

OP = "inference"
LOOK_S = 0.1
READY_S = 5.0
"""How long one question whether it is ready may take."""


class NotServed(Exception):
    """Nothing was measured: why, and what to do."""


class Generator:
    """Of one run. `ended`: what the server ended with, None while it runs."""

    def __init__(self, load: Load, output: Output, ended: Callable[[], int | None], ranks: int) -> None:
        self._load, self._output, self._ended, self._ranks = load, output, ended, ranks
        self._model = ""
        self.sent = 0

    async def run(self) -> None:
        """Returns when every request was answered or has failed. Raises NotServed."""
        await self._ready()
        every = list(requests(self._load))
        for request in (each for each in every if each.index < 0):
            await self._warm(request)
        self._output.say(
            "bench_start", op=OP, bytes=0, ranks=self._ranks, channels=0, chunk_bytes=0, slots=0, mode=None, nics=[],
            connections=[],
        )  # fmt: skip
        await self._send([each for each in every if each.index >= 0])
        self._output.say("bench_end", completed=self.sent, wrong_elements=0, max_rss_bytes=0, cpu_s=0.0)

    async def _ready(self) -> None:
        until_s, said = time.monotonic() + self._load.start_s, ""
        while time.monotonic() < until_s:
            self._alive()
            try:
                self._model = await asyncio.wait_for(models(self._load.port), READY_S)
                return
            except (OSError, Failed, asyncio.TimeoutError) as error:  # noqa: UP041 - Python 3.9
                said = str(error) or "no answer"
            await asyncio.sleep(LOOK_S)
        raise NotServed(
            f"the server was not ready after {self._load.start_s:.0f} s: port {self._load.port}: {said}; "
            "start_s says how long it may take"
        )

    def _alive(self) -> None:
        code = self._ended()
        if code is not None:
            raise NotServed(f"the server ended with exit code {code} before it was ready")

    async def _warm(self, request: Request) -> None:
        try:
            await self._answer(request, time.monotonic_ns())
        except (OSError, Failed) as error:
            self._alive()
            raise NotServed(f"the server is there, and the first requests fail: {error}") from error

    async def _send(self, every: list[Request]) -> None:
        """Poisson arrivals wait for nobody: a slow answer delays no request."""
        began_s, tasks = time.monotonic(), []
        for request in every:
            await asyncio.sleep(max(0.0, began_s + request.at_s - time.monotonic()))
            tasks.append(asyncio.ensure_future(self._one(request)))
            self.sent += 1
        await asyncio.gather(*tasks)

    async def _one(self, request: Request) -> None:
        start_ns = time.monotonic_ns()
        self._output.say("progress", index=request.index, start_ns=start_ns)
        try:
            timed = await self._answer(request, start_ns)
        except (OSError, Failed) as error:
            code = self._ended()
            why = str(error) if code is None else f"the server has ended with exit code {code}"
            self._output.say("request_failed", index=request.index, start_ns=start_ns, message=why)
            return
        self._output.say("iteration", **figures(request, timed))

    async def _answer(self, request: Request, start_ns: int) -> Timed:
        try:
            asked = complete(self._load.port, self._model, request, start_ns, self._load.tokens)
            return await asyncio.wait_for(asked, self._load.request_s)
        except asyncio.TimeoutError as error:  # noqa: UP041 - Python 3.9
            raise Failed(f"no whole answer in {self._load.request_s:g} s") from error


def figures(request: Request, timed: Timed) -> dict[str, object]:
    """The `iteration` line of a request that was answered."""
    first, gaps = timed.token_ns[0], zip(timed.token_ns, timed.token_ns[1:])  # noqa: B905 - Python 3.9
    return {
        "index": request.index,
        "start_ns": timed.start_ns,
        "end_ns": timed.token_ns[-1],
        "bytes": 0,
        "wrong_elements": 0,
        "ttft_ms": round((first - timed.start_ns) / 1e6, 3),
        "gaps_ms": [round((after - before) / 1e6, 3) for before, after in gaps],
        "prompt_tokens": len(request.prompt),
        "tokens": timed.tokens,
        "result": timed.result,
    }
