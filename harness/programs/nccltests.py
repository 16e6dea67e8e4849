"""Runs one program of nccl-tests, here or under Open MPI: rows as they come, then its JSON, and what they come to."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import InfraError, UsageError
from harness.hosts import LocalHost
from harness.launch.job import Job
from harness.launch.launchers import mpirun as open_mpi
from harness.launch.processes import Processes, Start
from harness.launch.run import NOT_FOUND
from harness.launch.streams import Verbatim
from harness.launch.watch import Watch
from harness.programs import adapters
from harness.programs.adapters import Launch
from harness.schemas.form import Count, ExitCode, form
from harness.workloads.nccltests.report import Lines, Report, read_json
from harness.workloads.nccltests.rows import Row
from harness.workloads.nccltests.spec import BY_LINE, Spec, one_of_many, program

LOOK_S = 0.1
LAST_LINES = 8
RIGHT, WRONG, BROKEN = 0, 1, 3
NOT_THERE = ": on some host there is no such program, or a library of it is missing; --bin names its folder there"
FILE = "nccl-tests.json"
HOST = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")


@dataclass(frozen=True)
class Plan:
    """What to run; `hosts` None: one process on this host. `inherited` is the caller's environment."""

    spec: Spec
    hosts: Sequence[str] | None
    mode: int
    library: Path | None
    inherited: Mapping[str, str]
    as_root: bool = False
    under: Callable[[tuple[str, ...]], Launch] | None = None
    """The launcher of an inventory's hosts, which makes a command of the program's words."""

    def launch(self) -> Launch:
        """The command line and its environment; under mpirun the library is the programs' alone."""
        if self.under is not None:
            return self.under(one_of_many(self.spec))
        env = adapters.r2cc_env(self.library, self.mode, self.inherited)
        if self.hosts is None:
            return Launch(plain(self.spec), env)
        env.pop("LD_PRELOAD", None)
        names = adapters.settings(env, self.inherited)
        return Launch(mpirun(self.spec, self.hosts, names, preload=self.library, as_root=self.as_root), env)

    def check(self) -> None:
        """Raises UsageError for what would not do what was asked for."""
        if self.under is not None:
            return  # what lies on other hosts, they say
        if not self.spec.program.is_file():
            raise UsageError(f"no {self.spec.program}", "r2cc build nccl-tests, or name its folder with --bin")
        if self.hosts is not None and _built_without_mpi(self.spec.folder):
            raise UsageError(
                f"the programs in {self.spec.folder} were built without MPI: each would run alone",
                "r2cc build nccl-tests --mpi DIR",
            )


def plain(spec: Spec) -> list[str]:
    """One process with all GPUs of this host; there is no way to have more without MPI."""
    return [*BY_LINE, *program(spec, spec.gpus)]


def mpirun(
    spec: Spec, hosts: Sequence[str], names: Iterable[str], *, preload: Path | None = None, as_root: bool = False
) -> list[str]:
    """One process a GPU under Open MPI 4; `names` of variables go to all of them with the values that mpirun has.

    The library is preloaded into the programs, not into mpirun. UsageError for what is no host name.
    """
    wrong = [host for host in hosts if not HOST.match(host)]
    if wrong or not hosts:
        raise UsageError(f"not a host name: {', '.join(map(repr, wrong)) or 'none was given'}", "--mpi node1,node2")
    slots = {host: spec.gpus * list(hosts).count(host) for host in hosts}
    job = Job(one_of_many(spec), slots, "", preload=str(preload or ""), told=(), mpi=True)
    return open_mpi.command(job, names=names, as_root=as_root)


def _built_without_mpi(folder: Path) -> bool:
    """As `r2cc build nccl-tests` wrote down; other builds say nothing beforehand."""
    try:
        return not json.loads((folder.parent / "build.json").read_text(encoding="utf-8"))["inputs"]["mpi"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


@form("nccl_tests", "r2cc run nccl-tests")
@dataclass(frozen=True)
class Ended:
    """How a program ended of which no JSON is there."""

    exit_code: ExitCode
    reason: str
    rows: Sequence[Row]


@form("nccl_tests")
@dataclass(frozen=True)
class Reported:
    """How it ended, and what its JSON says."""

    exit_code: ExitCode
    reason: str
    complete: bool
    nccl_version: int | None
    ranks: Count
    wrong_rows: int | None
    config: Mapping[str, Any]
    errors: Sequence[str]
    rows: Sequence[Row]


@dataclass(frozen=True)
class Result:
    """What came of it. `reason`: why the exit code is not 0."""

    rows: list[Row]
    exit_code: ExitCode
    reason: str
    report: Report | None

    def whole(self) -> Ended | Reported:
        """What `r2cc run nccl-tests --json` prints."""
        if self.report is None:
            return Ended(self.exit_code, self.reason, self.rows)
        about = {name: value for name, value in vars(self.report).items() if name != "rows"}
        return Reported(exit_code=self.exit_code, reason=self.reason, rows=self.rows, **about)

    def sentence(self) -> str:
        wrong = sum(row.wrong or 0 for row in self.rows)
        fastest = max((row.busbw_GBps for row in self.rows if row.busbw_GBps is not None), default=0.0)
        text = f"{len(self.rows)} rows, {wrong} wrong elements, up to {fastest:.2f} GB/s"
        return f"{text}; {self.reason}" if self.reason else text


def run_tests(plan: Plan, show: Callable[[str], None], *, timeout_s: float | None = None) -> Result:
    """Runs it to its end; every line it prints goes to `show`.

    Its JSON holds the whole environment: it is written where nobody else looks, and removed afterwards.
    """
    plan.check()
    with tempfile.TemporaryDirectory(prefix="r2cc-nccl-tests-") as folder:
        file = Path(folder) / FILE
        ours = plan.under is None
        launch = (replace(plan, spec=replace(plan.spec, json=file)) if ours else plan).launch()
        printed, tail, watch = Lines(), deque[str](maxlen=LAST_LINES), Watch(time.monotonic(), growing=True)

        def take(line: str) -> None:
            if printed.add(line):
                now_s = time.monotonic()
                watch.moved(now_s, None if watch.moved_s is None else now_s - watch.moved_s)
            tail.append(line)
            show(line)

        code, ended = _follow(launch, take, partial(_why_end, watch, timeout_s))
        report = read_json(file.read_text(encoding="utf-8", errors="replace")) if file.is_file() else None
    return judge(printed, report, code, "".join(tail), ended)


def _why_end(watch: Watch, timeout_s: float | None) -> str:
    """Empty while it may go on."""
    now_s = time.monotonic()
    if timeout_s is not None and now_s - watch.began_s > timeout_s:
        return f"it still ran after {timeout_s:g} s and was ended"
    stuck = watch.stuck(now_s)
    return f"{stuck}: it was ended" if stuck else ""


def judge(printed: Lines, report: Report | None, code: int, tail: str, ended: str = "") -> Result:
    """Wrong elements come first: they are R2CC's, whatever else went wrong.

    The JSON is more exact than what is printed, and may lack: rank 0 writes it on its own host.
    """
    rows = report.rows if report is not None and len(report.rows) >= len(printed.rows) else printed.rows
    told = report.wrong_rows if report is not None else None
    if told or any(row.wrong for row in rows):
        return Result(rows, WRONG, "wrong results", report)
    if ended:
        reason = ended
    elif code != 0:
        remedy = NOT_THERE if code == NOT_FOUND else ""
        reason = f"it ended with exit code {code}{remedy}; its last lines:\n{tail}".rstrip()
    else:
        reason = _trouble(printed, rows)
    return Result(rows, BROKEN if reason else RIGHT, reason, report)


def _trouble(printed: Lines, rows: Sequence[Row]) -> str:
    """Why a run that ended well says nothing."""
    if printed.headers > 1:
        return f"{printed.headers} programs ran side by side, each alone: build nccl-tests with MPI"
    if not rows:
        return "it printed no results"
    return "it checked no results" if all(row.wrong is None for row in rows) else ""


def _follow(launch: Launch, take: Callable[[str], None], why_end: Callable[[], str]) -> tuple[int, str]:
    """(exit code, why we ended it)."""
    if shutil.which(launch.argv[0]) is None:
        raise InfraError(f"there is no {launch.argv[0]} on this machine", "install it, or look at PATH")
    if launch.argv[0] == "mpirun":
        open_mpi.check()
    start = Start("nccl-tests", LocalHost(), launch.argv, launch.env, Verbatim(), own_session=True, merged=True)
    why = ""
    with Processes() as processes:
        processes.start([start])
        (child,) = processes.running
        while not child.eof:
            for spoken in processes.heard(LOOK_S):
                for _, line in spoken.lines or ():
                    take(line.decode(errors="replace"))
            if not why and (why := why_end()):
                processes.stop()
        child.finish()
    return child.code if child.code is not None else BROKEN, why
