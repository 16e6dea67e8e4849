"""Runs somebody else's program in the foreground: its output is the user's, and so is Ctrl-C."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import UsageError
from harness.hosts import LocalHost
from harness.launch.processes import Processes, Start
from harness.programs.adapters import DEEPSPEED_ENV, Launch


def run_launch(launch: Launch) -> int:
    """Its exit code, as a shell tells it. Raises InfraError when it cannot be started."""
    with tempfile.TemporaryDirectory(prefix="r2cc-run-") as folder:
        env = dict(launch.env)
        if launch.exported:
            env[DEEPSPEED_ENV] = str(_exports(Path(folder), launch))
        with _interrupts_are_for_the_child(), Processes() as processes:
            processes.start([Start(launch.argv[0], LocalHost(), launch.argv, env, None)])
            code = processes.running[0].process.wait()
    return code if code >= 0 else 128 - code


def _exports(folder: Path, launch: Launch) -> Path:
    """The file that DeepSpeed's launcher reads. UsageError for a value that it cannot hold."""
    broken = [name for name, value in launch.exported.items() if "\n" in value]
    if broken:
        raise UsageError(f"{', '.join(broken)}: a variable for other hosts cannot have several lines", "unset it")
    path = folder / "deepspeed_env"
    path.write_text(launch.env_file(), encoding="utf-8")
    return path


@contextmanager
def _interrupts_are_for_the_child() -> Iterator[None]:
    """Ctrl-C reaches both of us; it is for the child to end, and for us to wait. A handler is not inherited."""
    old = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old)
