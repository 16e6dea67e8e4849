"""Sweeps on a real Dask scheduler with two workers, all on this machine's loopback."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import sim_files

from chaos.simulate.run.cell import Payload
from chaos.simulate.run.execute import Dask, Here
from chaos.simulate.run.experiment import load
from chaos.simulate.run.sweep import Sweep
from harness.cli import run_cli
from harness.errors import InfraError, UsageError

pytestmark = pytest.mark.skipif(find_spec("distributed") is None, reason="needs r2cc[dask]")
LIMIT_S = 30
DASK = (sys.executable, "-m", "dask")
"""Not the script beside it: pip writes none that works in every folder."""
LOOPBACK = "127.0.0.1"


def started(argv: list[str], sign: str) -> tuple[subprocess.Popen[str], str]:
    """A process that has said that it is ready, and the line that says so."""
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if re.search(sign, line):
            return process, line
    raise AssertionError(f"{argv[3]} ended with {process.wait(LIMIT_S)}")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    processes = []
    try:
        argv = [*DASK, "scheduler", "--host", LOOPBACK, "--port", "0", "--no-dashboard"]
        process, line = started(argv, r"Scheduler at:")
        processes.append(process)
        found = re.search(r"tcp://\S+", line)
        assert found is not None
        for name in ("one", "two"):
            worker = [
                *DASK,
                "worker",
                found[0],
                "--host",
                LOOPBACK,
                "--nthreads",
                "1",
                "--no-dashboard",
                "--name",
                name,
            ]
            worker += ["--no-nanny", "--local-directory", str(tmp_path / name)]
            processes.append(started(worker, r"Registered to|Starting established connection")[0])
        yield found[0]
    finally:
        for process in reversed(processes):
            process.kill()
        for process in processes:
            process.communicate(timeout=LIMIT_S)


@pytest.mark.build
def test_a_cluster_gives_the_same_bytes_and_goes_on_with_others_cells(tmp_path: Path, address: str) -> None:
    file, out = sim_files.write(tmp_path), tmp_path / "dask"
    sweep = ["sim", "sweep", str(file), "--quiet", "--scheduler", address, "--out"]
    assert run_cli([*sweep, str(out)]) == 0
    assert run_cli(["sim", "sweep", str(file), "--quiet", "--workers", "1", "--out", str(tmp_path / "here")]) == 0
    for path in [*(out / "cells").iterdir(), out / "simulation.json"]:
        assert path.read_bytes() == (tmp_path / "here" / path.relative_to(out)).read_bytes()
    assert len(list((out / "cells").iterdir())) == 9
    (out / "cells" / "p0001-t000002.json").unlink()
    assert run_cli([*sweep, str(out), "--resume"]) == 0
    experiment = load(file)
    payload = Payload.of(experiment)
    cells = payload.cells()
    there = dict(Dask(address).run(payload, cells))
    assert there == dict(Here().run(payload, cells))
    with pytest.raises(InfraError, match="another r2cc"):
        list(Dask(address).run(Payload(**{**payload.__dict__, "code": "other"}), cells))
    assert Sweep(experiment, out).progress() == (9, 9)


def test_without_a_scheduler_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.simulate.run.execute.CONNECT_S", 0.5)
    payload = Payload.of(load(sim_files.write(tmp_path)))
    with pytest.raises(InfraError, match="no Dask scheduler answers at tcp://127"):
        list(Dask("tcp://127.0.0.1:1").run(payload, payload.cells()))


def test_something_else_at_the_address_is_no_lack_of_memory(tmp_path: Path) -> None:
    payload = Payload.of(load(sim_files.write(tmp_path)))
    with socket.create_server((LOOPBACK, 0)) as server:
        server.settimeout(LIMIT_S)

        def speak() -> None:
            there, _ = server.accept()
            with there:
                there.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                there.recv(1)

        stranger = threading.Thread(target=speak)
        stranger.start()
        with pytest.raises(InfraError, match="is no Dask scheduler"):
            list(Dask(f"tcp://{LOOPBACK}:{server.getsockname()[1]}").run(payload, payload.cells()))
        stranger.join(LIMIT_S)


def test_without_the_package_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    payload = Payload.of(load(sim_files.write(tmp_path)))
    with pytest.raises(UsageError, match=r"distributed") as caught:
        list(Dask("tcp://127.0.0.1:1").run(payload, payload.cells()))
    assert "r2cc[dask]" in str(caught.value)
