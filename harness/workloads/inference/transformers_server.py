"""A small server of completions on transformers, tensor-parallel over all ranks: rank 0 has the HTTP, all compute.

Started like torchrun starts a rank (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT). Without `--model` it is a
small Llama with random weights from a seed. Greedy, and each sequence is a batch of its own, so that an answer does not
depend on what else is asked: the same prompt gives the same text, bit by bit. The sequences that are under way get one
token each in turn. SIGTERM ends all ranks; one that fails ends with 3.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import sys
import tempfile
import threading
import traceback
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

STOP = -1
IDLE_S = 0.5
"""How often ranks hear that there is nothing to do: a collective must not wait for ever."""
LONGEST_BODY = 1 << 24
END = None
"""Of a sequence's tokens."""


class Sequence:
    """One prompt and what follows it; `tokens` are handed to whoever asked."""

    def __init__(self, prompt: list[int], count: int, tokens: queue.SimpleQueue[int | None] | None = None) -> None:
        self.prompt, self.left, self.tokens = prompt, count, tokens
        self.cache: Any = None
        self.last: torch.Tensor | None = None


class Model:
    """The same on each rank; what it is asked must come in the same order on all of them."""

    def __init__(self, path: str, dtype: str, device: torch.device) -> None:
        self._device = device
        split = _split() if dist.get_world_size() > 1 else {}
        self.net = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype), **split)
        self.net = self.net if split else self.net.to(device)
        self.net.eval()

    @torch.inference_mode()
    def step(self, sequence: Sequence) -> int:
        """Its next token."""
        given = torch.tensor([sequence.prompt], device=self._device) if sequence.last is None else sequence.last
        out = self.net(input_ids=given, past_key_values=sequence.cache, use_cache=True)
        sequence.cache = out.past_key_values
        sequence.last = out.logits[:, -1:].argmax(dim=-1)
        return int(sequence.last)


def _split() -> dict[str, Any]:
    """How the model's layers are divided among all ranks, in the words of this transformers."""
    try:
        from transformers.distributed import DistributedConfig
    except ImportError:
        return {"tp_plan": "auto"}
    return {"distributed_config": DistributedConfig(tp_plan="auto")}


def _random_weights(given: argparse.Namespace) -> str:
    """A folder with a model. Drawn on each rank, the same on all: nothing need be there, or be copied."""
    torch.manual_seed(given.seed)
    config = LlamaConfig(
        vocab_size=given.vocabulary, hidden_size=given.hidden, intermediate_size=4 * given.hidden,
        num_hidden_layers=given.layers, num_attention_heads=given.heads, num_key_value_heads=given.heads,
        max_position_embeddings=65536, tie_word_embeddings=False,
    )  # fmt: skip
    folder = tempfile.mkdtemp(prefix="model-", dir=os.environ.get("R2CC_OUT"))
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


class Engine:
    """Of one rank. Before each round all ranks learn what has come in."""

    def __init__(self, model: Model, device: torch.device) -> None:
        self._model, self._device = model, device
        self.asked: queue.SimpleQueue[Sequence] = queue.SimpleQueue()
        self.stopping = False
        self._active: deque[Sequence] = deque()

    def run(self) -> None:
        while self._take():
            for _ in range(len(self._active)):
                sequence = self._active.popleft()
                token = self._model.step(sequence)
                sequence.left -= 1
                if sequence.tokens is not None:
                    sequence.tokens.put(token)
                if sequence.left > 0:
                    self._active.append(sequence)
                elif sequence.tokens is not None:
                    sequence.tokens.put(END)

    def _take(self) -> bool:
        """What came in since the last round, on all ranks; False when it is over."""
        new = self._waiting() if dist.get_rank() == 0 else []
        numbers = [number for each in new for number in (each.left, len(each.prompt), *each.prompt)]
        count = torch.tensor([STOP if self.stopping else len(numbers)], device=self._device)
        dist.broadcast(count, 0)
        if int(count) == STOP:
            return False
        if int(count):
            data = torch.tensor(numbers or [0] * int(count), device=self._device)
            dist.broadcast(data, 0)
            self._active += new or _sequences(data.tolist())
        return True

    def _waiting(self) -> list[Sequence]:
        found = []
        try:
            if not self._active and not self.stopping:
                found.append(self.asked.get(timeout=IDLE_S))
            while True:
                found.append(self.asked.get_nowait())
        except queue.Empty:
            return found


def _sequences(numbers: list[int]) -> list[Sequence]:
    found = []
    while numbers:
        count, length = numbers[:2]
        found.append(Sequence(numbers[2 : 2 + length], count))
        numbers = numbers[2 + length :]
    return found


class Handler(BaseHTTPRequestHandler):
    """`GET /v1/models`, and `POST /v1/completions` with a prompt of token ids; a token's text is its number."""

    protocol_version = "HTTP/1.1"
    engine: Engine
    vocabulary: int

    def do_GET(self) -> None:
        self._json(200, {"object": "list", "data": [{"id": "transformers", "object": "model"}]})

    def do_POST(self) -> None:
        try:
            body = json.loads(self.rfile.read(min(int(self.headers["Content-Length"]), LONGEST_BODY)))
            prompt, count = [int(token) for token in body["prompt"]], int(body.get("max_tokens", 16))
            if not prompt or count < 1 or not all(0 <= token < self.vocabulary for token in prompt):
                raise ValueError(f"a prompt is a list of tokens below {self.vocabulary}; max_tokens is 1 or more")
        except (ValueError, KeyError, TypeError) as error:
            self._json(400, {"error": {"message": f"{type(error).__name__}: {error}"}})
            return
        self._stream(prompt, count)

    def _stream(self, prompt: list[int], count: int) -> None:
        tokens: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self.engine.asked.put(Sequence(prompt, count, tokens))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        while (token := tokens.get()) is not END:
            count -= 1
            self._event({"choices": [{"text": f" {token}", "finish_reason": None if count else "length"}]})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _event(self, said: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(said).encode() + b"\n\n")

    def _json(self, status: int, said: dict[str, Any]) -> None:
        text = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Requests are the client's to report."""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", help="a folder, or a name that transformers finds")
    parser.add_argument("--vocabulary", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def serve(given: argparse.Namespace) -> None:
    """Returns after SIGTERM."""
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    path = given.model or _random_weights(given)  # before the ranks meet: then only rank 0 would write any
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    engine = Engine(Model(path, given.dtype, device), device)
    signal.signal(signal.SIGTERM, lambda *_: setattr(engine, "stopping", dist.get_rank() == 0))
    if dist.get_rank() == 0:
        Handler.engine, Handler.vocabulary = engine, given.vocabulary
        server = ThreadingHTTPServer(("127.0.0.1", given.port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    engine.run()


def main() -> None:
    """Never returns: what NCCL still does after an error must not keep the process."""
    code = 0
    try:
        serve(options())
    except Exception:  # noqa: BLE001 - whatever it was, it is said, and the process ends
        traceback.print_exc()
        code = 3
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    main()
