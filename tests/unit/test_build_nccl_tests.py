"""`build nccl-tests` from a small stand-in repository, with the real make, git and g++."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from harness.build import NcclTestsBuild, build_nccl_tests
from harness.errors import BuildError, R2ccError, SourceError, UsageError
from harness.progress import silent
from harness.repo import Layout
from tests.conftest import cuda_toolkit, git

pytestmark = pytest.mark.build

MAKEFILE = """\
all: $(BUILDDIR)/all_reduce_perf $(BUILDDIR)/sendrecv_perf
$(BUILDDIR)/%_perf: src/%.cc $(NCCL_HOME)/include/nccl.h
	@echo Compiling $<
	@mkdir -p $(@D)
	g++ -DFLAGS='"$(NVCC_GENCODE) MPI=$(MPI) $(MPI_HOME) $(CUDA_HOME)"' -I$(NCCL_HOME)/include -o $@ $<
"""
PROGRAM = '#include <cstdio>\n#include "nccl.h"\nint main() { puts(FLAGS); return NCCL; }\n'


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A checkout where NCCL was built, and a toolkit."""
    kit = tmp_path / "cuda"
    cuda_toolkit(kit)
    (kit / "bin").mkdir()
    (kit / "bin" / "nvcc").touch()
    monkeypatch.setenv("CUDA_HOME", str(kit))
    made = Layout(tmp_path / "checkout")
    (made.nccl / "include").mkdir(parents=True)
    (made.nccl / "include" / "nccl.h").write_text("#define NCCL 0\n")
    (made.nccl / "build.json").write_text(json.dumps({"build_id": "one", "inputs": {"arch": ["sm_80", "sm_90"]}}))
    return made


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    folder = tmp_path / "up stream"
    (folder / "src").mkdir(parents=True)
    (folder / "Makefile").write_text(MAKEFILE)
    for name in ("all_reduce", "sendrecv"):
        (folder / "src" / f"{name}.cc").write_text(PROGRAM)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "first")
    git(folder, "tag", "v1")
    return folder


def built(layout: Layout, source: Path | str, ref: str | None = None, mpi: Path | None = None) -> NcclTestsBuild:
    return build_nccl_tests(str(source), ref, silent, mpi=mpi, layout=layout)


def said(made: NcclTestsBuild) -> str:
    return subprocess.run([made.folder / "bin" / "all_reduce_perf"], capture_output=True, text=True, check=True).stdout


def test_a_repository_is_built_for_the_nccl_that_is_there(layout: Layout, upstream: Path, tmp_path: Path) -> None:
    made = built(layout, upstream)
    assert made.rebuilt and made.programs == ["all_reduce_perf", "sendrecv_perf"]
    assert made.tree == git(upstream, "rev-parse", "HEAD^{tree}")
    flags = "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90"
    assert said(made) == f"{flags} MPI=0  {tmp_path / 'cuda'}\n"
    assert not built(layout, upstream).rebuilt
    (made.folder / "bin" / "sendrecv_perf").unlink()
    assert built(layout, upstream).rebuilt
    (layout.nccl / "build.json").write_text(json.dumps({"build_id": "two", "inputs": {"arch": ["all"]}}))
    assert said(built(layout, upstream)).startswith(" MPI=0"), "another NCCL: all of it again"


def test_folders_archives_urls_and_tags_give_the_same(layout: Layout, upstream: Path, tmp_path: Path) -> None:
    trees = {built(layout, upstream).tree}
    archive = tmp_path / "nccl-tests.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name in ("Makefile", "src"):
            tar.add(upstream / name, f"nccl-tests-1/{name}")
    plain = tmp_path / "plain"
    subprocess.run(["cp", "-r", str(upstream), str(plain)], check=True)
    subprocess.run(["rm", "-rf", str(plain / ".git")], check=True)
    for source in (archive, plain, upstream.as_uri()):
        again = built(layout, source)
        assert not again.rebuilt, "the same source from elsewhere"
        trees.add(again.tree)
    assert len(trees) == 1
    (upstream / "src" / "sendrecv.cc").write_text(PROGRAM + "// more\n")
    git(upstream, "commit", "--quiet", "-am", "second")
    assert built(layout, upstream).tree not in trees
    assert built(layout, upstream, "v1").tree in trees


def test_with_mpi(layout: Layout, upstream: Path, tmp_path: Path) -> None:
    home = tmp_path / "openmpi"
    (home / "include").mkdir(parents=True)
    with pytest.raises(UsageError, match="no MPI in"):
        built(layout, upstream, mpi=home)
    (home / "include" / "mpi.h").touch()
    assert f"MPI=1 {home} " in said(built(layout, upstream, mpi=home))


def test_what_cannot_be_built_is_told(layout: Layout, upstream: Path, tmp_path: Path) -> None:
    def refused(kind: type[R2ccError], match: str, source: Path | str, ref: str | None = None) -> None:
        with pytest.raises(kind, match=match):
            built(layout, source, ref)
        assert not (layout.nccl.with_name("nccl-tests") / "build.json").exists()

    refused(SourceError, "does not exist", tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    refused(SourceError, "holds no nccl-tests", tmp_path / "empty")
    (tmp_path / "text").write_text("no archive")
    refused(SourceError, "no readable tar archive", tmp_path / "text")
    refused(UsageError, "is no git repository", tmp_path / "text", "v1")
    refused(SourceError, "nothing-there", upstream, "nothing-there")
    (upstream / "src" / "all_reduce.cc").write_text("int main() { return undefined_name; }\n")
    git(upstream, "commit", "--quiet", "-am", "broken")
    refused(BuildError, "undefined_name", upstream)
    (upstream / "Makefile").write_text("all:\n\t@true\n")
    git(upstream, "commit", "--quiet", "-am", "nothing made")
    refused(BuildError, "made no .*all_reduce_perf", upstream)
    (layout.nccl / "build.json").unlink()
    refused(UsageError, "no NCCL in", upstream)
