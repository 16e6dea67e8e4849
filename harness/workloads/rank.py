"""One rank of a GPU workload: `python3 rank.py KIND --rank R --ranks N --root ADDR:PORT ...`, by a Python with torch.

Prints the lines of docs/reference/contracts.md (`bench_start`, `progress`, `iteration`, `bench_end`, `error`) on
stdout, where the net library writes its own. Exit: 0 all exact and complete, 1 wrong elements, 2 usage, 3 a
collective failed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

KINDS = ("collectives", "ddp", "decode", "graphs", "lifecycle", "megatron")
OK, WRONG, USAGE, TRANSPORT = 0, 1, 2, 3


def options(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--root", required=True, help="ADDR:PORT of rank 0 on the management network")
    parser.add_argument("--gpu", type=int, help="its number; without one: gloo on CPUs, to test the workload itself")
    parser.add_argument("--per-host", type=int, default=1, help="ranks of a host")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--first", type=int, help="iteration to go on from; without it: the warm-up's first")
    parser.add_argument("--seconds", type=float, default=0, help="iterations end after so long; 0: never")
    parser.add_argument("--timeout-s", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corrupt", metavar="RANK:ITERATION", default="", help="self-test: one element is changed")
    parser.add_argument("--spec", type=json.loads, default={}, help="the workload's own settings, JSON")
    return parser.parse_args(words)


def main() -> None:
    """Never returns: what NCCL still does after an error must not keep the process."""
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    from harness.workloads import restart

    given = options()
    if restart.AFTER in os.environ:
        os._exit(restart.Supervisor(given, sys.argv[1:]).run())
    try:
        from harness.workloads.job import Job

        workload = importlib.import_module(f"harness.workloads.{given.kind}")
    except ImportError as error:
        print(f"{sys.executable}: {error}; name a Python that has it with --python", file=sys.stderr)
        os._exit(USAGE)
    try:
        job = Job(given)
        wrong = job.run(_made(workload.Workload, job))  # nothing keeps it: NCCL waits for graphs before it goes
        job.close()
    except Exception as error:  # noqa: BLE001 - whatever it was, it is told, and the process ends
        traceback.print_exc()
        message = f"{type(error).__name__}: {error}".splitlines()[0]
        line = {"event": "error", "t_ns": _now_ns(), "rank": given.rank, "message": message}
        os.write(1, (json.dumps(line) + "\n").encode())
        sys.stderr.flush()
        os._exit(TRANSPORT)
    sys.stderr.flush()
    os._exit(WRONG if wrong else OK)


def _made(kind: Any, job: Any) -> Any:
    """What the settings ask for; what they ask in vain ends the process with one line."""
    try:
        return kind(job)
    except ValueError as error:
        os.write(2, f"{job.given.kind}: {error}\n".encode())
        try:
            job.close()  # the others say so, too, and need rank 0's store until then
        finally:
            os._exit(USAGE)


def _now_ns() -> int:
    import time

    return time.monotonic_ns()


if __name__ == "__main__":
    main()
