"""Parts of the build that need no compiler."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.build.cuda import cuda_include, pip_command, toolkit_include
from harness.build.inputs import Inputs
from harness.build.make import compilations, errors_of, make_arguments
from harness.errors import BuildError
from harness.progress import silent
from harness.repo import Layout
from tests.conftest import cuda_toolkit as toolkit


def test_the_environments_toolkit_goes_first_then_the_newest(tmp_path: Path) -> None:
    prefix = tmp_path / "local"
    assert toolkit_include({}, prefix) is None
    old, new = toolkit(prefix / "cuda-12.9"), toolkit(prefix / "cuda-13.10")
    toolkit(prefix / "cuda-13.2")
    assert toolkit_include({}, prefix) == new
    default = toolkit(prefix / "cuda")
    assert toolkit_include({}, prefix) == default
    assert toolkit_include({"CUDA_PATH": str(old.parent)}, prefix) == old
    assert toolkit_include({"CUDA_PATH": str(old.parent), "CUDA_HOME": str(new.parent)}, prefix) == new


def test_an_incomplete_toolkit_is_passed_over(tmp_path: Path) -> None:
    """A runtime package alone installs some headers, not all that g++ needs."""
    prefix = tmp_path / "local"
    (toolkit(prefix / "cuda-13.2") / "crt" / "host_config.h").unlink()
    complete = toolkit(prefix / "cuda-13.0")
    assert toolkit_include({}, prefix) == complete


def test_wheels_are_used_from_the_cache_without_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.build.cuda.toolkit_include", lambda _env: None)
    monkeypatch.setattr("harness.build.cuda.run_bounded", lambda *_a, **_k: pytest.fail("pip was started"))
    cached = toolkit(tmp_path / ".cache" / "cuda-headers" / "nvidia" / "cu13")
    assert cuda_include(Layout(tmp_path), silent) == cached


def test_wheels_that_cannot_be_had_are_one_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real pip; a lock that names a package which is nowhere, and no index."""
    monkeypatch.setattr("harness.build.cuda.toolkit_include", lambda _env: None)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    layout = Layout(tmp_path)
    layout.cuda_lock.write_text("nowhere-to-be-found==1.0 --hash=sha256:" + "0" * 64 + "\n")
    with pytest.raises(BuildError, match="CUDA_HOME") as caught:
        cuda_include(layout, silent)
    assert "nowhere-to-be-found" in caught.value.message
    assert not list((tmp_path / ".cache").glob("cuda-headers*"))


def test_pip_installs_only_what_the_lock_allows(tmp_path: Path) -> None:
    command = pip_command(tmp_path / "to", tmp_path / "lock")
    assert {"--require-hashes", "--no-deps", "--target"} <= set(command)
    assert command[-2:] == ["-r", str(tmp_path / "lock")]


def test_make_is_handed_no_space_wherever_the_checkout_lies(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "a checkout" / "of mine")
    layout.native.mkdir(parents=True)
    inside = layout.cache / "cuda-headers" / "nvidia" / "cu13" / "include"
    assert make_arguments(layout, inside) == [
        "NCCL_TREE=../nccl_fork/tree",
        "CUDA_INC=../.cache/cuda-headers/nvidia/cu13/include",
        "BUILD=../build/net",
    ]
    outside = tmp_path / "tool kit" / "include"
    assert make_arguments(layout, outside)[1] == "CUDA_INC=../.cache/cuda-include"
    assert (layout.cache / "cuda-include").readlink() == outside
    assert make_arguments(layout, Path("/usr/local/cuda/include"))[1] == "CUDA_INC=/usr/local/cuda/include"


def test_the_build_id_does_not_depend_on_where_cuda_lies() -> None:
    def inputs(**changes: object) -> Inputs:
        facts: dict[str, object] = {
            "nccl_version": "1",
            "nccl_tree": "t",
            "patches": ["p"],
            "edited": False,
            "sources": {"src": "s"},
            "compiler": "g++ 12",
            "cuda_include": "/usr/local/cuda/include",
            "cuda_version": "13000",
            "flags": {},
        }
        return Inputs(**{**facts, **changes})  # type: ignore[arg-type]

    assert re.fullmatch("[0-9a-f]{16}", inputs().build_id)
    assert inputs(cuda_include="/elsewhere").build_id == inputs().build_id
    others = [
        inputs(cuda_version="13010"),
        inputs(nccl_tree="u"),
        inputs(compiler="g++ 13"),
        inputs(flags={"OPT": "x"}),
    ]
    assert len({inputs().build_id, *(other.build_id for other in others)}) == 5


def test_compilations_are_counted_and_links_are_not() -> None:
    text = "mkdir -p x\ng++ -O2 -c -o a.o a.cc\ng++ -shared -o lib.so a.o\ng++ -O2 -c -o b.o b.cc\n"
    assert compilations(text) == 2


def test_the_first_error_is_shown_not_the_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(["g++ -c a"] * 50 + ["a.cc:3:1: error: because"] + ["note"] * 100))
    assert errors_of(log).splitlines()[0] == "a.cc:3:1: error: because"
    assert len(errors_of(log).splitlines()) == 25
    log.write_text("\n".join(f"line {number}" for number in range(100)))
    assert errors_of(log).splitlines()[-1] == "line 99"


OTHERS = [f"ok   other_{number} (0 ms)" for number in range(50)]


def shown(tmp_path: Path, *lines: str) -> list[str]:
    (tmp_path / "log").write_text(
        "\n".join([*OTHERS, *lines, *OTHERS, "failed: a", "102 tests, 1 failed", "make: Error"])
    )
    return errors_of(tmp_path / "log").splitlines()


@pytest.mark.parametrize(
    "said",
    [
        ["R2CC_SOAK_SEED=1", "./tests/a_test.cc:3: a == b: 1 != 2", "FAIL a (3 ms)", "FAIL a (exit code 1)"],
        ["WARNING: ThreadSanitizer: data race", "    #0 f a.h:1", "ok   a (3 ms)", "at exit", "FAIL a (exit code 66)"],
        ["==7==ERROR: AddressSanitizer: heap-use-after-free", "error: said by the test", "FAIL a (signal 6)"],
    ],
)
def test_all_that_a_failed_test_said_is_shown_and_nothing_of_the_others(tmp_path: Path, said: list[str]) -> None:
    assert shown(tmp_path, *said) == [
        *said,
        "failed: a",
        "...",
        OTHERS[-1],
        "failed: a",
        "102 tests, 1 failed",
        "make: Error",
    ]


def test_of_a_test_that_said_much_the_seed_and_the_failed_checks_are_shown(tmp_path: Path) -> None:
    check = "tests/rig/play.h:3: a == b: 1 != 2"
    lines = shown(tmp_path, "SEED=1", *["noise"] * 1000, check, *["noise"] * 1000, "FAIL a (3 ms)")
    assert (lines[0], check in lines, "FAIL a (3 ms)" in lines, len(lines) < 40) == ("SEED=1", True, True, True)


def test_of_many_tests_that_failed_some_are_shown_and_all_are_named(tmp_path: Path) -> None:
    failed = [f"FAIL {name} (1 ms)" for name in "bcdefgh"]
    lines = shown(tmp_path, *failed, *[f"failed: {name}" for name in "bcdefgh"])
    assert lines[:4] == failed[:4]
    assert lines[4:12] == [f"failed: {name}" for name in "abcdefgh"]
