"""Set-up on machines that lack something, played with a PATH of our own making: no apt of this machine is touched."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = ("bash", "env", "make", "git", "ip", "tc", "nft", "unshare", "nsenter", "flock", "g++")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder for PATH with all that is needed, an ordinary user, and an apt-get that writes down what it is asked."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in PROGRAMS:
        found = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin")
        if found is None:
            pytest.skip(f"{name} is not installed here")
        (folder / name).symlink_to(found)
    (folder / "python3").symlink_to(sys.executable)
    script(folder / "id", "echo 1000")
    script(folder / "sudo", "exit 1")
    script(folder / "apt-get", f'echo "$*" >> "{tmp_path}/apt"')
    return folder


def script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def check(machine: Path, repository: Path) -> subprocess.CompletedProcess[str]:
    command = [str(machine / "bash"), str(repository / "scripts" / "system-packages.sh")]
    return subprocess.run(command, env={"PATH": str(machine)}, capture_output=True, text=True, timeout=60)


def apt_calls(machine: Path) -> list[str]:
    log = machine.parent / "apt"
    return log.read_text().splitlines() if log.exists() else []


def test_nothing_missing_touches_nothing(machine: Path, repository: Path) -> None:
    done = check(machine, repository)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert apt_calls(machine) == []


def test_without_a_way_to_install_one_line_names_the_command(machine: Path, repository: Path) -> None:
    (machine / "g++").unlink()
    (machine / "git").unlink()
    done = check(machine, repository)
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        "error: missing packages; type: sudo apt-get update && sudo apt-get install -y --no-install-recommends g++ git"
    ]
    assert apt_calls(machine) == []


@pytest.mark.parametrize("who", ["root", "sudoer"])
def test_what_is_missing_is_installed_where_no_password_is_needed(machine: Path, repository: Path, who: str) -> None:
    (machine / "g++").unlink()
    if who == "root":
        script(machine / "id", "echo 0")
    else:
        script(machine / "sudo", '[ "$1" = -n ] && shift; exec "$@"')
        script(machine / "true", "exit 0")
    done = check(machine, repository)
    assert done.returncode == 0, done.stderr
    assert apt_calls(machine) == ["update -q", "install -y --no-install-recommends g++ -q"]


def test_a_failed_install_fails_the_set_up(machine: Path, repository: Path) -> None:
    (machine / "g++").unlink()
    script(machine / "id", "echo 0")
    script(machine / "apt-get", '[ "$1" = update ]')
    assert check(machine, repository).returncode != 0


def test_an_old_python_is_named(machine: Path, repository: Path) -> None:
    (machine / "python3").unlink()
    script(machine / "python3", 'case "$*" in *version_info*) exit 1;; -V) echo Python 3.9.2;; esac')
    done = check(machine, repository)
    assert done.returncode == 3
    assert "needs Python 3.11 or newer" in done.stderr and "Python 3.9.2" in done.stderr


def test_locks_hold_hashes_and_no_address(repository: Path) -> None:
    """A lock with an index address would send every user to one site's mirror."""
    for lock in sorted(repository.glob("requirements*.lock")):
        text = lock.read_text()
        assert not any(word in text for word in ("://", "--index-url", "--find-links", "--trusted-host"))
        pinned = [line for line in text.splitlines() if line[:1].isalnum()]
        assert pinned and all("==" in line and line.endswith("\\") for line in pinned)


def test_use_and_tests_are_locked_to_the_same_versions(repository: Path) -> None:
    def versions(name: str) -> dict[str, str]:
        lines = (repository / name).read_text().splitlines()
        return dict(line.rstrip(" \\").split("==") for line in lines if "==" in line and line[:1].isalnum())

    runtime, dev = versions("requirements.lock"), versions("requirements-dev.lock")
    assert runtime.items() <= dev.items()
    assert "setuptools" in runtime  # the editable install builds without isolation, so that it needs no network


@pytest.mark.parametrize("name", ["system-packages.sh", "setup.sh"])
@pytest.mark.parametrize("word", ["ensurepip", "version_info"])
def test_ctrl_c_is_one_line_and_never_a_wrong_reason(machine: Path, repository: Path, name: str, word: str) -> None:
    """It comes, to all of the terminal's programs, while a Python of the set-up runs."""
    for tool in ("dirname", "mkdir", "cat", "sha256sum", "grep", "rm", "sleep"):
        (machine / tool).symlink_to(shutil.which(tool) or "")
    (machine / "python3").unlink()
    body = f'case "$*" in *{word}*) kill -INT 0; sleep 0.1;; esac\nexec {shlex.quote(sys.executable)} "$@"'
    script(machine / "python3", body)
    copy = machine.parent / "copy" / "scripts"
    copy.mkdir(parents=True)
    for each in ("system-packages.sh", "setup.sh"):
        shutil.copy(repository / "scripts" / each, copy)
    done = subprocess.run(
        [str(machine / "bash"), str(copy / name)],
        env={"PATH": str(machine)},
        capture_output=True,
        text=True,
        timeout=60,
        start_new_session=True,
    )
    assert done.returncode == 130
    assert done.stderr == ("set-up: interrupted\n" if name == "setup.sh" else "")
    assert not (copy.parent / ".venv").exists()


def test_ctrl_c_ends_what_takes_long(machine: Path, repository: Path) -> None:
    """A Python that would outlast the test makes the environment, and does not hear of Ctrl-C."""
    for tool in ("dirname", "mkdir", "cat", "sha256sum", "grep", "rm", "sleep"):
        (machine / tool).symlink_to(shutil.which(tool) or "")
    (machine / "python3").unlink()
    body = f'case "$*" in *venv?.venv*) kill -INT 0; exec sleep 600;; esac\nexec {shlex.quote(sys.executable)} "$@"'
    script(machine / "python3", body)
    copy = machine.parent / "copy" / "scripts"
    copy.mkdir(parents=True)
    for each in ("system-packages.sh", "setup.sh"):
        shutil.copy(repository / "scripts" / each, copy)
    for each in ("requirements.lock", "pyproject.toml"):
        shutil.copy(repository / each, copy.parent)
    command = [str(machine / "bash"), str(copy / "setup.sh")]
    env = {"PATH": str(machine)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, start_new_session=True)
    assert (done.returncode, done.stderr) == (130, "making .venv ...\nset-up: interrupted\n")
