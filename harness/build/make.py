"""Runs make with a count of what is compiled, a log, and an error that shows what the compiler said."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.build.failed_tests import failed_tests
from harness.errors import BuildError
from harness.hosts import LocalHost
from harness.hosts.commands import indent, last_lines
from harness.hosts.groups import held
from harness.progress import Progress, Step
from harness.repo import Layout

POLL_S = 0.1
LIMIT_S = 1800.0
ERROR_LINES = 25
SHOWN_AFTER = 4
OWN_FLAGS = {"MAKEFLAGS": "", "MFLAGS": ""}  # `make -B test` is not meant for the make that we start


def make_arguments(layout: Layout, cuda: Path) -> list[str]:
    """All paths relative to our C++ and free of spaces: make splits what has one, wherever the checkout lies."""
    return [
        f"NCCL_TREE={_relative(layout.tree, layout)}",
        f"CUDA_INC={_relative(_without_space(cuda, layout), layout)}",
        f"BUILD={_relative(layout.net, layout)}",
        *([] if layout.cpu is None else [f"CXX={layout.tool('g++')}", f"OBJCOPY={layout.tool('objcopy')}"]),
    ]


def _relative(path: Path, layout: Layout) -> str:
    return os.path.relpath(path, layout.native) if path.is_relative_to(layout.root) else str(path)


def _without_space(path: Path, layout: Layout) -> Path:
    """A toolkit in a folder with a space is reached through a link in the cache."""
    if path.is_relative_to(layout.root) or " " not in str(path):
        return path
    link = layout.cache / "cuda-include"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(path)
    return link


def make_command(layout: Layout, target: str, arguments: list[str]) -> list[str]:
    jobs = len(os.sched_getaffinity(0))
    return ["make", "-C", str(layout.native), "--no-print-directory", f"-j{jobs}", target, *arguments]


def run_make(layout: Layout, target: str, arguments: list[str], *, progress: Progress, verbose: bool) -> None:
    """Build one target; everything make says goes to a log. Raises BuildError with the log's last lines."""
    command = make_command(layout, target, arguments)
    total = count_compilations(command)
    follow(
        command,
        target,
        log_of(layout, target),
        env=OWN_FLAGS,
        far=lambda text: f"{min(compilations(text), total)} of {total} files",
        progress=progress,
        verbose=verbose,
    )


def follow(
    command: list[str],
    target: str,
    log: Path,
    *,
    env: Mapping[str, str],
    far: Callable[[str], str],
    progress: Progress,
    verbose: bool,
    limit_s: float = LIMIT_S,
) -> None:
    """Run a make. `far` says from all it said so far how far it is. Raises BuildError with the log's last lines."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        progress(f"compiling {target}") as step,
        log.open("wb") as output,
        held(command, LocalHost().name, env=env, output=output) as process,
    ):
        code = _follow(process.poll, log, far, step, verbose=verbose, limit_s=limit_s)
    if code != 0:
        raise BuildError(f"`make {target}` failed with exit code {code}\n{indent(errors_of(log))}", f"see {log}")


def log_of(layout: Layout, target: str) -> Path:
    return layout.net / ("build.log" if target == "net" else f"{target}.log")


def _follow(
    poll: Callable[[], int | None], log: Path, far: Callable[[str], str], step: Step, *, verbose: bool, limit_s: float
) -> int:
    """Wait for make and show how far it is, by its own echo of commands."""
    deadline = time.monotonic() + limit_s
    shown = 0
    while True:
        code = poll()
        text = log.read_text(errors="replace")
        step.update(far(text))
        if verbose:
            print(text[shown:], end="", flush=True)
            shown = len(text)
        if code is not None:
            return code
        if time.monotonic() > deadline:
            raise BuildError(f"make still ran after {limit_s:g} s", f"see {log}")
        time.sleep(POLL_S)


def count_compilations(command: list[str]) -> int:
    """How many files make will compile, asked of make itself; a dry run takes milliseconds."""
    result = LocalHost().run([*command, "--dry-run"], env=OWN_FLAGS, timeout_s=60, check=False)
    return compilations(result.stdout)


def compilations(text: str) -> int:
    return sum(" -c " in line for line in text.splitlines())


def errors_of(log: Path) -> str:
    """The lines that say why: of tests what the failed ones said; from the compiler's first error on; else the last."""
    lines = [line[:400] for line in log.read_text(errors="replace").splitlines()]
    if found := failed_tests(lines):
        return "\n".join([*found, "...", *lines[-SHOWN_AFTER:]])
    first = next((number for number, line in enumerate(lines) if "error:" in line), None)
    if first is not None:
        return "\n".join(lines[first : first + ERROR_LINES])
    return last_lines("\n".join(lines), ERROR_LINES)
