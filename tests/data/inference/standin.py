"""A stand-in for a server of inference: it speaks the HTTP of OpenAI's completions, and does wrong what it is asked to.

`PORT=P standin.py [--peer ADDR] [--trouble WHAT@REQUEST]`. With a peer each token waits for an answer from the other
rank, over the network between them; rank 1 gives those answers. Requests are counted from 0, warm-up included.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PEER_PORT = 7100
MESSAGE = b"t" * 1000


class Work:
    """What all requests share: the other rank, and what goes wrong at which of them."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.link: socket.socket | None = None
        self._lock, self._count = threading.Lock(), -1
        self.warm_s = time.monotonic() + given.warms_up_s

    def trouble(self) -> str:
        """Of the request that came now."""
        with self._lock:
            self._count += 1
            what, _, at = self.given.trouble.partition("@")
            return str(what) if at == str(self._count) else ""

    def token(self) -> None:
        time.sleep(self.given.token_ms / 1e3)
        if self.link is None:
            return
        with self._lock:
            self.link.sendall(MESSAGE)
            got = 0
            while got < len(MESSAGE):
                got += len(self.link.recv(len(MESSAGE) - got)) or os._exit(4)

    def meet(self) -> None:
        while self.given.peer and self.link is None:
            try:
                self.link = socket.create_connection((self.given.peer, PEER_PORT))
            except OSError:
                time.sleep(0.05)


def echo() -> None:
    with socket.create_server(("0.0.0.0", PEER_PORT)) as server:
        peer, _ = server.accept()
        while data := peer.recv(65536):
            peer.sendall(data)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    work: Work

    def do_GET(self) -> None:
        trouble = self.work.given.trouble
        if self.path == "/health" and time.monotonic() < self.work.warm_s:
            self.say(503, b"")
            return
        if trouble == "never@ready":
            self.say(503, b'{"error": "loading"}')
            return
        self.say(200, b'{"data": [{"id": "standin"}]}' if trouble != "html@ready" else b"<html>")

    def do_POST(self) -> None:
        trouble = self.work.trouble()
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if trouble == "http_500":
            self.say(500, b'{"error": {"message": "out of memory"}}')
        elif trouble == "no_stream":
            self.say(200, b'{"choices": [{"text": "all at once"}]}')
        else:
            self.stream(body, trouble)

    def stream(self, body: dict[str, Any], trouble: str) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.chunk(b": a comment, as servers send to keep a connection open\n\n")
        count, own = body["max_tokens"], self.work.given.like != "openai"
        for number in range(count):
            self.work.token()
            if number == 2 and trouble:
                self.do_wrong(trouble)
            text = f"{self.work.given.text} {(sum(body['prompt']) + number) % 97}"
            # vLLM and SGLang end with the last token; one whose letter is not whole yet has no text.
            bare = own and number in (1, count - 1)
            self.choice("" if bare else text, "length" if own and number == count - 1 else None)
        if not own:
            self.choice("", "length")
        self.event(json.dumps({"choices": [], "usage": {"completion_tokens": count}}).encode())
        self.event(b"[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def do_wrong(self, trouble: str) -> None:
        if trouble == "dies":
            os._exit(7)
        elif trouble == "no_json":
            self.event(b"{torn")
        elif trouble == "aborts":
            self.choice("", "abort")
        elif trouble == "error":
            self.event(b'{"error": {"message": "preempted"}}')
        elif trouble == "closes":
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
        elif trouble == "never_ends":
            while True:
                self.chunk(b": ping\n\n")
                time.sleep(0.05)

    def choice(self, text: str, reason: str | None) -> None:
        said = {"choices": [{"index": 0, "text": text, "finish_reason": reason}], "usage": None}
        self.event(json.dumps(said, ensure_ascii=False).encode())

    def event(self, text: bytes) -> None:
        data = b"data: " + text + b"\r\n\r\n"
        size = self.work.given.pieces or len(data)
        for at in range(0, len(data), size):
            self.chunk(data[at : at + size])

    def chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def say(self, status: int, text: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        print("standin: a request", flush=True)


class Server(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """Whoever asked has closed the connection."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", default="")
    parser.add_argument("--trouble", default="", help="WHAT@REQUEST")
    parser.add_argument("--token-ms", type=float, default=5.0)
    parser.add_argument("--start-s", type=float, default=0.0)
    parser.add_argument("--warms-up-s", type=float, default=0.0, help="so long /health says that it is starting")
    parser.add_argument("--like", choices=("openai", "vllm", "sglang"), default="openai", help="how a stream ends")
    parser.add_argument("--text", default="", help="before each token")
    parser.add_argument("--pieces", type=int, default=0, help="bytes of each chunk of HTTP; 0: a whole event")
    given = parser.parse_args()
    if os.environ["RANK"] != "0":
        if given.trouble == "dies@rank1":
            raise SystemExit(9)
        echo()
        return
    time.sleep(given.start_s)
    Handler.work = Work(given)
    Handler.work.meet()
    if given.trouble == "dies@start":
        print("standin: no memory left", flush=True)
        raise SystemExit(9)
    Server(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()


if __name__ == "__main__":
    main()
