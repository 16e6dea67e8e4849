"""Communicators' life, against a library that stands in for NCCL; and our view of NCCL against its header."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from torch_python import RankRun, needs_torch, run_ranks

from harness.workloads import nccl_api

DOUBLE = Path(__file__).with_name("nccl_double.cc")
TREE = Path(__file__).parents[2] / "nccl_fork" / "tree"
HEADER = TREE / "src" / "nccl.h.in"
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ makes the library that stands in for NCCL")
CASES = ["destroy", "abort", "abort_one", "split", "shrink", "many", "group", "nonblocking"]
ENDS = {"destroyed", "aborted"}
Env = pytest.MonkeyPatch


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("double") / "libfake.so"
    words = ["g++", "-std=c++17", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", library, DOUBLE]
    subprocess.run(words, check=True, timeout=60)
    return library


def pass_over(
    double: Path, folder: Path, monkeypatch: Env, *words: str, ranks: int = 2, settings: dict[str, str], **spec: Any
) -> list[RankRun]:
    """One job; `settings` are the double's, without their prefix."""
    monkeypatch.setenv("FAKE_NCCL_DIR", str(folder))
    for name, value in ({"PATIENCE_MS": "1500"} | settings).items():
        monkeypatch.setenv(f"FAKE_NCCL_{name}", value)
    return run_ranks(
        "lifecycle", ranks, "--warmup", "0", *words, spec={"library": str(double), "bytes": 4096, "comms": 3, **spec}
    )


def told(folder: Path) -> list[tuple[str, str]]:
    """(communicator and rank, what became of it), in order."""
    lines = (folder / "log").read_text().splitlines()
    return [(" ".join(line.split()[:2]), line.split(maxsplit=2)[2]) for line in lines]


def endings(folder: Path) -> dict[str, list[str]]:
    """How often each communicator of each rank was ended, and how."""
    events = told(folder)
    return {who: [what for other, what in events if other == who and what in ENDS] for who, _what in events}


@needs_torch
@needs_compiler
def test_all_cases_are_exact_and_end_every_communicator_once(double: Path, tmp_path: Path, monkeypatch: Env) -> None:
    runs = pass_over(double, tmp_path, monkeypatch, "--iterations", "2", settings={}, cases=CASES)
    assert [run.exit_code for run in runs] == [0, 0], runs
    for run in runs:
        for line in run.of("iteration"):
            assert list(line["cases_ms"]) == CASES
            assert "wrong" not in line
            assert line["nccl"] == 22907
            assert all(line[key] > 0 for key in ("open_fds", "threads", "rss_bytes"))
    assert all(len(how) == 1 for how in endings(tmp_path).values()), endings(tmp_path)
    events = [what for _who, what in told(tmp_path)]
    assert [events.count("shrunk"), events.count("shrunk with work under way")] == [1, 1], "by turns"


@needs_torch
@needs_compiler
def test_three_ranks_split_and_shrink(double: Path, tmp_path: Path, monkeypatch: Env) -> None:
    cases = ["split", "shrink", "group"]
    runs = pass_over(double, tmp_path, monkeypatch, "--iterations", "2", settings={}, ranks=3, cases=cases)
    assert [run.exit_code for run in runs] == [0, 0, 0], runs
    assert all(len(how) == 1 for how in endings(tmp_path).values()), endings(tmp_path)
    children = {who.split()[0] for who, _what in told(tmp_path) if "s0c" in who or "s1c" in who}
    assert len(children) == 2 * 3, "two by parity and one of all, twice"


@needs_torch
@needs_compiler
def test_processes_end_without_a_word(double: Path, tmp_path: Path, monkeypatch: Env) -> None:
    settings = {"LATE": "ncclAllReduce:1"}  # rank 1 has its result before rank 0 has what it takes for one
    runs = pass_over(double, tmp_path, monkeypatch, "--iterations", "1", settings=settings, cases=["exit"])
    assert [run.exit_code for run in runs] == [0, 0], runs
    assert endings(tmp_path) == {who: [] for who, _what in told(tmp_path)}, "made and left"
    assert len(endings(tmp_path)) == 2


@needs_torch
@needs_compiler
def test_a_child_that_fails_is_told_with_its_words(double: Path, tmp_path: Path, monkeypatch: Env) -> None:
    settings = {"FAIL": "ncclCommInitRankConfig"}
    words = ("--iterations", "1", "--timeout-s", "45")
    runs = pass_over(double, tmp_path, monkeypatch, *words, settings=settings, cases=["exit"], limit_s=40)
    for run in runs:
        assert run.exit_code == 3
        assert "exit: exit code 3" in run.of("error")[0]["message"]
        assert "a made-up system error" in run.stderr


@needs_torch
@needs_compiler
def test_a_wrong_element_is_counted_where_it_is(double: Path, tmp_path: Path, monkeypatch: Env) -> None:
    settings = {"WRONG": "ncclAllReduce:1"}
    cases = ["destroy", "many", "group"]
    runs = pass_over(double, tmp_path, monkeypatch, "--iterations", "1", settings=settings, cases=cases)
    assert [run.exit_code for run in runs] == [0, 1], runs
    assert runs[1].of("iteration")[0]["wrong"] == {"destroy": 1, "many": 9, "group": 3}
    assert runs[1].of("iteration")[0]["wrong_elements"] == 13


@needs_torch
@needs_compiler
def test_the_check_finds_an_element_that_was_changed(double: Path, tmp_path: Path, monkeypatch: Env) -> None:
    words = ("--iterations", "2", "--corrupt", "0:1")
    runs = pass_over(double, tmp_path, monkeypatch, *words, settings={}, cases=["destroy", "split"])
    assert [run.exit_code for run in runs] == [1, 0], runs
    assert [line.get("wrong") for line in runs[0].of("iteration")] == [None, {"destroy": 1}]


@needs_torch
@needs_compiler
@pytest.mark.parametrize("call,case", [("ncclCommAbort", "abort"), ("ncclCommInitRankConfig", "nonblocking")])
def test_a_call_that_never_returns_ends_the_rank(
    double: Path, tmp_path: Path, monkeypatch: Env, call: str, case: str
) -> None:
    words = ("--iterations", "1", "--timeout-s", "4")
    settings = {"HANG": f"{call}:1"}
    runs = pass_over(double, tmp_path, monkeypatch, *words, settings=settings, cases=[case], limit_s=2)
    assert [run.exit_code for run in runs] == [3, 3], runs
    assert f"{case} has not come to its end in 2 s" in runs[1].of("error")[0]["message"]
    assert not runs[1].of("bench_end")


@needs_torch
@needs_compiler
def test_an_error_nobody_expects_is_named(double: Path, tmp_path: Path, monkeypatch: Env) -> None:
    words = ("--iterations", "1", "--timeout-s", "4")
    settings = {"FAIL": "ncclCommSplit:1"}
    runs = pass_over(double, tmp_path, monkeypatch, *words, settings=settings, cases=["split"], limit_s=2)
    assert [run.exit_code for run in runs] == [3, 3], runs
    assert "split: ncclCommSplit: a made-up system error (2)" in runs[1].of("error")[0]["message"]
    assert "split has not come to its end" in runs[0].of("error")[0]["message"], "it waits for its peer"


@needs_torch
@needs_compiler
def test_files_that_stay_open_are_a_leak(double: Path, tmp_path: Path, monkeypatch: Env) -> None:
    # 40 are left behind by each pass; a few of torch's own come and go.
    settings = {"LEAK": "40"}
    runs = pass_over(double, tmp_path, monkeypatch, "--iterations", "3", settings=settings, cases=["destroy"])
    for run in runs:
        lines = run.of("iteration")
        assert [line["wrong_elements"] for line in lines] == [0]
        told = re.search(r"a leak: open_fds is (\d+); after the first pass it was (\d+)", run.of("error")[0]["message"])
        assert told and int(told[2]) == lines[0]["open_fds"]
        assert abs(int(told[1]) - int(told[2]) - 40) <= 8
        assert run.exit_code == 3


@needs_torch
@needs_compiler
def test_a_few_files_may_come_and_go(double: Path, tmp_path: Path, monkeypatch: Env) -> None:
    settings = {"LEAK": "1"}
    runs = pass_over(double, tmp_path, monkeypatch, "--iterations", "3", settings=settings, cases=["destroy"])
    for run in runs:
        assert run.exit_code == 0, run
        assert [line["wrong_elements"] for line in run.of("iteration")] == [0, 0, 0]


@needs_torch
@pytest.mark.parametrize(
    "spec,ranks,words",
    [
        ({"library": "/nowhere/libnccl.so.2"}, 2, "no NCCL to call: /nowhere"),
        ({"library": "libm.so.6"}, 2, "libm.so.6 has no ncclGetVersion, "),
        ({"cases": ["destroy", "explode"], "library": None}, 2, "no NCCL to call|no case explode"),
        ({}, 1, "one rank has nobody to leave"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(spec: dict[str, Any], ranks: int, words: str) -> None:
    for run in run_ranks("lifecycle", ranks, spec=spec):
        assert run.exit_code == 2, run
        (line,) = run.stderr.splitlines()
        assert re.search(f"lifecycle: ({words})", line)


@needs_torch
@needs_compiler
def test_a_case_that_there_is_not_is_named(double: Path, tmp_path: Path, monkeypatch: Env) -> None:
    for run in pass_over(double, tmp_path, monkeypatch, settings={}, cases=["destroy", "explode"]):
        assert run.exit_code == 2
        assert run.stderr.startswith("lifecycle: no case explode; there are destroy, ")


# ---- NCCL's header ------------------------------------------------------------------------------------------------

RUNTIME = "#pragma once\n#include <stddef.h>\n#define CUDART_VERSION 0\ntypedef struct CUstream_st* cudaStream_t;\n"
CUDA = {"cuda_runtime.h": RUNTIME, "cuda_fp16.h": ""}
INCLUDES = "#include <nccl.h>\n#include <cstddef>\n#include <cstdio>\n#include <type_traits>\n"
SIGNATURES = """
using R = ncclResult_t; using C = ncclComm_t; using V = void; using S = cudaStream_t; using Z = size_t;
#define IS(name, ...) static_assert(std::is_same<decltype(&name), __VA_ARGS__>::value, #name)
IS(ncclGetVersion, R (*)(int*));
IS(ncclGetErrorString, const char* (*)(R));
IS(ncclGetLastError, const char* (*)(C));
IS(ncclGetUniqueId, R (*)(ncclUniqueId*));
IS(ncclCommInitRankConfig, R (*)(C*, int, ncclUniqueId, int, ncclConfig_t*));
IS(ncclCommSplit, R (*)(C, int, int, C*, ncclConfig_t*));
IS(ncclCommShrink, R (*)(C, int*, int, C*, ncclConfig_t*, int));
IS(ncclCommFinalize, R (*)(C)); IS(ncclCommDestroy, R (*)(C)); IS(ncclCommAbort, R (*)(C));
IS(ncclCommGetAsyncError, R (*)(C, R*));
IS(ncclGroupStart, R (*)()); IS(ncclGroupEnd, R (*)());
IS(ncclAllReduce, R (*)(const V*, V*, Z, ncclDataType_t, ncclRedOp_t, C, S));
IS(ncclSend, R (*)(const V*, Z, ncclDataType_t, int, C, S));
IS(ncclRecv, R (*)(V*, Z, ncclDataType_t, int, C, S));
static_assert(sizeof(ncclDataType_t) == 4 && sizeof(ncclRedOp_t) == 4 && sizeof(R) == 4, "passed as int");
"""
CONSTANTS = {
    "ncclSuccess": nccl_api.SUCCESS,
    "ncclInProgress": nccl_api.IN_PROGRESS,
    "ncclFloat32": nccl_api.FLOAT32,
    "ncclSum": nccl_api.SUM,
    "NCCL_SHRINK_DEFAULT": nccl_api.SHRINK_DEFAULT,
    "NCCL_SHRINK_ABORT": nccl_api.SHRINK_ABORT,
    "NCCL_API_MAGIC": nccl_api.MAGIC,
    "NCCL_CONFIG_UNDEF_INT": nccl_api.UNDEFINED,
    "sizeof(ncclUniqueId)": ctypes.sizeof(nccl_api.UniqueId),
    "sizeof(ncclConfig_t)": ctypes.sizeof(nccl_api.Config),
}


def header(folder: Path) -> None:
    """NCCL's, as its Makefile would fill it in; CUDA's are as small as will do."""
    numbers = dict(
        re.findall(r"^NCCL_(MAJOR|MINOR|PATCH) *:= *(\d+)", (TREE / "makefiles/version.mk").read_text(), re.M)
    )
    major, minor, patch = (int(numbers[name]) for name in ("MAJOR", "MINOR", "PATCH"))
    filled = {
        "Major": major,
        "Minor": minor,
        "Patch": patch,
        "Suffix": "",
        "Version": major * 10000 + minor * 100 + patch,
    }
    text = HEADER.read_text()
    for name, value in filled.items():
        text = text.replace(f"${{nccl:{name}}}", str(value))
    for name, content in {**CUDA, "nccl.h": text}.items():
        (folder / name).write_text(content)


@pytest.mark.skipif(not HEADER.exists(), reason="no NCCL here (r2cc fork fetch && r2cc fork patch)")
@needs_compiler
def test_the_binding_is_what_the_header_says(tmp_path: Path) -> None:
    header(tmp_path)
    fields = [field[0] for field in nccl_api.Config._fields_]
    values = {
        **{name: name for name in CONSTANTS},
        **{f"at {name}": f"offsetof(ncclConfig_t, {name})" for name in fields},
    }
    shown = "\n".join(
        f'  std::printf("%s\\"{name}\\": %lld", "{"{" if not at else ", "}", static_cast<long long>({value}));'
        for at, (name, value) in enumerate(values.items())
    )
    main = f"{INCLUDES}{SIGNATURES}\nint main() {{\n"
    (tmp_path / "show.cc").write_text(
        main + shown + "\n  ncclConfig_t usual = NCCL_CONFIG_INITIALIZER;\n"
        '  std::FILE* file = std::fopen("usual", "wb");\n'
        "  std::fwrite(&usual, sizeof(usual), 1, file);\n  std::fclose(file);\n"
        '  std::printf(", \\"version\\": %d}\\n", NCCL_VERSION_CODE);\n}\n'
    )
    subprocess.run(["g++", "-std=c++17", "-I.", "-o", "show", "show.cc"], cwd=tmp_path, check=True, timeout=60)
    shown_by = subprocess.run(["./show"], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=10)
    found = json.loads(shown_by.stdout)
    version = found.pop("version")
    offsets = {f"at {name}": getattr(nccl_api.Config, name).offset for name in fields}
    assert found == {**CONSTANTS, **offsets}
    usual = nccl_api.config(version, blocking=True)
    usual.blocking = nccl_api.UNDEFINED
    assert bytes(usual) == (tmp_path / "usual").read_bytes(), "NCCL_CONFIG_INITIALIZER"
