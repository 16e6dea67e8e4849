"""`build nccl` on an NCCL of two files, with the real make and g++ and a stand-in for nvcc."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.build import NcclBuild, build_nccl
from harness.build.abi import check_loads, exports
from harness.build.kernels import COLLECTIVES, kernels
from harness.build.kernels import GENERATOR as GENERATED_BY
from harness.build.nccl import NcclInputs, checked, nccl_env, nccl_make
from harness.commands.build import nccl
from harness.errors import BuildError, UsageError
from harness.progress import silent
from harness.repo import Layout, checkout
from tests.conftest import TinyFork, cuda_toolkit

OURS = """\
NCCL_TREE ?= none
LIBRARIES = $(addprefix $(BUILD)/libr2cc_,net.so plan.so sim.so progress.so faults.so)
net: $(LIBRARIES) $(BUILD)/r2cc_bench $(BUILD)/r2cc_sampler
core: $(BUILD)/r2cc_core.o $(STAMP)
$(BUILD)/%.o: src/%.cc
	@mkdir -p "$(@D)"
	g++ -fPIC -c -o $@ $<
$(STAMP): src/stamp.cc
	g++ -fPIC -DID='"$(BUILD_ID)"' -c -o $@ $<
$(LIBRARIES): $(BUILD)/r2cc_core.o
	g++ -shared -o $@ $<
$(BUILD)/r2cc_bench $(BUILD)/r2cc_sampler: $(BUILD)/main.o
	g++ -o $@ $<
"""
NCCLS = """\
OBJ := $(BUILDDIR)/obj
LDFLAGS += -ldl
lib: $(BUILDDIR)/lib/libnccl.so.9.9.9
$(BUILDDIR)/lib/libnccl.so.9.9.9: $(OBJ)/host.o $(OBJ)/device/kernels.o
	@mkdir -p $(@D)
	g++ -shared -o $@ $^ $(LDFLAGS)
$(OBJ)/device/kernels.o: host.cc
	@echo Compiling kernels
	@mkdir -p $(@D)
	echo 'const char kernels[] = "$(NVCC_GENCODE) $(ONLY_FUNCS)";' | g++ -xc++ -fPIC -fvisibility=hidden -c -o $@ -
$(OBJ)/%.o: %.cc
	@echo Compiling $<
	@mkdir -p $(@D)
	g++ -fPIC -fvisibility=hidden -c -o $@ $<
"""
GENERATOR = """\
import re, sys
rows = ["SendRecv", "AllReduce Sum f32 RING LL", "AllReduce Sum f32 TREE LL", "Reduce Sum f32 RING LL"]
pattern = sys.argv[2].replace("*", "[^ ]*") + "$"
with open(sys.argv[1] + "/host_table.cc", "w") as table:
    for row in rows:
        table.write("/*   0*/ 1, // " + (row if re.match(pattern, row, re.I) else "Nop") + "\\n")
"""
HOST = """\
#include "core.h"
#define API extern "C" __attribute__((visibility("default")))
API int ncclGetVersion(int* version) { *version = 90909; return core() == 7 ? 0 : 1; }
API const char* ncclGetErrorString() { return stamp; }
"""


@pytest.fixture
def tiny_nccl(tiny_fork: TinyFork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TinyFork:
    kit = tmp_path / "cuda"
    cuda_toolkit(kit)
    (kit / "bin").mkdir()
    (kit / "bin" / "nvcc").write_text("#!/bin/sh\necho one; echo Build cuda_13.0\n")
    (kit / "bin" / "nvcc").chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(kit))
    root = tmp_path / "checkout"
    shutil.move(tiny_fork.layout.root, root)
    moved = TinyFork(Layout(root), tiny_fork.upstream)
    source = moved.layout.native / "src"
    source.mkdir(parents=True)
    (moved.layout.native / "Makefile").write_text(OURS)
    (source / "r2cc_core.cc").write_text('#include "core.h"\nint core() { return 7; }\n')
    (source / "core.h").write_text("int core();\nextern const char stamp[];\n")
    (source / "stamp.cc").write_text('#include "core.h"\nconst char stamp[] = ID;\n')
    (source / "main.cc").write_text("int main() { return 0; }\n")
    from harness.fork.tree import ensure

    ensure(moved.layout, None, progress=silent)
    (moved.tree / "src" / "Makefile").write_text(NCCLS)
    (moved.tree / "src" / "host.cc").write_text(HOST)
    (moved.tree / GENERATED_BY).parent.mkdir()
    (moved.tree / GENERATED_BY).write_text(GENERATOR)
    return moved


def built(tiny: TinyFork, *arch: str, funcs: str = "", stock: Path | None = None) -> NcclBuild:
    return build_nccl(arch or ["sm_90"], funcs, progress=silent, layout=tiny.layout, stock=stock)


def strings(library: Path) -> str:
    return subprocess.run(["strings", str(library)], capture_output=True, text=True, check=True).stdout


@pytest.mark.build
def test_the_library_has_our_object_in_it_and_says_which_build_it_is(tiny_nccl: TinyFork) -> None:
    made = built(tiny_nccl, funcs="AllReduce Sum f32|SendRecv")
    assert made.rebuilt and made.library == tiny_nccl.layout.nccl / "lib" / "libnccl.so.9.9.9"
    assert exports(made.library) >= {"ncclGetVersion", "ncclGetErrorString"}
    text = strings(made.library)
    assert made.build_id in text
    assert "-gencode=arch=compute_90,code=sm_90 AllReduce Sum f32|SendRecv" in text
    record = json.loads((tiny_nccl.layout.nccl / "build.json").read_text())
    assert record["inputs"]["arch"] == ["sm_90"] and record["build_id"] == made.build_id


@pytest.mark.build
def test_only_what_changed_is_compiled(tiny_nccl: TinyFork) -> None:
    objects = tiny_nccl.layout.nccl / "obj"
    first = built(tiny_nccl)
    assert not built(tiny_nccl).rebuilt
    host, kernels = (objects / "host.o").stat().st_mtime_ns, (objects / "device" / "kernels.o").stat().st_mtime_ns
    source = tiny_nccl.layout.native / "src" / "r2cc_core.cc"
    source.write_text(source.read_text() + "// another\n")  # our part: linked again, nothing of NCCL's compiled
    second = built(tiny_nccl)
    assert second.rebuilt and second.build_id != first.build_id and second.build_id in strings(second.library)
    assert (objects / "host.o").stat().st_mtime_ns == host
    third = built(tiny_nccl, "sm_90", "sm_80")  # kernels for others; the host's part stays
    assert third.build_id != second.build_id
    assert (objects / "host.o").stat().st_mtime_ns == host
    assert (objects / "device" / "kernels.o").stat().st_mtime_ns != kernels
    (tiny_nccl.layout.nccl / "unfinished").touch()  # a killed make may have left half a file
    third.library.unlink()
    assert built(tiny_nccl, "sm_90", "sm_80").rebuilt
    assert (objects / "host.o").stat().st_mtime_ns != host


@pytest.mark.build
def test_symbols_that_stock_has_and_ours_lacks_are_named(tiny_nccl: TinyFork) -> None:
    made = built(tiny_nccl)
    stock = tiny_nccl.upstream / "libnccl.so.2"
    shutil.copy(made.library, stock)
    assert not built(tiny_nccl, stock=stock).rebuilt
    host = tiny_nccl.tree / "src" / "host.cc"
    host.write_text(HOST.replace("ncclGetErrorString", "ncclGetErrorWords"))
    with pytest.raises(BuildError, match=r"(?s)missing: ncclGetErrorString.*not in stock: ncclGetErrorWords"):
        built(tiny_nccl, stock=stock)
    assert not (tiny_nccl.layout.nccl / "build.json").exists()


@pytest.mark.build
def test_a_library_that_does_not_load_is_no_success(tiny_nccl: TinyFork) -> None:
    host = tiny_nccl.tree / "src" / "host.cc"
    host.write_text(HOST + "int nowhere();\nAPI int ncclMore() { return nowhere(); }\n")
    with pytest.raises(BuildError, match=r"(?s)does not load.*nowhere"):
        built(tiny_nccl)
    host.write_text(HOST.replace("90909", "90908"))
    with pytest.raises(BuildError, match="says that it is version 90908, not 90909"):
        built(tiny_nccl)
    host.write_text(HOST.replace("core() == 7", "undefined_name"))
    with pytest.raises(BuildError, match="undefined_name"):
        built(tiny_nccl)


@pytest.mark.build
def test_what_cannot_be_is_refused_before_anything_is_built(
    tiny_nccl: TinyFork, tiny_fork: TinyFork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spaced = Layout(tmp_path / "check out")
    shutil.copytree(tiny_nccl.layout.root, spaced.root, symlinks=True)
    with pytest.raises(UsageError, match="a path with a space"):
        build_nccl(["sm_90"], progress=silent, layout=spaced)
    monkeypatch.setenv("PATH", str(tmp_path))  # no nvidia-smi
    with pytest.raises(UsageError, match="no GPU here"):
        build_nccl(progress=silent, layout=tiny_nccl.layout)
    (tmp_path / "cuda" / "bin" / "nvcc").unlink()
    with pytest.raises(BuildError, match="no nvcc beside"):
        build_nccl(["sm_90"], progress=silent, layout=tiny_nccl.layout)
    assert not tiny_nccl.layout.nccl.exists()


@pytest.mark.build
@pytest.mark.parametrize(
    ("funcs", "lost"),
    [("SendRecv|AllReduce Sum f32", "AllReduce"), ("SendRecv|(AllReduce|Reduce) Sum f32 ", "AllReduce, Reduce")],
)
def test_collectives_that_are_named_and_left_out_are_refused(tiny_nccl: TinyFork, funcs: str, lost: str) -> None:
    with pytest.raises(UsageError, match=rf"no kernel of {lost}\n"):
        built(tiny_nccl, funcs=funcs)
    assert not tiny_nccl.layout.nccl.exists()
    assert built(tiny_nccl, funcs=f"{funcs.rstrip()} * *").rebuilt


@pytest.mark.build
def test_a_list_that_matches_nothing_is_refused_and_so_is_an_empty_one(tiny_nccl: TinyFork) -> None:
    with pytest.raises(UsageError, match="no kernel of any collective"):
        built(tiny_nccl, funcs="Everything")
    (tiny_nccl.tree / GENERATED_BY).write_text("raise SystemExit('no')")
    with pytest.raises(BuildError, match="does not say which kernels `SendRecv` leaves"):
        built(tiny_nccl, funcs="SendRecv")
    done = CliRunner().invoke(nccl, ["--arch", "sm_90", "--funcs", " "])
    assert done.exit_code == 2 and "leave it out" in done.output


def test_nccls_own_generator_is_understood() -> None:
    tree = checkout().tree
    if not (tree / GENERATED_BY).is_file():
        pytest.skip("NCCL's source is not here: r2cc build net")
    assert kernels(tree, "SendRecv|AllReduce Sum f32") == {"SendRecv": 1}
    few = kernels(tree, "SendRecv|AllReduce Sum f32 RING *")
    assert few == {"SendRecv": 1, "AllReduce": 3}  # LL, LL128, SIMPLE
    assert set(kernels(tree, "")) == set(COLLECTIVES)


def test_architectures_and_functions_are_checked() -> None:
    assert checked(["sm_90", "sm_80", "sm_90"], "") == ["sm_80", "sm_90"]
    assert checked(["sm_100a"], "AllReduce Sum f32 * *|SendRecv") == ["sm_100a"]
    assert checked(["all"], "") == ["all"]
    for arch, funcs in ((["90"], ""), (["sm_90; rm"], ""), (["sm_90"], 'f32"; rm'), (["sm_90", "all"], "")):
        with pytest.raises(UsageError):
            checked(arch, funcs)


def test_the_command_for_nccls_makefiles() -> None:
    layout = Layout(Path("/repo"))
    inputs = NcclInputs("net", ["sm_80", "sm_90"], "SendRecv", "nvcc", "g++")
    words = nccl_make(layout, Path("/cuda/bin/nvcc"), inputs)
    assert words[:3] == ["make", "-C", "/repo/nccl_fork/tree/src"] and "lib" in words
    assert words[-4:] == [
        "BUILDDIR=/repo/build/nccl",
        "CUDA_HOME=/cuda",
        "NVCC_GENCODE=-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90",
        "ONLY_FUNCS=SendRecv",
    ]
    assert len(nccl_make(layout, Path("/cuda/bin/nvcc"), NcclInputs("net", ["all"], "", "nvcc", "g++"))) == 8
    env = nccl_env(layout, {"CPATH": "/more", "LDFLAGS": "-g", "HOME": "/"})
    assert env["CPATH"] == "/repo/r2cc_patches/src:/repo/r2cc_patches/nccl:/more"
    assert env["LDFLAGS"] == "/repo/build/net/r2cc_core.o /repo/build/nccl/build_id.o -g"
    assert "HOME" not in env  # what is there is there; these are added


def test_what_is_no_library_is_told(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no library")
    with pytest.raises(BuildError, match="cannot be read"):
        exports(tmp_path / "text")
    with pytest.raises(BuildError, match="does not load"):
        check_loads(tmp_path / "text", "2.29.7-1")
