"""A real Slurm: its daemons on this machine, which is two of its nodes; `r2cc run --launcher srun` inside of salloc."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from ports import free_port
from processes import with_word, words_of

sys.path.insert(0, str(Path(__file__).parent))
import slurm_lab
from slurm_lab import LIMIT_S, SBIN, await_true

from harness.build import build_net
from harness.progress import silent

pytestmark = [*slurm_lab.NEEDS, pytest.mark.timeout(120)]
REPO = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Daemons in the foreground, so that they end with the test."""
    made = tmp_path_factory.mktemp("slurm")
    host = socket.gethostname().split(".")[0]
    there = f"NodeHostname={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN"
    nodes = "\n".join(f"NodeName=n{index} Port={free_port()} {there}" for index in (1, 2))
    munged = slurm_lab.configured(made, host, "127.0.0.1", free_port(), nodes)
    with ExitStack() as running:
        daemon(running, made, munged)
        await_true((made / "munge.sock").exists, "munged")
        daemon(running, made, slurm_lab.controller(made))
        for node in ("n1", "n2"):
            daemon(running, made, slurm_lab.node(made, node))
        await_true(lambda: slurm(made, ["sinfo", "-h", "-o", "%D %T"]).stdout == "2 idle\n", "sinfo")
        deploy(made)
        yield made


def daemon(running: ExitStack, folder: Path, argv: Sequence[str]) -> None:
    with (folder / f"{argv[0]}.out").open("ab") as log:
        child = subprocess.Popen(argv, env={**os.environ, "PATH": SBIN}, stdout=log, stderr=log)
    running.callback(child.wait, LIMIT_S)
    running.callback(child.terminate)


def deploy(folder: Path) -> None:
    """What `r2cc deploy` makes of a build."""
    made = build_net(progress=silent)
    for name, file in {"bin/r2cc_bench": made.bench, "lib/libr2cc_net.so": made.library}.items():
        target = folder / "prefix" / "current" / name
        target.parent.mkdir(parents=True)
        target.symlink_to(file)


def slurm(folder: Path, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PYTHONPATH": str(REPO)}
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=LIMIT_S)


def bench(folder: Path, *words: str) -> list[str]:
    code = "from harness.cli import main; main()"
    where = ["--launcher", "srun", "--prefix", str(folder / "prefix"), "--root", "127.0.0.1"]
    where += ["--port", str(free_port())]
    more = ["--env", "NCCL_SOCKET_IFNAME=lo", "--bytes", "1000004", "--json", *words]
    return [sys.executable, "-c", code, "run", "bench", *where, *more]


@pytest.mark.parametrize(
    ("asked", "hosts"),
    [(["-N2", "--ntasks-per-node=1"], {"n1": 1, "n2": 1}), (["-N2", "-n3"], {"n1": 2, "n2": 1})],
)
def test_inside_of_an_allocation(folder: Path, asked: list[str], hosts: dict[str, int]) -> None:
    done = slurm(folder, ["salloc", "-Q", *asked, *bench(folder)])
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert (told["hosts"], told["iterations"], told["wrong_elements"]) == (hosts, 20, 0)


def test_a_wrong_element_is_found(folder: Path) -> None:
    done = slurm(folder, ["salloc", "-Q", "-N2", "--ntasks-per-node=1", *bench(folder, "--corrupt", "1:3")])
    assert json.loads(done.stdout)["reason"] == "wrong results", done.stderr


@pytest.mark.parametrize("how", ["kill", "interrupt"])
def test_all_ranks_end(folder: Path, how: str) -> None:
    argv = ["salloc", "-Q", "-N2", "--ntasks-per-node=1", *bench(folder, "--iterations", "1000000")]
    env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PYTHONPATH": str(REPO)}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        await_true(lambda: len(processes(folder, "bin/r2cc_bench")) == 2, "the bench")
        if how == "kill":
            os.kill(processes(folder, "bin/r2cc_bench")[1], signal.SIGKILL)
        else:
            os.kill(processes(folder, "harness.cli")[0], signal.SIGINT)
        out, err = child.communicate(timeout=LIMIT_S)
    if how == "kill":
        assert "was killed by SIGKILL" in json.loads(out)["reason"], out
    else:
        assert "interrupted" in err
    await_true(lambda: not processes(folder, "bin/r2cc_bench"), "the end of all ranks")


def processes(folder: Path, what: str) -> list[int]:
    """Those of ours whose first words name it."""
    found = {pid: words_of(pid) for pid in with_word(str(folder / "prefix"))}
    return sorted(
        pid for pid, words in found.items() if "salloc" not in words and any(what in word for word in words[:3])
    )
