"""The wheel, installed into an environment of its own: what works there without a checkout and without a compiler."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from wheel_parts import PACKAGES, PATH, ROOT, job_with, release, run

MOST_BYTES = 3 << 20
Command = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = [pytest.mark.lab, pytest.mark.build]


@pytest.fixture(scope="module")
def wheel() -> Path:
    """Built of what is here, as `make wheel` does."""
    release()
    return Path(run(sys.executable, PACKAGES / "wheel.py", cwd=ROOT).stdout.strip())


def installed(wheel: Path, python: Path, *words: str) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-deps"]
    run(*pip, *words, wheel, cwd=python.parent)


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment with the wheel; the packages that it needs are lent by ours, which is no checkout."""
    folder = tmp_path_factory.mktemp("wheel") / "venv"
    venv.create(folder)
    python = folder / "bin" / "python"
    installed(wheel, python)
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.fixture
def r2cc(python: Path, tmp_path: Path) -> Command:
    return lambda *words, code=0: run(python.with_name("r2cc"), *words, cwd=tmp_path, code=code)


def test_it_is_for_any_python_and_small(wheel: Path, python: Path) -> None:
    assert wheel.name.startswith("r2cc-") and "-py3-none-manylinux_2_31_" in wheel.name
    native = Path(
        run(python, "-P", "-c", "from harness.repo import programs; print(programs().net)", cwd=ROOT).stdout.strip()
    )
    assert native.is_relative_to(python.parents[1])
    assert (native / "libr2cc_net.so").stat().st_size <= MOST_BYTES
    debug = ROOT / "build/net/release/debug/libr2cc_net.so.debug"
    assert debug.stat().st_size > MOST_BYTES
    link = run("readelf", "--string-dump=.gnu_debuglink", native / "libr2cc_net.so", cwd=native).stdout
    assert debug.name in link


def test_commands_work_without_a_checkout(r2cc: Command, python: Path, tmp_path: Path) -> None:
    version = r2cc("--version").stdout
    assert "v8, v9, v10, v11, v12" in version and "not built" not in version
    library = Path(r2cc("plugin-path").stdout.strip())
    assert library.is_relative_to(python.parents[1]) and library.is_file()
    assert f"export NCCL_NET_PLUGIN={library}" in r2cc("env").stdout
    assert "allreduce of 64 MiB" in r2cc("plan", "--nodes", "4", "--nics", "2", "--down", "h1:eth0").stdout
    assert json.loads(r2cc("sim", "run", "experiments/sim/overhead.yaml", "--json", "--quiet").stdout)
    assert json.loads(r2cc("doctor", "--inventory", "local", "--json", "--quiet").stdout)["hosts"]
    assert "ok" in r2cc("chaos", "validate", "experiments/nic_down.yaml").stdout
    refused = r2cc("build", "nccl", code=2).stderr
    assert "works in a checkout" in refused and "Traceback" not in refused


def test_an_install_leaves_a_running_job_alone(r2cc: Command, wheel: Path, python: Path) -> None:
    with job_with(Path(r2cc("plugin-path").stdout.strip())):
        installed(wheel, python, "--force-reinstall")


def test_deploy_takes_what_is_in_the_wheel(python: Path, tmp_path: Path) -> None:
    code = (
        "from harness.deploy import build; from harness.repo import programs; "
        "made = build.net(programs()); print(*{file.local for file in made.files}, sep='\\n')"
    )
    files = [Path(line) for line in run(python, "-P", "-c", code, cwd=tmp_path).stdout.splitlines()]
    ours = [file for file in files if file.is_relative_to(python.parents[1])]
    assert {"libr2cc_net.so", "r2cc_bench", "build.json", "rank.py"} <= {file.name for file in ours}
    assert {file.name for file in files} - {file.name for file in ours} <= {"pynvml.py"}


def test_a_fault_is_carried_by_what_is_in_the_wheel(r2cc: Command, python: Path, tmp_path: Path) -> None:
    done = r2cc(
        *("chaos", "run", "experiments/ci/pull_request.yaml", "--arms", "migrate"),
        *("--void-ok", "--quiet", "--json", "--out", "runs"),
    )
    assert json.loads(done.stdout)["verdict"] in ("holds", "void")
    [run_directory] = (tmp_path / "runs").iterdir()
    journal = (run_directory / "journal.jsonl").read_text()
    assert str(python.parents[1] / "lib") in journal
    assert (run_directory / "report.html").is_file()


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.timeout(900)
def test_the_demo_in_an_environment_made_by_pip_alone(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--require-hashes", "--no-deps", "-r", ROOT / "requirements.lock"], check=True, timeout=300)
    subprocess.run([*pip, "--no-index", "--no-deps", wheel], check=True, timeout=60)
    assert "No broken requirements" in run(python, "-m", "pip", "check", cwd=tmp_path).stdout
    done = subprocess.run(
        [python.with_name("r2cc"), "chaos", "run", "experiments/nic_down.yaml", "--arms", "stock,migrate", "--void-ok"],
        cwd=tmp_path, env={"PATH": PATH}, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
