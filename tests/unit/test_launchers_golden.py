"""The exact command lines of every launcher with every workload, in tests/data/golden.

To write them anew after a deliberate change: WRITE_GOLDEN=1 pytest tests/unit/test_launchers_golden.py,
then read the difference.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from launch_double import two_hosts

from harness.errors import UsageError
from harness.launch.launchers.registry import launchers
from harness.launch.workloads import NCCL_TESTS, Asked, check, job
from harness.sites.slurm import Allocation
from harness.workloads.kinds.registry import kinds
from harness.workloads.nccltests.spec import OPS, Spec, one_of_many

KINDS = (*(name for name, kind in kinds().items() if not kind.foreign), NCCL_TESTS)
GOLDEN = Path(__file__).parents[1] / "data" / "golden"
FOLDER = "/tmp/r2cc-run"
SPECS = {"collectives": {"ops": ["all_reduce"]}, "ddp": {"layers": 2}}
INHERITED = {"NCCL_DEBUG": "INFO", "HOME": "/home/alice", "R2CC_PYTHON": "/opt/python", "NCCL_SOCKET_IFNAME": "bond0"}


def golden(name: str, text: str) -> str:
    """What the file says that `text` should be; see the head of this file."""
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("WRITE_GOLDEN") == "1":
        path.write_text(text)
    return path.read_text()


def commands(launcher: str, asked: Asked, *, as_root: bool = False, uneven: bool = False) -> str:
    """As `--dry-run` prints them; an error is its text."""
    try:
        check(asked.kind, launcher)
        site = two_hosts()
        if uneven:
            site = replace(site, allocation=Allocation("7", ("n1", "n2"), {"n1": 2, "n2": 1}))
        made = job(asked, site, INHERITED)
        raw = asked.kind == "nccl-tests"
        if raw:
            made = replace(
                made, program=one_of_many(Spec(OPS[0], Path("/opt/nccl-tests/bin"), 2, begin="1M", end="1G"))
            )
        return launchers()[launcher].plan(made, site, FOLDER, as_root=as_root, raw=raw).text()
    except UsageError as error:
        return f"UsageError: {error}\n"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("launcher", launchers())
def test_every_launcher_with_every_workload(launcher: str, kind: str) -> None:
    per_host = 2 if kind == "bench" else None
    asked = Asked(kind, ranks_per_host=per_host, spec=SPECS.get(kind, {}), env={"HF_TOKEN": "s3cret"})
    shown = commands(launcher, asked)
    assert shown == golden(f"{launcher}-{kind}", shown)


MORE = {
    "mpirun-bench-root-oob": ("mpirun", Asked("bench", out_of_band="10.0.0.0/24"), {"as_root": True}),
    "mpirun-nccl-tests-oob": ("mpirun", Asked("nccl-tests", out_of_band="10.0.0.0/24"), {}),
    "srun-bench-uneven": ("srun", Asked("bench"), {"uneven": True}),
    "srun-ddp-uneven": ("srun", Asked("ddp"), {"uneven": True}),
    "torchrun-collectives-cpu": ("torchrun", Asked("collectives", cpu=True, python="/opt/t/python"), {}),
    "ssh-bench-stock-ipv6": ("ssh", Asked("bench", mode=0, root="2001:db8::1", port=4000), {}),
}


@pytest.mark.parametrize("name", MORE)
def test_what_else_is_different(name: str) -> None:
    launcher, asked, how = MORE[name]
    shown = commands(launcher, asked, **how)
    assert shown == golden(name, shown)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.txt")), ids=lambda path: path.stem)
def test_no_secret_is_shown_or_part_of_a_command(path: Path) -> None:
    assert "s3cret" not in path.read_text()


def test_no_golden_file_is_left_over() -> None:
    every = {f"{launcher}-{kind}" for launcher in launchers() for kind in KINDS}
    assert {path.stem for path in GOLDEN.glob("*.txt")} == every | set(MORE)
