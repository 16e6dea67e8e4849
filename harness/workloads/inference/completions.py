"""OpenAI's completions as vLLM, SGLang and many others serve them: asked as a stream, timed token by token.

Times are taken as vLLM's `vllm/benchmarks/lib/endpoint_request_func.py` and SGLang's `bench_serving.py` do: when a
chunk of the stream is read, from when the request was sent. Which chunks are tokens these two see differently, and
here each server is timed as its own benchmark does it.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field
from typing import Any

from harness.workloads.inference.answers import CLOSED, MOST_QUOTED, Answer, Failed, answered
from harness.workloads.inference.arrivals import Request

DATA = b"data:"
DONE = "[DONE]"
ALL, WITH_TEXT, USUAL = "all", "with_text", "usual"
"""Chunks that are tokens. vLLM's: all that have a choice, also without text (a special token, or a part of a letter).
SGLang's: those with text. Of other servers the last one, which says why the text ends, may be no token."""
BROKEN_OFF = ("abort", "error")
"""Reasons why a text ends that the one who asked does not know of."""
STARTING = 503


@dataclass
class Timed:
    """What came of one request; times in CLOCK_MONOTONIC nanoseconds of this host."""

    start_ns: int
    token_ns: list[int] = field(default_factory=list)
    """When each chunk with a token was read: one token each, but for servers that send several at once."""
    tokens: int = 0
    """As the server says, or else the chunks."""
    text: str = ""

    @property
    def result(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


async def models(port: int) -> str:
    """The name of the model that a server which is ready has. Raises Failed, OSError.

    SGLang names its model while it still warms up; its `/health` says so. Servers without one are ready.
    """
    async with answered(port, "/v1/models") as answer:
        text = await answer.text()
        if answer.status != 200:
            raise Failed(f"/v1/models: HTTP {answer.status}: {_short(text)}")
    async with answered(port, "/health") as answer:
        if answer.status == STARTING:
            raise Failed(f"/health: HTTP {STARTING}: it is starting")
    try:
        return str(json.loads(text)["data"][0]["id"])
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise Failed(f"/v1/models says no model: {_short(text)}") from error


async def complete(port: int, model: str, request: Request, start_ns: int, tokens: str = USUAL) -> Timed:
    """Sends it and reads the answer to its end; `start_ns`: from when it is timed; `tokens`: which chunks are some.
    Raises Failed, OSError."""
    body = {
        "model": model,
        "prompt": list(request.prompt),
        "max_tokens": request.output_tokens,
        "temperature": 0.0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    timed = Timed(start_ns)
    async with answered(port, "/v1/completions", json.dumps(body).encode()) as answer:
        if answer.status != 200:
            raise Failed(f"HTTP {answer.status}: {_short(await answer.text())}")
        await _read(answer, timed, tokens)
    if not timed.token_ns:
        raise Failed("an answer without a token")
    timed.tokens = timed.tokens or len(timed.token_ns)
    return timed


async def _read(answer: Answer, timed: Timed, tokens: str) -> None:
    async for line in answer.lines():
        if not line.startswith(DATA):
            if line.startswith(b"{"):
                raise Failed(f"no stream: {_short(line.decode(errors='replace'))}")
            continue
        now_ns = time.monotonic_ns()
        text = line[len(DATA) :].strip().decode(errors="replace")
        if text == DONE:
            return
        _add(timed, text, now_ns, tokens)
    raise Failed(CLOSED)


def _add(timed: Timed, text: str, now_ns: int, tokens: str) -> None:
    """One event of the stream. The last one may have no token, but say how many there were."""
    try:
        said = json.loads(text)
        if said.get("error"):
            raise Failed(f"the server: {_short(json.dumps(said['error']))}")
        for choice in said.get("choices") or ():
            piece, reason = str(choice.get("text") or ""), choice.get("finish_reason")
            if reason in BROKEN_OFF:
                raise Failed(f"the server broke the answer off: finish_reason {reason}")
            if piece or tokens == ALL or (tokens == USUAL and reason is None):
                timed.token_ns.append(now_ns)
                timed.text += piece
        timed.tokens = _tokens(said) or timed.tokens
    except (ValueError, AttributeError, TypeError) as error:
        raise Failed(f"no JSON of a completion: {_short(text)}") from error


def _tokens(said: dict[str, Any]) -> int:
    return int((said.get("usage") or {}).get("completion_tokens") or 0)


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= MOST_QUOTED else words[:MOST_QUOTED] + "..."
