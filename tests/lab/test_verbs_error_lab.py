"""Verbs faults on a program that knows nothing of us, which has a stand-in for libibverbs: no adapter is needed.

Over soft-RoCE, with NCCL's own transport: tests/vm/test_vm_verbs.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.build import NetBuild, build_net
from harness.progress import silent

pytestmark = [pytest.mark.build, pytest.mark.timeout(120)]

ROOT = Path(__file__).resolve().parents[2]
STANDIN = ROOT / "r2cc_patches/tests/faults/standin"
GXX = ["g++", "-std=c++17", "-w", "-isystem", str(ROOT / "nccl_fork/tree/src/include")]
LIMIT_S = 30.0
WAYS = {"linked": [], "versioned": ["-DLOADED=1"], "plain": ["-DLOADED=2"]}
BEHIND = """
#include <dlfcn.h>
#include <sys/types.h>
extern "C" pid_t getppid() { return reinterpret_cast<pid_t (*)()>(dlsym(RTLD_NEXT, "getppid"))(); }
extern "C" pid_t getpgrp() { return reinterpret_cast<pid_t (*)()>(dlsym(RTLD_NEXT, "getpgrp"))() + 1; }
"""


@pytest.fixture(scope="module")
def net() -> NetBuild:
    return build_net(progress=silent)


@pytest.fixture(scope="module")
def built(net: NetBuild, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in, and the program in each way of finding it."""
    folder = tmp_path_factory.mktemp("standin")
    library = folder / "libibverbs.so.1"
    subprocess.run(
        [*GXX, "-shared", "-fPIC", "-Wl,-soname,libibverbs.so.1", f"-Wl,--version-script={STANDIN / 'exports.map'}",
         "-o", library, STANDIN / "ibverbs.cc"],
        check=True,
    )  # fmt: skip
    program = STANDIN / "program.cc"
    for name, more in WAYS.items():
        subprocess.run([*GXX, *more, "-o", folder / name, program, library if name == "linked" else "-ldl"], check=True)
    return folder


class Program:
    """It runs with the library under it, and a folder for rules."""

    def __init__(self, net: NetBuild, built: Path, name: str, rules: Path) -> None:
        self.rules = rules
        rules.mkdir()
        env = {"LD_LIBRARY_PATH": str(built), "LD_PRELOAD": str(net.faults), "R2CC_FAULTS": str(rules)}
        self.process = subprocess.Popen(
            [built / name], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def ask(self, word: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self._line()

    def rule(self, words: str) -> str:
        """In force; what the library answered first."""
        (self.rules / "new.").write_text(f"r2cc-faults 1\nverbs {words}\nend\n")
        (self.rules / "f0.hits").unlink(missing_ok=True)
        (self.rules / "new.").rename(self.rules / "f0")
        return self.answer("")

    def answer(self, word: str) -> str:
        """The first line of the library that begins so, once it is there."""
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            text = (self.rules / "f0.hits").read_text() if (self.rules / "f0.hits").exists() else ""
            if found := [line for line in text.splitlines(keepends=True) if line.startswith(word) and line[-1] == "\n"]:
                return found[0].rstrip("\n")
            time.sleep(0.002)
        raise AssertionError(f"no answer {word}")

    def over(self) -> None:
        (self.rules / "f0").unlink()

    def end(self) -> str:
        """What it said on stderr."""
        said = self.process.communicate(timeout=LIMIT_S)[1]
        assert self.process.returncode == 0
        return said


@pytest.fixture(params=WAYS)
def program(request: pytest.FixtureRequest, net: NetBuild, built: Path, tmp_path: Path) -> Iterator[Program]:
    made = Program(net, built, request.param, tmp_path / "rules")
    try:
        yield made
        made.end()
    finally:
        if made.process.returncode is None:
            made.process.kill()
            made.process.communicate()


def test_an_error_completion_breaks_the_queue_pair_and_is_answered(program: Program, net: NetBuild) -> None:
    assert program.ask("write") == "polled 1:0"
    assert program.rule("fake0 error status=remote_access skip=1 times=1").split()[::2] == ["seen", net.build_id]
    assert [program.ask("write") for _ in range(3)] == ["polled 2:0", "polled 3:10", "polled 4:5"]
    assert program.ask("state") == "6", "the queue pair itself is in the error state"
    word, pid, device, count, _ = program.answer("hit").split()
    assert (word, pid, device, count) == ("hit", str(program.process.pid), "fake0", "1")


def test_calls_fail_until_the_rule_is_over(program: Program) -> None:
    program.rule("fake0 fail call=create_qp errno=12")
    assert program.ask("qp") == "Cannot allocate memory"
    assert program.ask("mr") == "made"
    program.over()
    until = time.monotonic() + LIMIT_S
    while program.ask("qp") != "made":
        assert time.monotonic() < until


def test_a_post_fails(program: Program) -> None:
    program.rule("fake0 fail call=post_send errno=12 peer=10.2.0.1 times=1")
    assert [program.ask("write") for _ in range(2)] == ["Cannot allocate memory", "polled 2:0"]


def test_lost_and_doubled_completions(program: Program) -> None:
    program.rule("fake0 lost times=1")
    assert [program.ask("write") for _ in range(2)] == ["polled", "polled 2:0"]
    program.rule("fake0 duplicate times=1")
    assert [program.ask(word) for word in ("write", "poll", "poll")] == ["polled", "polled 3:0 3:0", "polled"]


def test_events_come_by_the_devices_own_descriptor(program: Program) -> None:
    program.rule("fake0 event name=port_err then=port_active")
    assert program.ask("event") == "10/1"
    program.over()
    assert program.ask("event") == "9/1"
    assert program.ask("close") == "0"


def test_a_device_that_is_not_there_is_refused_in_a_line(program: Program) -> None:
    said = program.rule("mlx5_7 lost")
    assert said.startswith(f"refused {program.process.pid} there is no RDMA device mlx5_7 here; there are ")
    assert "fake0" in said
    assert program.ask("write") == "polled 1:0"


def test_whoever_asks_for_the_next_function_gets_the_one_behind_itself(net: NetBuild, tmp_path: Path) -> None:
    """A library that is preloaded behind ours: what it looks up must not be itself."""
    behind = tmp_path / "behind.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", behind], input=BEHIND, text=True, check=True)
    env = {"LD_PRELOAD": f"{net.faults}:{behind}", "R2CC_FAULTS": str(tmp_path)}
    ask = [sys.executable, "-ISc", "import os; print(os.getppid(), os.getpgrp())"]
    done = subprocess.run(ask, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert done.stdout.split() == [str(os.getpid()), str(os.getpgrp() + 1)]
