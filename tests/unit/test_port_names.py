"""The compiler says what became of a private name."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from harness.errors import SourceError
from harness.port.names import LIST, compared, listed, types_of
from harness.repo import Layout

FILE = """\
#define MOST 4
struct Inner { int dev; long more[MOST]; };
namespace { struct Hidden { Inner* inner; }; }
static int use(Inner* inner, int) { return inner->dev; }
"""
NAMES = ["MOST", "Inner::dev", "Inner::more", "Hidden::inner", "use", "Inner::gone", "absent"]

needs_gcc = pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")


@needs_gcc
def test_types_are_the_compilers_and_missing_names_are_none(tmp_path: Path) -> None:
    (tmp_path / "in put.cc").write_text(FILE)
    found = types_of(NAMES, tmp_path / "in put.cc", ["-std=c++17"], tmp_path)
    assert isinstance(found, dict)
    assert [found[name] for name in NAMES[:3]] == ["int", "int", "long int [4]"]
    assert found["use"] == "int(Inner*, int)" and "Inner*" in str(found["Hidden::inner"])
    assert found["Inner::gone"] is found["absent"] is None


@needs_gcc
def test_a_file_that_does_not_compile_says_nothing_of_names(tmp_path: Path) -> None:
    (tmp_path / "a.cc").write_text("int broken( {\n")
    assert "a.cc:1: " in types_of(["MOST"], tmp_path / "a.cc", [], tmp_path)
    assert types_of(["MOST"], tmp_path / "absent.cc", [], tmp_path) == "there is no such file"


def test_names_are_compared() -> None:
    was = {"a": "int", "b": "int", "c": "int", "d": None}
    now = {"a": "int", "b": "long int", "c": None, "d": "int"}
    assert [found.outcome for found in compared("x.cc", list(was), was, now)] == ["same", "changed", "missing", "new"]
    assert {found.outcome for found in compared("x.cc", list(was), was, "broken")} == {"unknown"}


def test_the_list_names_what_our_files_use(repository: Path) -> None:
    """Each name is used in some .inc, and each of the fork's names in an .inc is listed, as itself or with a member."""
    native = Layout(repository).native
    names = listed(native / LIST)
    used = "\n".join(file.read_text() for file in (native / "src" / "inner").glob("*.inc"))
    words = set(re.findall(r"\w+", re.sub(r"//.*", "", used)))
    flat = {name for found in names.values() for name in found}
    assert [name for name in flat if name.split("::")[-1] not in words] == []
    parts = {part for name in flat for part in name.split("::")}
    private = {
        word for word in words if re.match(r"ncclIb|ncclNetSocket|NCCL_SOCKET_SEND|wrap_ibv_|NCCL_IB_|NET_IB_", word)
    }
    bare = {"ncclIbPortRecoveryClose"}  # of 2.30 alone: what is behind an #if is not asked for in both
    assert sorted(private - parts - bare) == []
    assert all(len(found) == len(set(found)) for found in names.values())


def test_a_list_without_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("  name\n")
    with pytest.raises(SourceError, match="under no file"):
        listed(tmp_path / "list")
