"""Arm `restart`: what a job without R2CC does. Nothing moves; it is ended and started again on the NICs that work.

Each rank has a supervisor, which starts the rank itself and passes on what it says. When that stands still for
R2CC_RESTART_AFTER_S, or dies, the supervisors meet, agree on the NICs that have a carrier on all hosts and on the
iteration to go on from, and start anew. Lines are passed on as if there had been one run: the iteration that was cut
short began when it first began.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from harness.workloads.interfaces import chosen

AFTER = "R2CC_RESTART_AFTER_S"
RANK = Path(__file__).with_name("rank.py")
NICS = Path("/sys/class/net")
MEET_PORT = 1000
"""Above the job's own; both go up by one with every attempt."""
FIRST_S = 120.0
"""How long a start may take: torch, CUDA, NCCL's connections."""
MOST_ATTEMPTS = 20
RETRY_S = 0.1
STRANGER_S, LONGEST = 5.0, 65536
OK, WRONG, TRANSPORT = 0, 1, 3
Json = dict[str, Any]


class Supervisor:
    """Of one rank."""

    def __init__(self, given: Namespace, words: list[str]) -> None:
        self._given, self._words = given, words
        self._after_s = float(os.environ[AFTER])
        self._begun: dict[int, int] = {}
        """Iteration -> when it first began."""
        self._done = -given.warmup - 1
        """The last iteration that this rank has finished."""
        self._child: subprocess.Popen[bytes] | None = None
        self._folder = ""
        """Of checkpoints; rank 0's word counts."""
        signal.signal(signal.SIGTERM, self._end)

    def run(self) -> int:
        """The exit code of the attempt that came to an end."""
        with tempfile.TemporaryDirectory(prefix="r2cc-restart-") as self._folder:
            for attempt in range(MOST_ATTEMPTS):
                agreed = self._meet(attempt)
                self._tell("log", message=f"attempt {attempt} on {agreed['nics']}, from iteration {agreed['first']}")
                code = self._attempt(attempt, agreed)
                if code is not None:
                    return code
        self._tell("error", message=f"started {MOST_ATTEMPTS} times in vain")
        return TRANSPORT

    def _attempt(self, attempt: int, agreed: Json) -> int | None:
        """None when it stood still or died, and has been ended."""
        env = self._env(agreed["nics"] if attempt else [])
        with subprocess.Popen(self._argv(attempt, agreed), stdout=subprocess.PIPE, env=env) as child:
            self._child = child
            moving = self._follow(child)
            if not moving:
                child.kill()
            code = child.wait()
        return code if moving and code in (OK, WRONG) else None

    def _follow(self, child: subprocess.Popen[bytes]) -> bool:
        """Passes lines on until there are no more; False when none has told of progress for too long."""
        assert child.stdout is not None
        rest, moved, patience_s = b"", time.monotonic(), FIRST_S
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            while True:
                left_s = moved + patience_s - time.monotonic()
                if left_s <= 0:
                    return False
                if not selector.select(left_s):
                    continue
                chunk = os.read(child.stdout.fileno(), 65536)
                if not chunk:
                    return True
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    if self._pass_on(line) in ("progress", "iteration", "bench_end"):
                        moved, patience_s = time.monotonic(), self._after_s

    def _pass_on(self, text: bytes) -> str | None:
        """The event of a line; what was said in an earlier attempt is not said again."""
        try:
            line = json.loads(text)
            event = str(line["event"])
        except (ValueError, TypeError, KeyError):
            os.write(1, text + b"\n")
            return None
        index = line.get("index")
        if event == "error":
            line["event"] = "log"
        elif event == "bench_start" and self._begun:
            return event
        elif event == "progress":
            if index in self._begun:
                return event
            self._begun[index] = line["start_ns"]
        elif event == "iteration":
            if index <= self._done:
                return event
            self._done = index
            line["start_ns"] = self._begun.get(index, line["start_ns"])
        os.write(1, (json.dumps(line) + "\n").encode())
        return event

    def _argv(self, attempt: int, agreed: Json) -> list[str]:
        """The rank's own command; what comes last counts."""
        host, _, port = self._given.root.rpartition(":")
        more = ["--root", f"{host}:{int(port) + attempt}"]
        if attempt:
            more += ["--first", str(agreed["first"])]
        spec = dict(self._given.spec)
        if "checkpoint_every" in spec:
            spec["checkpoint"] = agreed["folder"]
        return [sys.executable, str(RANK), *self._words, *more, "--spec", json.dumps(spec)]

    def _env(self, nics: list[str]) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if name != AFTER}
        return {**env, "NCCL_SOCKET_IFNAME": "=" + ",".join(nics)} if nics else env

    def _meet(self, attempt: int) -> Json:
        """What all supervisors agree on. Raises OSError when one does not come."""
        host, _, port = self._given.root.rpartition(":")
        place = (host, int(port) + MEET_PORT + attempt)
        mine = {"done": self._done, "nics": working_nics(os.environ.get("NCCL_SOCKET_IFNAME", "eth"))}
        limit_s = FIRST_S + 2 * self._after_s
        if self._given.rank == 0:
            return _gather(place, mine, self._given.ranks, self._folder, limit_s)
        return _ask(place, mine, limit_s)

    def _tell(self, event: str, **fields: Any) -> None:
        line = {"event": event, "t_ns": time.monotonic_ns(), "rank": self._given.rank, **fields}
        os.write(1, (json.dumps(line) + "\n").encode())

    def _end(self, number: int, frame: FrameType | None) -> NoReturn:
        if self._child is not None:
            self._child.kill()
        os._exit(TRANSPORT)


def working_nics(words: str, root: Path = NICS) -> list[str]:
    """NICs with a carrier, of those that NCCL is told to use: all that an operator could know at once."""
    return [name for name in chosen(words, (path.name for path in root.iterdir())) if _carrier(root / name)]


def _carrier(nic: Path) -> bool:
    try:
        return (nic / "carrier").read_text().strip() == "1"
    except OSError:  # administratively down
        return False


def agreement(told: list[Json], folder: str) -> Json:
    """The NICs that work everywhere (a NIC has its rail's name), and the first iteration that somebody lacks."""
    nics = set(told[0]["nics"]).intersection(*(each["nics"] for each in told))
    return {"nics": sorted(nics), "first": min(each["done"] for each in told) + 1, "folder": folder}


def _gather(place: tuple[str, int], mine: Json, ranks: int, folder: str, limit_s: float) -> Json:
    deadline = time.monotonic() + limit_s
    with socket.create_server(place, reuse_port=False) as server:
        peers: list[tuple[socket.socket, Json]] = []
        try:
            while len(peers) < ranks - 1:
                server.settimeout(max(0.01, deadline - time.monotonic()))
                peer, _address = server.accept()
                peer.settimeout(STRANGER_S)
                told = _heard(peer)
                if told is None:
                    peer.close()
                else:
                    peers.append((peer, told))
            agreed = agreement([mine, *(told for _peer, told in peers)], folder)
            for peer, _told in peers:
                peer.sendall((json.dumps(agreed) + "\n").encode())
            return agreed
        finally:
            for peer, _told in peers:
                peer.close()


def _heard(peer: socket.socket) -> Json | None:
    """None from somebody who is no supervisor."""
    try:
        told = json.loads(peer.makefile("rb").readline(LONGEST))
        nics, done = told["nics"], int(told["done"])
        return {"nics": [str(nic) for nic in nics], "done": done}
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _ask(place: tuple[str, int], mine: Json, limit_s: float) -> Json:
    deadline = time.monotonic() + limit_s
    while True:
        try:
            with socket.create_connection(place, timeout=5.0) as link:
                link.settimeout(limit_s)
                link.sendall((json.dumps(mine) + "\n").encode())
                agreed: Json = json.loads(link.makefile("rb").readline())
                return agreed
        except (OSError, ValueError):
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)
