"""Launchers of other packages: a good one starts ranks; a broken one costs one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from plugin_package import on_path, written

from harness.cli import cli
from harness.launch.launchers.registry import launchers

CODE = """
from harness.launch.launchers.launcher import Command, Launcher, Plan

class Flux(Launcher):
    def plan(self, job, reach, folder, *, as_root=False, raw=False):
        argv = ["flux", "run", "-n", str(job.ranks), *job.by_itself("FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID")]
        return Plan("flux", [Command("", "flux", argv, dict(job.env))])
"""


def test_one_of_another_package_is_like_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = written(tmp_path, "flux-extras", "r2cc.launchers", "flux = of_flux:Flux", module="of_flux", code=CODE)
    with on_path(monkeypatch, package):
        done = CliRunner().invoke(cli, ["run", "bench", "--launcher", "flux", "--dry-run"])
        assert "\nflux run -n 4 sh -c " in done.stdout, done.output
    done = CliRunner().invoke(cli, ["run", "bench", "--launcher", "flux", "--dry-run"])
    assert "'flux' is not one of 'mpirun', 'srun', 'ssh', 'torchrun'" in done.output


@pytest.mark.parametrize(
    ("entry", "code", "said"),
    [
        ("flux = nowhere:Flux", "", "ModuleNotFoundError: No module named 'nowhere'"),
        ("flux = of_flux:Plan", CODE, "is no class derived from harness.launch.launchers.launcher.Launcher"),
        ("flux = of_flux:Flux", CODE.replace("def plan", "def order"), "Flux lacks plan"),
        ("srun = of_flux:Flux", CODE, "the name is taken by r2cc"),
    ],
)
def test_a_broken_one_is_named_in_one_line_and_left_out(
    entry: str, code: str, said: str, tmp_path: Path, *, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    ours = list(launchers())
    with on_path(monkeypatch, written(tmp_path, "flux-extras", "r2cc.launchers", entry, module="of_flux", code=code)):
        assert list(launchers()) == ours
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("r2cc: warning: launcher ") and said in line
