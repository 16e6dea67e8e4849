"""Where the instructions of a message go, in NCCL's threads: lock, plan, recorder, acknowledgements, and the transport.

    .venv/bin/python benchmarks/message_cost.py [--mode 2] [--bytes 65536] [--messages 2000] [--json]

Two ranks of the host bench stream to each other over the loopback interface, one of them under valgrind's callgrind,
which counts instructions of programs and not of the kernel. Counts hardly depend on what else the machine does; times
would. Each message is sent and one received. `copies` are memcpy, of messages that are kept. For valgrind see Debian's
package; without it the program ends with exit code 1.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import click
from common import Benchmark, table

from harness.errors import InfraError
from harness.repo import checkout

SLOTS, WARMUP, LIMIT_S, PORT = 4, 1, 300, 29731
DATA_PATH = re.compile(
    r"r2cc::(Send|Recv)Connection::(isend|irecv|test|progress|give|answer|release|complete|room|acked|take|finished"
    r"|sender|waitsFor)|r2cc::Connection::(pump|post|claim|handleOn|findLane)|r2cc::(KeptMessages|AckRule|Recorder)"
)
GROUPS = (
    ("lock and atomics", re.compile(r"ownership\.h|atomic")),
    ("plan and lanes", re.compile(r"/lanes/")),
    ("recorder", re.compile(r"/record/")),
    ("acknowledgement's rule", re.compile(r"ack_rule\.h")),
    ("what is kept", re.compile(r"kept_messages\.h")),
    ("the rest of the connection", re.compile(r"")),
)
INCLUSIVE = (
    ("acknowledgements: datagrams out", "r2cc::Peer::flushAcks"),
    ("acknowledgements: datagrams in, at times", "r2cc::Engine::fetchAcks"),
    ("copies", "__memcpy"),
    ("the transport's test", "ncclNetSocketTest"),
    ("the transport's isend", "ncclNetSocketIsend"),
    ("the transport's irecv", "ncclNetSocketIrecv"),
)


@dataclass
class Profile:
    """Instructions by (function, source file), of calls with all that they call, as callgrind's file has them."""

    own: Counter[tuple[str, str]] = field(default_factory=Counter)
    whole: Counter[str] = field(default_factory=Counter)


def profile(lines: list[str]) -> Profile:
    """Callgrind's format: names are given once, with a number, and by that number from then on."""
    out, now = Profile(), {"fn": "", "file": "", "callee": ""}
    names: dict[str, dict[str, str]] = {"fn": {}, "file": {}}
    called = False
    for line in lines:
        kind, _, rest = line.partition("=")
        if kind in ("fn", "cfn", "fl", "fi", "fe", "cfi", "cfl"):
            space = "fn" if kind in ("fn", "cfn") else "file"
            number, _, name = rest.partition(" ")
            names[space].setdefault(number, name)
            key = {"fn": "fn", "cfn": "callee"}.get(kind, "file" if kind in ("fl", "fi", "fe") else "")
            now[key] = names[space][number]
        elif kind == "calls":
            called = True
        elif line[:1] in "+-*0123456789" and len(line.split()) > 1:
            count = int(line.split()[1])
            if not called:
                out.own[now["fn"], now["file"]] += count
                out.whole[now["fn"]] += count if now["fn"].startswith("__memcpy") else 0
            elif now["callee"] != now["fn"] and not now["callee"].startswith("__memcpy"):
                out.whole[now["callee"]] += count
            called = False
    return out


def groups(found: Profile, messages: int) -> dict[str, float]:
    """Instructions a message."""
    out: Counter[str] = Counter()
    for (function, file), count in found.own.items():
        if DATA_PATH.search(function):
            out[next(name for name, files in GROUPS if files.search(file))] += count
    for name, function in INCLUSIVE:
        out[name] += sum(count for each, count in found.whole.items() if each.startswith(function))
    return {name: count / messages for name, count in out.items() if count}


def counted(mode: int, size: int, messages: int) -> dict[str, float]:
    """Raises InfraError when a rank does not end well."""
    valgrind, bench = shutil.which("valgrind"), checkout().net / "r2cc_bench"
    if valgrind is None or not bench.exists():
        raise InfraError("valgrind or the host bench is not there", "install valgrind, and run 'r2cc build net'")
    environment = {**os.environ, "NCCL_SOCKET_IFNAME": "lo", "R2CC_MODE": str(mode)}
    words = [str(bench), "--ranks", "2", "--root", f"127.0.0.1:{PORT}", "--op", "stream", "--channels", "1"]
    words += ["--bytes", str(size * messages), "--chunk-bytes", str(size), "--slots", str(SLOTS)]
    words += ["--iterations", "1", "--warmup", str(WARMUP)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "callgrind"
        under = [valgrind, "--tool=callgrind", f"--callgrind-out-file={file}"]
        with subprocess.Popen([*words, "--rank", "1"], env=environment, stdout=subprocess.DEVNULL) as other:
            watched = [*under, *words, "--rank", "0"]
            ran = subprocess.run(watched, env=environment, capture_output=True, timeout=LIMIT_S, check=False)
            code = other.wait(LIMIT_S)
        if ran.returncode or code:
            raise InfraError(f"ranks ended with {ran.returncode} and {code}", ran.stderr.decode()[-300:])
        return groups(profile(file.read_text().splitlines()), messages * (1 + WARMUP))


@click.command(cls=Benchmark, help=__doc__)
@click.option("--mode", type=click.IntRange(0, 2), default=2, show_default=True, help="R2CC_MODE; 0: stock.")
@click.option("--bytes", "size", type=click.IntRange(4, 1 << 24), default=65536, show_default=True)
@click.option("--messages", type=click.IntRange(10, 100000), default=2000, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print instructions a message as JSON.")
def main(*, mode: int, size: int, messages: int, as_json: bool) -> None:
    found = counted(mode, size, messages)
    rows = [(name, f"{count:.0f}") for name, count in sorted(found.items(), key=lambda each: -each[1])]
    click.echo(json.dumps(found, indent=1) if as_json else table([("of a message sent and one received", "Ir"), *rows]))
    sys.exit(0)


if __name__ == "__main__":
    main()
