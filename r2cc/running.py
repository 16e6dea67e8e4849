"""Running experiments."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import InfraError
from r2cc.results import Run

if TYPE_CHECKING:
    from chaos.experiment.model import Experiment

Source = str | os.PathLike[str] | Mapping[str, Any]


class RunFailed(InfraError):
    """The machines failed, not what was tested. `run` is what there is of the run."""

    def __init__(self, run: Run, reasons: Sequence[str]) -> None:
        super().__init__(f"{run.path}: {'; '.join(reasons) or 'no reason is known'}", "see that folder; run it again")
        self.run = run


def run(
    experiment: Source,
    arms: Sequence[str] | str | None = None,
    site: str = "lab",
    out: str | os.PathLike[str] = "runs",
    *,
    repeats: int | None = None,
    seed: int | None = None,
    set: Mapping[str, Any] | None = None,
    launcher: str = "direct",
    python: str | None = None,
    share_gpus: bool = False,
    nccl: str | None = None,
    void_ok: bool = False,
    trace: bool = False,
    quiet: bool = True,
) -> Run:
    """Run an experiment, as `r2cc chaos run` does, and return its run.

    `experiment` is a file, YAML text (with a line break in it) or a mapping with the same keys; `arms` some of its
    arms; `site` what `--inventory` takes; `out` where the run directory is made; `set` changes values by dotted keys,
    as {"workload.bytes": "16MiB"}; `python` has torch, for workloads on GPUs; `nccl` is a version other than the
    usual one, for which it was built; `trace` keeps flight recorders' dumps under raw/. Nothing is printed unless
    `quiet` is False.

    An arm that deviates is no error: that is the verdict. Raises UsageError or InputErrors for bad input and InfraError
    for a machine that is not as needed (nothing was started), RunFailed when machines failed during the run,
    KeyboardInterrupt when it was interrupted.
    Whatever happens, what was broken is healed and what was started is ended.
    """
    from chaos.commands.one_run import run_one
    from chaos.commands.run import adjusted, arms_of
    from harness.files import rundir
    from harness.launch.hosts import meant
    from harness.sites.inventory import parse

    asked = adjusted(_experiment(experiment, set or {}), repeats, seed)
    names = arms_of(asked, arms if arms is None or isinstance(arms, str) else ",".join(arms))
    rundir.check(Path(out))
    options: dict[str, Any] = {"python": python, "share_gpus": share_gpus, "launcher": launcher, "void_ok": void_ok}
    options |= {"quiet": quiet, "verbose": not quiet, "trace": trace, "as_json": False, "nccl": nccl}
    with meant(parse(site), launcher) as opened:
        summary, shown = run_one(asked, names, opened, out=Path(out), **options)
    if summary.exit_code == 130:
        raise KeyboardInterrupt
    made = Run(shown)
    if summary.verdict == "failed":
        raise RunFailed(made, summary.reasons)
    return made


def _experiment(given: Source, changes: Mapping[str, Any]) -> Experiment:
    from chaos.experiment import file
    from harness.repo import shipped

    if isinstance(given, Mapping):
        return file.of_value(given, changes)
    if isinstance(given, str) and "\n" in given:
        return file.loads(given, Path("<experiment>"), changes)
    return file.load(shipped(Path(given)), changes)
