"""Takes: one measurement of a cell each, kept as a file with where and of what code it was made."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config import jsons
from harness.config.files import Unreadable
from harness.errors import InfraError, UsageError
from harness.facts.environment import Hardware, hardware
from harness.files.writing import write_whole
from harness.repo import checkout
from harness.schemas import dumped
from harness.schemas.form import Amount, ExitCode, form
from harness.vmlab import tools
from reports.scoreboard.board import Board, Cell

CODE = ("r2cc_patches", "harness", "chaos", "benchmarks", "experiments", "nccl_fork")
"""What figures depend on: a change of a page makes none of them old."""
OURS = str(Path(sys.executable).with_name("r2cc"))
GIT_S, BUILD_S, ROLL_BACK_S = 20.0, 1800.0, 30.0
LONGER = 3.0
"""A command is given so many times its minutes before it is ended."""
MEASURED = (0, 1, 3)
"""Exit codes with which there are figures: all hold, one is missed, one is void."""
NEEDS = {
    "two_cores": "two cores",
    "sixteen_cores": "16 cores",
    "one_gpu": "a GPU",
    "two_gpus": "two GPUs",
    "four_gpus": "four GPUs",
    "uml": "what makes User Mode Linux (scripts/system-packages.sh uml)",
}


@dataclass(frozen=True)
class Version:
    """Which commit, and a fingerprint of the folders that figures depend on."""

    commit: str
    code: str


@form("scoreboard_take", "A measurement of a cell of the scoreboard")
@dataclass(frozen=True)
class Take:
    """`report`: what the command printed with --json."""

    cell: str
    commit: str
    code: str
    at: str
    """UTC, to the second"""
    machine: Hardware
    gpus: Sequence[str]
    command: Sequence[str]
    seconds: Amount
    exit_code: ExitCode
    report: Mapping[str, Any]


def version(root: Path) -> Version:
    """UsageError outside of a git checkout: a figure without its commit says nothing."""
    commit = _git(root, "rev-parse", "--short=12", "HEAD")
    trees = [_git(root, "rev-parse", f"HEAD:{folder}") for folder in CODE]
    changed = _git(root, "status", "--porcelain", "--", *CODE)
    code = hashlib.sha256("\n".join([*trees, changed]).encode()).hexdigest()[:12]
    return Version(f"{commit}{'+changes' if changed else ''}", code)


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=GIT_S, check=True
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"{root} is no git checkout that can be read", "measure in a clone of the project") from error
    return done.stdout.strip()


def gpus() -> list[str]:
    """Names of this machine's GPUs; none without NVIDIA's driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        found = [
            pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(i)) for i in range(pynvml.nvmlDeviceGetCount())
        ]
        return [name if isinstance(name, str) else name.decode() for name in found]
    finally:
        pynvml.nvmlShutdown()


def lacks(where: str, cores: int, cards: int) -> str:
    """What this machine lacks for such a cell; empty when nothing."""
    enough = {
        "two_cores": cores >= 2,
        "sixteen_cores": cores >= 16,
        "one_gpu": cards >= 1,
        "two_gpus": cards >= 2,
        "four_gpus": cards >= 4,
        "uml": not tools.missing("uml"),
    }
    return "" if enough[where] else NEEDS[where]


class Shelf:
    """The folder beside the board's file: CELL/0001.json, 0002.json, ..."""

    def __init__(self, board: Path) -> None:
        self.folder = board.with_suffix("")

    def takes(self, cell: str) -> list[Take]:
        """Of one cell, the oldest first. UsageError for a file that is none."""
        return [_read(path) for path in sorted((self.folder / cell).glob("*.json"))]

    def add(self, take: Take) -> Path:
        """Never in another one's place."""
        taken = [int(path.stem) for path in (self.folder / take.cell).glob("*.json") if path.stem.isdecimal()]
        path = self.folder / take.cell / f"{max(taken, default=0) + 1:04}.json"
        return write_whole(path, f"{dumped(take)}\n")

    def unknown(self, board: Board) -> list[str]:
        """Folders of cells that the board does not have."""
        known = {cell.name for cell in board.cells}
        return sorted(path.name for path in self.folder.glob("*/") if path.name not in known)


def _read(path: Path) -> Take:
    try:
        value = dict(jsons.mapping_of(path, schema=1))
        value.pop("schema", None)
        machine = value.pop("machine")
        return Take(**value, machine=Hardware(**machine))
    except (Unreadable, KeyError, TypeError) as error:
        raise UsageError(
            f"{path}: this is no take of a scoreboard", "remove it, and measure that cell again"
        ) from error


def measure(cell: Cell, of: Version, cards: Sequence[str], *, quiet: bool) -> Take:
    """Runs the cell's command. InfraError when it gives no figures."""
    first, *rest = cell.run
    program = [OURS] if first == "r2cc" else [sys.executable, first]
    began = time.monotonic()
    code, text = _run([*program, *rest, "--json"], cell.minutes * 60 * LONGER, quiet=quiet)
    if code is None:
        raise InfraError(f"{cell.name}: no end after {cell.minutes * LONGER:.0f} minutes", "run its command alone")
    report = _report(text)
    if report is None or code not in MEASURED:
        raise InfraError(f"{cell.name}: it ended with {code} and gave no figures", f"try {' '.join(cell.run)}")
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    seconds = round(time.monotonic() - began, 1)
    return Take(
        cell.name, of.commit, of.code, at, hardware(), list(cards), list(cell.run), seconds, code, report
    )  # fmt: skip


def build(*, quiet: bool) -> None:
    """Before the first cell, so that no cell's time goes into it."""
    code, _ = _run([OURS, "build", "net"], BUILD_S, quiet=quiet)
    if code != 0:
        raise InfraError("r2cc build net failed, or did not end", "run it alone")


def _run(words: Sequence[str], limit_s: float, *, quiet: bool) -> tuple[int | None, str]:
    """(exit code, what it printed); None: it was ended. A session of its own, so that nothing of it is left behind."""
    with subprocess.Popen(
        words, cwd=checkout().root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL if quiet else None, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            text, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            _end(process)
        return process.returncode, text


def _end(process: subprocess.Popen[str]) -> None:
    """As Ctrl-C does, so that a lab is taken down; then for good, with what it has left behind."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(ROLL_BACK_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _report(text: str) -> dict[str, Any] | None:
    """The one JSON object of what was printed."""
    begin = text.find("{")
    try:
        value = json.loads(text[begin:]) if begin >= 0 else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
