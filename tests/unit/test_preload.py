"""Libraries under a program, wherever they lie: a folder's name may have spaces, quotes and other letters in it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from chaos.testbed.hostbench import HostBench
from harness.errors import UsageError
from harness.launch import preload
from harness.launch.job import Job
from harness.programs.adapters import r2cc_env

FOLDERS = ("plain", "with a space", 'it\'s "ünï" $HOME `x`', "a  b;", "tab\there", "new\nline")
SHOW = ("sh", "-c", "echo ${LD_LIBRARY_PATH-none}; exec env | grep -c GREETED=")
SOURCE = '#include <stdlib.h>\n__attribute__((constructor)) static void greet(void) { setenv("GREETED", "1", 1); }\n'
SPACED = [folder for folder in FOLDERS if folder != "a  b;"]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    (folder / "greet.c").write_text(SOURCE)
    subprocess.run(["g++", "-xc", "-shared", "-fPIC", "-o", "libgreet.so", "greet.c"], cwd=folder, check=True)
    return folder / "libgreet.so"


def placed(library: Path, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    there = folder / library.name
    if not there.exists():
        there.hardlink_to(library)
    return there


def greeted(argv: list[str] | tuple[str, ...], env: dict[str, str]) -> tuple[str, str, str]:
    done = subprocess.run(argv, env={"PATH": os.environ["PATH"], **env}, capture_output=True, text=True, check=False)
    folders, count = done.stdout.rsplit("\n", 2)[:2]
    return folders, count, done.stderr


@pytest.mark.parametrize("name", SPACED)
def test_the_environment_puts_it_there(tmp_path: Path, library: Path, name: str) -> None:
    there = placed(library, tmp_path / name)
    folders, count, errors = greeted(SHOW, preload.variables([there], {"LD_LIBRARY_PATH": "/kept"}))
    assert (count, errors) == ("1", "")
    assert folders in ("none", f"{there.parent}:/kept")
    assert greeted(SHOW, r2cc_env(there, 2, {}))[1:] == ("1", "")
    bench = HostBench(there.with_name("r2cc_bench"), there, there, {"LD_LIBRARY_PATH": "/kept"})
    assert greeted(SHOW, bench.preloaded([there]))[1:] == ("1", "")


@pytest.mark.parametrize("name", SPACED)
@pytest.mark.parametrize("unset", [(), ("OTHER",)])
def test_the_command_puts_it_there(tmp_path: Path, library: Path, name: str, unset: tuple[str, ...]) -> None:
    there = placed(library, tmp_path / name)
    job = Job(SHOW, {"h0": 2}, "h0:1", preload=str(there), unset=unset, told=())
    folders, count, errors = greeted(job.bare(), {"LD_LIBRARY_PATH": "/kept"})
    assert (count, errors) == ("1", "")
    assert folders.endswith("/kept")


def test_two_libraries_and_what_was_there_before(tmp_path: Path, library: Path) -> None:
    one, two = (placed(library, tmp_path / name) for name in ("plain", "a b"))
    assert preload.variables([one, two], {"LD_PRELOAD": "/x.so"}) == {
        "LD_PRELOAD": f"{one}:{two.name}:/x.so",
        "LD_LIBRARY_PATH": str(two.parent),
    }


@pytest.mark.parametrize("path", ["/a:b/lib.so", "/a b;c/lib.so"])
def test_what_cannot_be_said_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="cannot be preloaded"):
        preload.words(Path(path))
