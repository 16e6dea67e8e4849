"""Where flight recorders write their dumps (docs/internals/trace.md), and how those of other machines get here."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from chaos.experiment.model import MODES
from chaos.testbed.beds import Bed

if TYPE_CHECKING:
    from chaos.run.plan import Plan

SETTING = "R2CC_TRACE_FILE"
THERE = PurePosixPath("/tmp/r2cc-trace")
"""On machines of their own, which do not see the run directory."""


def setting(raw: Path | None, arm: str, run: int, bed: Bed) -> dict[str, str]:
    """The recorders' setting, whose directory it makes; stock has no recorder."""
    if raw is None or MODES[arm] == 0:
        return {}
    name = f"trace-{arm}-{run}"
    folder = raw / name
    folder.mkdir(parents=True, exist_ok=True)
    if not bed.machines:
        return {SETTING: str(folder.resolve())}
    for host in bed.hosts.values():
        host.run(["rm", "-rf", str(THERE / name)])
        host.run(["mkdir", "-p", str(THERE / name)])
    return {SETTING: str(THERE / name)}


def fetch(plan: Plan, bed: Bed, raw: Path) -> None:
    """Copies the dumps of machines of their own into the run directory."""
    for launch in plan.ranks if bed.machines else ():
        if SETTING not in launch.env:
            continue
        host, there = bed.hosts[launch.host], PurePosixPath(launch.env[SETTING])
        for name in host.run(["ls", str(there)]).stdout.split():
            host.get(str(there / name), raw / there.name / name)
