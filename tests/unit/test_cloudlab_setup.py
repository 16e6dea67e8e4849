"""The script that sets a CloudLab node up: its commands for every hardware type, and what it does when it runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.cloudlab import profile

SCRIPT = Path(profile.__file__).with_name("setup.sh")
DATA = Path(__file__).parent.parent / "data" / "cloudlab"
NICS = {"r7525": "ens5f0np0,ens5f1np1,eno33np0", "c6525-100g": "ens1f0np0,eno34np1"}
DRY = ("--user", "alice", "--root-login", "--dry-run")
TOOLS = ("apt-get", "apt-cache", "dcb", "dpkg", "ip", "nvidia-smi", "sudo", "sysctl")

ADDRESSES = """\
1: lo    inet 127.0.0.1/8 scope host lo
2: eno1    inet 198.51.100.7/22 brd 198.51.103.255 scope global eno1
5: ens1f1    inet 10.2.0.1/24 brd 10.2.0.255 scope global ens1f1
4: ens1f0    inet 10.1.0.1/24 brd 10.1.0.255 scope global ens1f0
"""


def setup(*words: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]}
    return subprocess.run(["bash", str(SCRIPT), *words], capture_output=True, text=True, timeout=60, env=env)


def quoted(path: Path) -> str:
    """As bash writes a word."""
    return subprocess.run(["bash", "-c", 'printf %q "$1"', "x", path], capture_output=True, text=True).stdout


@pytest.mark.parametrize("hardware", list(profile.HARDWARE))
def test_the_exact_commands_of_every_hardware_type(hardware: str) -> None:
    nics = NICS.get(hardware, "ens1f0np0,ens1f1np1")
    keyring = ["--cuda-keyring", "cuda-keyring.deb"] if profile.HARDWARE[hardware].gpus else []
    done = setup("--hardware", hardware, "--rate-gbit", "10", "--nics", nics, *keyring, *DRY)
    assert (done.returncode, done.stderr) == (0, "")
    shown = done.stdout
    for path, name in ((SCRIPT, "SETUP"), (SCRIPT.parents[2], "CHECKOUT")):
        shown = shown.replace(quoted(path), name).replace(str(path), name)
    assert shown == (DATA / f"setup-{hardware}.txt").read_text()


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Stand-ins for what changes a machine; they write down how they were called."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in TOOLS:
        body = f"cat <<'END'\n{ADDRESSES}END" if name == "ip" else f"[ ! -e {tmp_path}/no-{name} ]"
        (tools / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/calls\n{body}\n')
        (tools / name).chmod(0o755)
    return tmp_path


def calls(machine: Path) -> list[str]:
    found = (machine / "calls").read_text().splitlines()
    (machine / "calls").unlink()
    return found


def on(machine: Path, *words: str, hardware: str = "c6525-100g") -> subprocess.CompletedProcess[str]:
    root = str(machine / "root")
    return setup("--hardware", hardware, "--root", root, "--user", "alice", *words, path=machine / "tools")


def test_an_older_python_is_said_before_anything_is_done(machine: Path) -> None:
    """As on Ubuntu 22.04."""
    old = machine / "tools" / "python3"
    old.write_text('#!/bin/sh\n[ "$1" != -V ] || echo Python 3.10.12; [ "$1" = -V ]\n')
    old.chmod(0o755)
    done = on(machine, "--rate-gbit", "10")
    assert (done.returncode, done.stdout, (machine / "calls").exists()) == (2, "", False)
    assert "Python 3.11" in done.stderr and "Python 3.10.12" in done.stderr and "UBUNTU24-64-STD" in done.stderr
    assert on(machine, "--only", "limits,kernel").returncode == 0


def test_the_standard_image_has_a_python_that_is_new_enough() -> None:
    assert profile.IMAGE.endswith("//UBUNTU24-64-STD")


def test_it_really_runs_and_a_second_time_changes_nothing(machine: Path) -> None:
    first = on(machine, "--rate-gbit", "10")
    assert (first.returncode, first.stderr) == (0, ""), first.stdout
    found = calls(machine)
    assert [call for call in found if call.startswith("dcb maxrate set")] == [
        "dcb maxrate set dev ens1f0 tc-maxrate all:10Gbit",
        "dcb maxrate set dev ens1f1 tc-maxrate all:10Gbit",
    ], "the NICs of the rails, in their order; never the control network's"
    assert not [call for call in found if "nvidia" in call or "cuda" in call]
    root = machine / "root"
    written = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}
    assert sorted(written) == [
        "etc/security/limits.d/90-r2cc.conf",
        "etc/sysctl.d/90-r2cc.conf",
        "usr/local/sbin/r2cc-setup",
    ]
    assert os.access(root / "usr/local/sbin/r2cc-setup", os.X_OK)
    times = {path: (root / path).stat().st_mtime_ns for path in written}
    second = on(machine, "--rate-gbit", "10")
    assert second.returncode == 0
    assert [line for line in second.stdout.splitlines() if line.startswith(">")] == []
    assert times == {path: (root / path).stat().st_mtime_ns for path in written}


def test_root_gets_the_users_keys_once_and_keeps_its_own(machine: Path) -> None:
    home, keys = machine / "alice", machine / "root/root/.ssh/authorized_keys"
    (machine / "tools/getent").write_text(f"#!/bin/sh\necho alice:x:1000:1000::{home}:/bin/bash\n")
    (machine / "tools/getent").chmod(0o755)
    assert on(machine, "--only", "login").returncode == 0 and not keys.exists(), "only when asked for"
    missing = on(machine, "--only", "login", "--root-login")
    assert missing.returncode == 1 and missing.stdout.splitlines()[-1] == "# not done: login"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/authorized_keys").write_text("ssh-ed25519 AAA alice\nssh-rsa BBB alice")
    keys.parent.mkdir(parents=True)
    keys.write_text("ssh-rsa CCC boss\n")
    for _ in range(2):
        assert on(machine, "--only", "login", "--root-login").returncode == 0
        assert keys.read_text() == "ssh-rsa CCC boss\nssh-ed25519 AAA alice\nssh-rsa BBB alice\n"
    assert (keys.stat().st_mode & 0o777, keys.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_the_kernel_takes_its_settings(machine: Path) -> None:
    """Every line of the file is a setting that this kernel has."""
    on(machine, "--only", "kernel")
    for line in (machine / "root/etc/sysctl.d/90-r2cc.conf").read_text().splitlines():
        if not line.startswith("#"):
            name, value = line.split(" = ")
            assert int(value) >= 0
            path = Path("/proc/sys") / name.replace(".", "/")
            assert path.exists() or not Path("/proc/sys/net/core/rmem_max").exists(), name


def test_a_driver_that_works_is_left_alone(machine: Path) -> None:
    done = on(machine, "--only", "gpu", hardware="d8545")
    assert done.returncode == 0 and "the driver works" in done.stdout and "reboot" not in done.stdout
    found = calls(machine)
    assert any("cuda-toolkit-13-0" in call for call in found) and not any("nvidia-driver" in call for call in found)


def test_without_cuda_at_hand_it_says_where_it_comes_from_and_goes_on(machine: Path) -> None:
    for tool in ("nvidia-smi", "apt-cache"):
        (machine / f"no-{tool}").touch()
    done = on(machine, "--only", "gpu,limits", hardware="r7525")
    assert done.returncode == 1
    assert "--cuda-keyring FILE" in done.stdout and done.stdout.splitlines()[-1] == "# not done: gpu"
    assert "reboot before you take a snapshot" in done.stdout
    assert (machine / "root/etc/security/limits.d/90-r2cc.conf").exists()
    assert any("nvidia-driver-570-server" in call for call in calls(machine))


def test_a_nic_that_cannot_be_limited_is_named(machine: Path) -> None:
    (machine / "no-dcb").touch()
    done = on(machine, "--only", "rates", "--rate-gbit", "25", "--nics", "p0")
    assert done.returncode == 1 and done.stdout.splitlines()[-1] == "# not done: rates:p0"
    assert "DPU mode" in done.stdout


def test_a_step_that_fails_ends_it(machine: Path) -> None:
    (machine / "no-apt-get").touch()
    done = on(machine)
    assert done.returncode not in (0, 2) and "done" not in done.stdout
    assert not (machine / "root/etc").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "which --hardware is it?"),
        (["--hardware", "m400"], "no --hardware m400"),
        (["--hardware", "d7525", "--rate-gbit", "ten"], "no whole number"),
        (["--hardware", "d7525", "--nics", "a;b"], "names with commas"),
        (["--hardware", "d7525", "--only", "rates,disk"], "--only disk: no such step"),
        (["--hardware"], "--hardware needs a value"),
        (["--fast"], "unknown option --fast"),
    ],
)
def test_bad_usage_is_exit_2_and_starts_nothing(machine: Path, words: Sequence[str], message: str) -> None:
    done = setup(*words, path=machine / "tools")
    assert done.returncode == 2 and message in done.stderr and not (machine / "calls").exists()


def test_shellcheck_finds_nothing() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run(["shellcheck", str(SCRIPT)], capture_output=True, text=True, timeout=60)
    assert done.stdout == ""
