"""Archives are not trusted."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import SourceError
from harness.fork.treehash import tree_hash
from harness.fork.unpack import copy_directory, pack_tar, unpack_tar

Edit = Callable[[tarfile.TarFile], None]


def add(tar: tarfile.TarFile, name: str, content: str = "x", mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    tar.addfile(info, io.BytesIO(content.encode()))


def add_special(tar: tarfile.TarFile, name: str, kind: bytes, target: str = "") -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    tar.addfile(info)


def archive(tmp_path: Path, edit: Edit, mode: str = "w:gz") -> Path:
    path = tmp_path / "source.tar.gz"
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        edit(tar)
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
@pytest.mark.parametrize("top", ["", "nccl-1.0/"])
def test_unpacks_with_and_without_a_top_folder(tmp_path: Path, target: Path, mode: str, top: str) -> None:
    def edit(tar: tarfile.TarFile) -> None:
        add(tar, f"{top}src/a.cc", "int a;")
        add(tar, f"{top}run.sh", "#!/bin/sh", 0o775)
        add_special(tar, f"{top}link", tarfile.SYMTYPE, "src/a.cc")

    unpack_tar(archive(tmp_path, edit, mode), target)
    assert (target / "src" / "a.cc").read_text() == "int a;"
    assert (target / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (target / "src" / "a.cc").stat().st_mode & 0o777 == 0o644
    assert (target / "link").readlink() == Path("src/a.cc")


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda tar: add(tar, "../evil"), id="parent"),
        pytest.param(lambda tar: add(tar, "a/../../evil"), id="parent inside"),
        pytest.param(lambda tar: add(tar, "/evil"), id="absolute"),
        pytest.param(lambda tar: add_special(tar, "a/link", tarfile.SYMTYPE, "../../evil"), id="link out"),
        pytest.param(lambda tar: add_special(tar, "a/link", tarfile.SYMTYPE, "/etc/passwd"), id="absolute link"),
        pytest.param(lambda tar: add_special(tar, "a/hard", tarfile.LNKTYPE, "a/b"), id="hard link"),
        pytest.param(lambda tar: add_special(tar, "a/device", tarfile.CHRTYPE), id="device"),
        pytest.param(lambda tar: add_special(tar, "a/pipe", tarfile.FIFOTYPE), id="pipe"),
    ],
)
def test_refuses_what_leaves_the_target_or_is_no_file(tmp_path: Path, target: Path, edit: Edit) -> None:
    with pytest.raises(SourceError, match="holds"):
        unpack_tar(archive(tmp_path, edit), target)
    assert not (tmp_path / "evil").exists()


def test_writes_nothing_through_a_link(tmp_path: Path, target: Path) -> None:
    """A link first, then a file "inside" it: the link must not decide where the file goes."""

    def edit(tar: tarfile.TarFile) -> None:
        add_special(tar, "top/link", tarfile.SYMTYPE, "elsewhere")
        add(tar, "top/elsewhere/kept", "kept")
        add(tar, "top/link/file", "through")

    with pytest.raises(OSError, match="exists"):
        unpack_tar(archive(tmp_path, edit), target)
    assert not (target / "elsewhere" / "file").exists()


def test_a_truncated_or_foreign_file_is_a_clear_error(tmp_path: Path, target: Path) -> None:
    whole = archive(tmp_path, lambda tar: add(tar, "a/b", "z" * 100_000)).read_bytes()
    for content in (whole[: len(whole) // 2], b"no archive at all", b""):
        (tmp_path / "broken").write_bytes(content)
        with pytest.raises(SourceError, match="no readable tar archive"):
            unpack_tar(tmp_path / "broken", target)


def test_a_packed_tree_unpacks_to_the_same_hash(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "source"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "deep" / "er" / "file").write_text("content")
    (source / "run").write_text("#!")
    (source / "run").chmod(0o755)
    (source / "link").symlink_to("deep")
    pack_tar(source, tmp_path / "cache" / "tree.tar")
    unpack_tar(tmp_path / "cache" / "tree.tar", target)
    assert tree_hash(target) == tree_hash(source)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["tree.tar"]


def test_a_copy_of_a_read_only_directory_can_be_changed_and_removed(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "source"
    (source / "sub" / ".git").mkdir(parents=True)
    (source / "sub" / "file").write_text("x")
    (source / "sub" / "file").chmod(0o444)
    (source / "sub").chmod(0o555)
    source.chmod(0o555)
    copy_directory(source, target)
    assert target.stat().st_mode & 0o777 == 0o755
    assert (target / "sub").stat().st_mode & 0o777 == 0o755
    assert (target / "sub" / "file").stat().st_mode & 0o777 == 0o644
    assert not (target / "sub" / ".git").exists()
    (source / "sub").chmod(0o755)
    source.chmod(0o755)
