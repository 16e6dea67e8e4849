#!/usr/bin/env python3
"""Stands in for a program of nccl-tests 2.19 that was built with MPI: prints and writes the same form, row by row, and
moves real bytes, in a ring over TCP, from `eth0` of one lab host to that of the next.

It is told its rank by Open MPI, as a rank of MPI is. RING says what goes wrong, as JSON: `wrong` (row: elements),
`alone` (as without MPI), `torn` (the JSON ends in the middle), `die_after` (rows), `checked` (operations behind those
that are timed; else one), `slow` (iteration: ms more).
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from standin import Standin, column, size

PORT = 7100
FOUND_S = 20.0


class Ring:
    """Two connections of a rank: to the next one, and from the one before."""

    def __init__(self, rank: int, ranks: int, per_host: int) -> None:
        self.alone = ranks < 2
        if self.alone:
            return
        after = (rank + 1) % ranks
        listener = socket.create_server(("0.0.0.0", PORT + rank))
        found: list[socket.socket] = []
        caller = threading.Thread(target=lambda: found.append(self._to(after, after // per_host)))
        caller.start()
        self.before, _ = listener.accept()
        caller.join()
        (self.after,) = found

    def _to(self, rank: int, host: int) -> socket.socket:
        deadline = time.monotonic() + FOUND_S
        while True:
            try:
                return socket.create_connection((f"10.1.0.{host + 1}", PORT + rank), timeout=None)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def once(self, data: bytes) -> None:
        """Everybody sends and receives as much."""
        if self.alone:
            return
        sender = threading.Thread(target=self.after.sendall, args=(data,))
        sender.start()
        left = len(data)
        while left:
            left -= len(self.before.recv(min(left, 1 << 20))) or sys.exit(3)
        sender.join()


class Program(Standin):
    """Its rows, measured."""

    def __init__(self, program: str, words: list[str], script: dict[str, object]) -> None:
        self.place = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
        if self.place:
            at = words.index("-J")
            del words[at : at + 2]
        super().__init__(program, words, script)
        ranks = 1 if script.get("alone") else int(os.environ["OMPI_COMM_WORLD_SIZE"])
        self.ring = Ring(self.place, ranks, int(os.environ["OMPI_COMM_WORLD_LOCAL_SIZE"]))
        self.cycle = self.iteration = 0
        self.times_us: list[float] = []

    def end(self) -> int:
        self.cycle += 1
        if self.cycle < int(self.asked["-N"]):
            row, smallest = self.cycle * 100, size(self.asked["-b"])
            while smallest <= size(self.asked["-e"]):
                self.row(row, smallest)
                row, smallest = row + 1, smallest * int(self.asked["-f"])
            return self.end()
        if self.script.get("torn"):
            return 0
        return super().end()

    def part(self, number: int, size_bytes: int, kind: str) -> None:
        data = bytes(size_bytes)
        self.ring.once(data)
        times: list[float] = []
        slow = dict(self.script.get("slow", {}))  # type: ignore[call-overload]
        for _ in range(int(self.asked["-n"])):
            began = time.monotonic()
            self.ring.once(data)
            time.sleep(slow.get(str(self.iteration), 0) / 1000)
            self.iteration += 1
            times.append((time.monotonic() - began) * 1e6)
        for _ in range(int(self.script.get("checked", 1))):  # type: ignore[call-overload]
            self.ring.once(data)
        mean = sum(times) / len(times)
        rate = size_bytes / mean / 1000
        wrong = dict(self.script.get("wrong", {})).get(str(number), 0)  # type: ignore[call-overload]
        self.wrong += bool(wrong)
        print(f"  {column(mean, 7)}  {column(rate, 6)}  {column(rate, 6)}  {wrong:6g}", end="")
        shown = (min(times), max(times), max(times), 1.0)
        print("".join(f"  {column(value, 7)}" for value in shown), end="")
        self.json.put(f',"{kind}":{{"time":{mean:.6f},"alg_bw":{rate:.6f},"bus_bw":{rate:.6f},"nwrong":{wrong:.6f}}}')
        each = ",".join(f"{value:.6f}" for value in times)
        self.json.put(f',"{kind}_per_iter":{{"min_us":{min(times):.6f},"times_us":[{each}]}}')


def main() -> int:
    program = Program(Path(sys.argv[0]).name, sys.argv[1:], json.loads(os.environ.get("RING", "{}")))
    if program.place:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - until the end: only rank 0 prints
    return program.run()


if __name__ == "__main__":
    sys.exit(main())
