"""One rank of `workload: {kind: inference}`: `RANK=R python3 keeper.py --ranks N ... -- SERVER ARGS`.

With `--each` a command for each rank follows, with `--` before it: all ranks are started alike, whoever starts them.

It starts the server and watches over it. On rank 0 it waits until the server is ready, sends the requests, and says
what came of them; the others wait for rank 0's word. Exit: 0 every request was sent, 2 usage, 3 the server was not
there, or ended.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from harness.workloads.inference.arrivals import Load
    from harness.workloads.inference.output import Output
    from harness.workloads.inference.server import Server

OK, USAGE, BROKEN = 0, 2, 3
PEERS_S = 5.0
"""How long the server of a rank that only computes has to end by itself, when rank 0's was ended."""


def options(words: list[str] | None = None) -> argparse.Namespace:
    words, _, server = _parted(sys.argv[1:] if words is None else words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.set_defaults(rank=int(os.environ.get("RANK", "0")))  # as the server itself learns it
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--root", required=True, help="ADDR:PORT of rank 0 on the management network")
    parser.add_argument("--load", type=json.loads, required=True, help="what is asked for, JSON")
    parser.add_argument("--each", action="store_true", help="a command for each rank follows")
    given = parser.parse_args(words)
    for _ in range(given.rank if given.each else 0):
        server = _parted(server)[2]
    given.server = _parted(server)[0] if given.each else server
    return given


def _parted(words: list[str]) -> tuple[list[str], list[str], list[str]]:
    """What stands before the first `--`, that, and what stands after it."""
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at : at + 1], words[at + 1 :]


def main() -> None:
    """Never returns."""
    sys.path[0] = str(Path(__file__).resolve().parents[3])
    from harness.workloads.inference.arrivals import Load
    from harness.workloads.inference.output import Output
    from harness.workloads.inference.server import Server

    given = options()
    output, load = Output(given.rank), Load.of(given.load)
    if given.rank == 0:
        _look_at_port(load.port, output)
    try:
        server = Server(given.server, output)
    except (OSError, IndexError) as error:
        _end(USAGE, output, f"the server cannot be started: {error}")

    def stopped(*_: Any) -> NoReturn:
        server.stop()
        os._exit(BROKEN)

    signal.signal(signal.SIGTERM, stopped)
    signal.signal(signal.SIGINT, stopped)
    output.say("rank_pid", pid=server.process.pid, host=os.uname().nodename)
    if given.rank == 0:
        _serve(given, load, server, output)
    _wait(given, load, server, output)


def _look_at_port(port: int, output: Output) -> None:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        _end(USAGE, output, f"port {port} is taken: {os.strerror(error.errno or 0)}; choose another one: workload.port")


def _serve(given: argparse.Namespace, load: Load, server: Server, output: Output) -> NoReturn:
    from harness.workloads.inference.generator import Generator, NotServed
    from harness.workloads.inference.lifeline import Holder

    problem = ""
    try:
        holder = Holder(given.root, given.ranks - 1) if given.ranks > 1 else None
        asyncio.run(Generator(load, output, lambda: server.code, given.ranks).run())
    except NotServed as error:
        problem, holder = str(error), None
    except OSError as error:
        problem, holder = f"the ranks cannot meet at {given.root}: {error}", None
    code = server.code
    if holder is not None:
        holder.done()
    server.stop()
    if not problem and code is not None:
        problem = f"the server ended with exit code {code} before all requests were answered"
    _end(BROKEN if problem else OK, output, problem)


def _wait(given: argparse.Namespace, load: Load, server: Server, output: Output) -> NoReturn:
    from harness.workloads.inference.lifeline import wait

    done = wait(given.root, load.start_s, lambda: server.code not in (None, 0))
    if done:
        server.stop(PEERS_S)
        _end(OK, output)
    code = server.wait(0.0)
    server.stop()
    _end(BROKEN, output, "rank 0 has ended" if code is None else f"the server ended with exit code {code}")


def _end(code: int, output: Output, problem: str = "") -> NoReturn:
    """Whatever threads do."""
    if problem:
        output.error(f"inference: {problem}")
    os._exit(code)


if __name__ == "__main__":
    main()
