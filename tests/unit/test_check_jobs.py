"""The C++ tests' own runner (r2cc_patches/tests/check_jobs.h): what fails, crashes or is not there must not pass."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

HEADERS = Path(__file__).resolve().parents[2] / "r2cc_patches" / "tests"
PROGRAM = """
#include "budget.h"
#include "check_jobs.h"

#include <stdexcept>
TEST(good_one) { CHECK_EQ(1, 1); }
TEST(good_two) { std::fprintf(stderr, "said by two\\n"); CHECK(true); }
TEST(bad_check) { CHECK_EQ(1, 2); }
TEST(bad_crash) { std::abort(); }
TEST(bad_exception) { throw std::runtime_error("thrown"); }
TEST(empty) {}
TEST(part_of_it) { CHECK(r2cc::check::much(2, 1) > 0); }
TEST(part_of_time) { CHECK_EQ(r2cc::check::slowness(), r2cc::check::kSanitized ? 4 : 1); }
int main(int argc, char** argv) { return r2cc::check::runTests(argc, argv); }
"""

pytestmark = pytest.mark.build


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("check jobs"))


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As gcc compiles for ASan, without what that links."""
    return compiled(tmp_path_factory.mktemp("sanitized"), "-D__SANITIZE_ADDRESS__=1")


def compiled(folder: Path, *flags: str) -> Path:
    (folder / "program.cc").write_text(PROGRAM)
    command = ["g++", "-std=c++17", *flags, f"-I{HEADERS}", "program.cc", "-o", "program"]
    subprocess.run(command, cwd=folder, check=True, timeout=100)
    return folder / "program"


def run(program: Path, *arguments: str, whole: bool = False) -> tuple[int, str]:
    env = os.environ | ({"R2CC_TESTS": "whole"} if whole else {})
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False, env=env)
    return done.returncode, done.stderr


def test_failures_and_crashes_are_told_apart_and_named(program: Path) -> None:
    code, text = run(program, "--jobs", "2")
    assert code == 1
    assert "8 tests, 5 checks, 3 failed" in text
    assert {line for line in text.splitlines() if line.startswith("failed: ")} == {
        "failed: bad_check",
        "failed: bad_crash",
        "failed: bad_exception",
    }
    assert "FAIL bad_crash (signal 6)" in text
    assert "1 == 2: 1 != 2" in text
    assert "unexpected exception: thrown" in text


@pytest.mark.parametrize("jobs", [(), ("--jobs", "1"), ("--jobs", "4")])
def test_what_holds_passes(program: Path, jobs: tuple[str, ...]) -> None:
    code, text = run(program, *jobs, "good")
    assert (code, "2 tests, 2 checks, 0 failed" in text, "said by two" in text) == (0, True, True)


@pytest.mark.parametrize("jobs", [(), ("--jobs", "2")])
@pytest.mark.parametrize("name", ["no such test", "empty"])
def test_nothing_checked_is_a_failure(program: Path, jobs: tuple[str, ...], name: str) -> None:
    assert run(program, *jobs, name)[0] == 1


@pytest.mark.parametrize("number", ["0", "-1", "two", "2x", ""])
def test_a_number_that_is_none_is_refused(program: Path, number: str) -> None:
    code, text = run(program, "--jobs", number, "good")
    assert code == 2
    assert f"not '{number}'" in text


def test_what_a_sanitizer_saw_whole_is_left_out_elsewhere(program: Path, sanitized: Path, tmp_path: Path) -> None:
    listed = tmp_path / "list of whole"
    assert run(sanitized, "--jobs", "2", "--whole", str(listed))[0] == 1
    # not what failed, checked nothing, or ran in part
    assert sorted(listed.read_text().split()) == ["good_one", "good_two"]  # two at once: whichever ends first
    code, text = run(program, "--jobs", "2", "--but", str(listed), "part")
    assert (code, "2 tests, 2 checks, 0 failed\n" in text) == (0, True)
    code, text = run(program, "--jobs", "2", "--but", str(listed))
    assert (code, "6 tests, 3 checks, 3 failed; 2 left out, which ran whole elsewhere" in text) == (1, True)
    assert "good_one" not in text
    assert "ok   part_of_it" in text


def test_whole_tests_are_not_in_part(sanitized: Path, tmp_path: Path) -> None:
    listed = tmp_path / "whole"
    assert run(sanitized, "--jobs", "1", "--whole", str(listed), "part", whole=True)[0] == 0
    assert listed.read_text().split() == ["part_of_it"]


def test_nothing_is_left_out_without_the_list(program: Path, tmp_path: Path) -> None:
    code, text = run(program, "--jobs", "2", "--but", str(tmp_path / "none"), "good")
    assert (code, "cannot read" in text, "tests," in text) == (2, True, False)


def test_all_left_out_is_a_failure(program: Path, tmp_path: Path) -> None:
    listed = tmp_path / "whole"
    assert run(program, "--jobs", "2", "--whole", str(listed), "good")[0] == 0
    assert run(program, "--jobs", "2", "--but", str(listed), "good")[0] == 1
