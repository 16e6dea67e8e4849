"""Starts and ends a lab's keeper: a process of its own that holds the lab and answers with one line when it is up."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import harness
from harness.errors import LabError, UsageError
from harness.lab import state
from harness.lab.client import AgentHost

DOWN_TIMEOUT_S = 5.0


def start_keeper(module: str, task: dict[str, Any], timeout_s: float) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    package = str(Path(harness.__file__).parent.parent)
    search = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryFile() as errors:
        keeper = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "PYTHONPATH": search},
            start_new_session=True,
        )
        try:
            return keeper, _first_answer(keeper, task, timeout_s)
        except BaseException:
            end_keeper(keeper)
            errors.seek(0)
            sys.stderr.write(errors.read().decode(errors="replace"))
            raise
        finally:
            assert keeper.stdin is not None and keeper.stdout is not None
            keeper.stdin.close()
            keeper.stdout.close()


def end_keeper(keeper: subprocess.Popen[bytes]) -> None:
    """Asks the keeper to take its lab down and waits; kills it when it does not answer, which ends the lab as well."""
    keeper.terminate()
    try:
        keeper.wait(DOWN_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        keeper.kill()
        keeper.wait()
        state.living()


class Up:
    """A lab that is up, as a context. Our own is taken down at its end; one we only attached to stays up."""

    hosts: Mapping[str, AgentHost]
    switch: AgentHost
    keeper: subprocess.Popen[bytes] | None

    def close(self) -> None:
        """Ends our commands there, takes our own lab down and returns when nothing of it is left."""
        for host in (*self.hosts.values(), self.switch):
            host.close()
        if self.keeper is not None:
            end_keeper(self.keeper)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _first_answer(keeper: subprocess.Popen[bytes], task: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    assert keeper.stdin is not None and keeper.stdout is not None
    keeper.stdin.write(json.dumps(task).encode())
    keeper.stdin.close()
    deadline = time.monotonic() + timeout_s
    if not select.select([keeper.stdout], [], [], deadline - time.monotonic())[0]:
        raise LabError(f"the lab was not up after {timeout_s:g} s", "see whether the machine is overloaded")
    line = keeper.stdout.readline()
    if not line:
        raise LabError("the lab's keeper ended without a word", "run again; its stderr is above")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        kind = UsageError if answer["exit_code"] == UsageError.exit_code else LabError
        raise kind(answer["error"], answer["hint"])
    return answer
