"""`build net` on a checkout of a handful of files, with the real make and g++, in a folder with a space in its name."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

import pytest

from harness.build import build_net, run_target
from harness.build.inputs import compiler_version
from harness.build.make import make_arguments
from harness.errors import BuildError, UsageError
from harness.fork.pin import load_pin
from harness.fork.state import fork_status
from harness.progress import silent
from tests.conftest import TinyFork, cuda_toolkit

pytestmark = pytest.mark.build

MAKEFILE = """\
NCCL_TREE ?= none
BUILD ?= none
LIBRARIES = $(addprefix $(BUILD)/libr2cc_,net.so plan.so sim.so progress.so faults.so)
net: $(LIBRARIES) $(BUILD)/r2cc_bench $(BUILD)/r2cc_sampler
$(BUILD)/obj/%.o: src/%.cc $(NCCL_TREE)/src/other.cc $(CUDA_INC)/cuda_runtime.h
	@mkdir -p "$(@D)"
	g++ -fPIC -c -o $@ $<
$(LIBRARIES): $(BUILD)/obj/net.o
	g++ -shared -o $@ $<
$(BUILD)/r2cc_%: $(BUILD)/obj/%.o
	g++ -o $@ $<
LOCKED = flock --nonblock "../.cache/locks/build.lock"
built:
	@! $(LOCKED) true
test:
	@$(LOCKED) echo all of 3 passed
built-tsan:
	@$(LOCKED) echo compiled
test-tsan:
	@echo all of 2 passed
bad-test:
	@echo expected 1, got 2; exit 1
"""


@pytest.fixture
def tiny_build(tiny_fork: TinyFork, monkeypatch: pytest.MonkeyPatch) -> TinyFork:
    """Our C++ is three files; CUDA's toolkit is three empty headers."""
    source = tiny_fork.layout.native / "src"
    source.mkdir(parents=True)
    (tiny_fork.layout.native / "Makefile").write_text(MAKEFILE)
    (source / "net.cc").write_text('extern "C" int answer() { return 42; }\n')
    (source / "bench.cc").write_text("int main() { return 0; }\n")
    (source / "sampler.cc").write_text("int main() { return 0; }\n")
    # make cannot be handed a folder with a space; inside the checkout the path is made relative, so keep it outside
    outside = tiny_fork.upstream.parent / "cuda kit"
    (cuda_toolkit(outside) / "cuda_runtime_api.h").write_text("#define CUDART_VERSION  13000\n")
    monkeypatch.setenv("CUDA_HOME", str(outside))
    return tiny_fork


def test_builds_all_from_nothing_and_says_what_went_in(tiny_build: TinyFork) -> None:
    built = build_net(progress=silent, layout=tiny_build.layout)
    assert built.rebuilt and all(path.is_file() for path in (built.library, built.bench, built.sampler, built.planner))
    record = json.loads((tiny_build.layout.net / "build.json").read_text())
    assert record["build_id"] == built.build_id
    assert record["inputs"]["nccl_tree"] == load_pin(tiny_build.layout.pin).tree
    assert record["inputs"]["cuda_version"] == "13000"
    assert "g++" in record["inputs"]["compiler"]
    assert fork_status(tiny_build.layout, load_pin(tiny_build.layout.pin)).patched


def test_nothing_is_done_when_nothing_changed(tiny_build: TinyFork, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build_net(progress=silent, layout=tiny_build.layout)
    times = first.library.stat().st_mtime_ns
    monkeypatch.setattr("harness.build.net.run_make", lambda *_, **__: pytest.fail("make was started"))
    second = build_net(progress=silent, layout=tiny_build.layout)
    assert not second.rebuilt and second.build_id == first.build_id
    assert second.library.stat().st_mtime_ns == times


def test_every_change_of_content_makes_another_build(tiny_build: TinyFork, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our source, the fork's tree, a flag, the tools: each gives another id, and is seen."""
    ids = [build_net(progress=silent, layout=tiny_build.layout).build_id]

    def rebuilt() -> None:
        built = build_net(progress=silent, layout=tiny_build.layout)
        assert built.rebuilt
        ids.append(built.build_id)

    (tiny_build.layout.native / "src" / "net.cc").write_text('extern "C" int answer() { return 43; }\n')
    rebuilt()
    (tiny_build.tree / "src" / "other.cc").write_text("edited\n")
    rebuilt()
    monkeypatch.setenv("CXXFLAGS", "-O1")
    rebuilt()
    header = Path(os.environ["CUDA_HOME"]) / "include" / "cuda_runtime_api.h"
    header.write_text("#define CUDART_VERSION 13010\n")
    rebuilt()
    assert len(set(ids)) == len(ids)


def test_a_touched_file_with_the_same_content_changes_nothing(tiny_build: TinyFork) -> None:
    build_net(progress=silent, layout=tiny_build.layout)
    os.utime(tiny_build.layout.native / "src" / "net.cc")
    assert not build_net(progress=silent, layout=tiny_build.layout).rebuilt


def test_other_tools_compile_everything_again(tiny_build: TinyFork, monkeypatch: pytest.MonkeyPatch) -> None:
    """make would see no file that is newer."""
    build_net(progress=silent, layout=tiny_build.layout)
    before = (tiny_build.layout.net / "obj" / "net.o").stat().st_mtime_ns
    monkeypatch.setenv("CXXFLAGS", "-O1")
    build_net(progress=silent, layout=tiny_build.layout)
    assert (tiny_build.layout.net / "obj" / "net.o").stat().st_mtime_ns > before


def test_another_cpu_has_a_folder_and_tools_of_its_own(tiny_build: TinyFork) -> None:
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    layout = tiny_build.layout.for_cpu(other)
    assert layout.net == tiny_build.layout.net.with_name(f"net-{other}")
    assert layout.for_cpu(platform.machine()) == tiny_build.layout
    tools = {f"CXX={other}-linux-gnu-g++", f"OBJCOPY={other}-linux-gnu-objcopy"}
    assert tools < set(make_arguments(layout, Path("/cuda")))
    assert not any(word.startswith(("CXX", "OBJCOPY")) for word in make_arguments(tiny_build.layout, Path("/cuda")))
    with pytest.raises(UsageError, match="no build for a CPU of kind m68k"):
        layout.for_cpu("m68k")
    with pytest.raises(UsageError, match=f"test: programs for {other} do not run here"):
        run_target("test", silent, layout=layout)
    with pytest.raises(BuildError) as caught:
        compiler_version("m68k-none-g++")
    assert "apt-get install g++-m68k-none" in str(caught.value)


@pytest.mark.parametrize("damage", ["remove", "truncate"])
def test_a_damaged_output_is_made_again(tiny_build: TinyFork, damage: str) -> None:
    library = build_net(progress=silent, layout=tiny_build.layout).library
    if damage == "remove":
        library.unlink()
    else:
        library.write_bytes(library.read_bytes()[:100])
    again = build_net(progress=silent, layout=tiny_build.layout)
    assert again.rebuilt and again.library.stat().st_size > 1000


def test_what_a_killed_make_left_is_not_trusted(tiny_build: TinyFork) -> None:
    """Half an object file, newer than its source: only the marker tells."""
    library = build_net(progress=silent, layout=tiny_build.layout).library
    library.unlink()
    (tiny_build.layout.net / "obj" / "net.o").write_bytes(b"half")
    (tiny_build.layout.net / "unfinished").touch()
    assert build_net(progress=silent, layout=tiny_build.layout).library.stat().st_size > 1000
    assert not (tiny_build.layout.net / "unfinished").exists()


def test_a_compile_error_shows_what_the_compiler_said(tiny_build: TinyFork) -> None:
    (tiny_build.layout.native / "src" / "bench.cc").write_text("int main() { return undefined_name; }\n")
    with pytest.raises(BuildError) as caught:
        build_net(progress=silent, layout=tiny_build.layout)
    assert "undefined_name" in caught.value.message and "build.log" in str(caught.value)
    assert not (tiny_build.layout.net / "build.json").exists()
    (tiny_build.layout.native / "src" / "bench.cc").write_text("int main() { return 0; }\n")
    assert build_net(progress=silent, layout=tiny_build.layout).rebuilt


def test_make_that_leaves_nothing_is_an_error(tiny_build: TinyFork) -> None:
    (tiny_build.layout.native / "Makefile").write_text("net:\n\t@true\n")
    with pytest.raises(BuildError, match=r"made no .*libr2cc_net\.so"):
        build_net(progress=silent, layout=tiny_build.layout)


def test_other_targets_run_and_their_failure_is_told(tiny_build: TinyFork) -> None:
    log = run_target("test", silent, layout=tiny_build.layout)
    assert "all of 3 passed" in log.read_text()
    with pytest.raises(BuildError, match="expected 1, got 2"):
        run_target("bad-test", silent, layout=tiny_build.layout)


def test_neither_running_tests_nor_sanitizers_keep_others_from_building(tiny_build: TinyFork) -> None:
    """The lock is held while `built` compiles, and free in `test`, `built-tsan` and `test-tsan`: MAKEFILE tries."""
    assert "all of 3 passed" in run_target("test", silent, layout=tiny_build.layout).read_text()
    assert "all of 2 passed" in run_target("test-tsan", silent, layout=tiny_build.layout).read_text()


def test_flags_of_a_make_around_us_are_not_ours(tiny_build: TinyFork, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make --dry-run` or a jobserver around `r2cc` must not turn the build into something else."""
    monkeypatch.setenv("MAKEFLAGS", "n --jobserver-auth=98,99 -- BUILD=/nowhere")
    assert build_net(progress=silent, layout=tiny_build.layout).rebuilt


def test_progress_counts_files(tiny_build: TinyFork) -> None:
    from harness.progress import Step

    seen: list[str] = []

    class Recorder(Step):
        def update(self, detail: str) -> None:
            seen.append(detail)

    build_net(progress=lambda title: Recorder(title, quiet=True), layout=tiny_build.layout)
    assert seen[-1] == "3 of 3 files"
