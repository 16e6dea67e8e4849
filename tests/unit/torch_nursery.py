"""Imports torch once and forks ranks, each of which would import it for seconds. Run by torch_python.py, on a socket.

A message is a job: words and file descriptors of each rank, the environment and the folder of all. The answer are the
ranks' exit codes, when all have ended.
"""

from __future__ import annotations

import json
import os
import runpy
import socket
import sys
from typing import Any

import torch.distributed
import torch.nn.parallel  # noqa: F401 - what ranks import


def is_rank(words: list[str], files: list[int], job: dict[str, Any]) -> None:
    """As if the interpreter had been started with these words."""
    for number, file in enumerate(files, 1):
        os.dup2(file, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(job["env"])
    os.chdir(job["cwd"])
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")
    sys.exit(0)


def main() -> None:
    asked = socket.socket(fileno=int(sys.argv[1]))
    while True:
        text, files, _, _ = socket.recv_fds(asked, 1 << 20, 64)
        if not text:
            return
        job = json.loads(text)
        pids = []
        for rank, words in enumerate(job["ranks"]):
            pids.append(os.fork())
            if pids[-1] == 0:
                return is_rank(words, files[2 * rank : 2 * rank + 2], job)
        for file in files:
            os.close(file)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        asked.send(json.dumps(codes).encode())


if __name__ == "__main__":
    main()
