"""What is written is whole, and where it is not written is said before; nothing else is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.files import writing
from harness.files.writing import check_writable, write_whole

LONGEST = 255
"""Bytes of a name, on Linux's file systems."""


@pytest.mark.parametrize("letter", ["x", "ж", "木"])
@pytest.mark.parametrize("over", [0, 1])
def test_a_long_name_passes_the_check_and_the_writing_or_neither(tmp_path: Path, letter: str, over: int) -> None:
    size = len(letter.encode())
    path = tmp_path / "new" / (letter * (LONGEST // size + over))
    if over:
        for each in (check_writable, lambda path: write_whole(path, "x")):
            with pytest.raises(UsageError, match="File name too long"):
                each(path)
            assert not list(tmp_path.rglob(f"*{letter}*"))
        return
    check_writable(path)
    assert list(tmp_path.iterdir()) == []
    assert write_whole(path, "x").read_text() == "x"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("name", ["x" * LONGEST, "ж" * 127, "a.json", "\udcff" * 200])
def test_a_part_s_name_is_short_in_bytes(name: str) -> None:
    assert len(os.fsencode(writing.part_of(Path("/f") / name).name)) <= LONGEST
    assert writing.part_of(Path("/f") / name).parent == Path("/f")


def test_a_check_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        check_writable(tmp_path / "a" / "b" / ("x" * 300) / "c")
    assert list(tmp_path.iterdir()) == []


def test_a_probe_that_was_left_is_in_nobody_s_way(tmp_path: Path) -> None:
    left = tmp_path / f".r2cc-{os.getpid()}"
    left.mkdir()
    (left / "of another").write_text("")
    check_writable(tmp_path / "a.json")
    check_writable(tmp_path / "new" / "a.json")
    assert list(tmp_path.iterdir()) == [left] and (left / "of another").exists()


def test_the_folder_that_is_tried_is_the_one_that_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`link/..` is the folder above what the link leads to, not the one that it lies in."""
    (tmp_path / "far" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("far/inner")
    tried, real = [], writing.tempfile.mkdtemp

    def seen(**words: object) -> str:
        tried.append(words["dir"])
        return str(real(**words))  # type: ignore[call-overload]

    monkeypatch.setattr(writing.tempfile, "mkdtemp", seen)
    check_writable(tmp_path / "link" / ".." / "a.json")
    assert tried == [tmp_path / "far"]
    write_whole(tmp_path / "link" / ".." / "a.json", "x")
    assert (tmp_path / "far" / "a.json").read_text() == "x"


@pytest.mark.parametrize("there", [True, False])
def test_through_a_link_its_file_is_written(tmp_path: Path, there: bool) -> None:
    (tmp_path / "kept").mkdir()
    if there:
        (tmp_path / "kept" / "a.json").write_text("old")
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to("kept/a.json")
    check_writable(tmp_path / "first")
    assert write_whole(tmp_path / "first", "new") == tmp_path / "first"
    assert (tmp_path / "first").is_symlink() and (tmp_path / "second").is_symlink()
    assert (tmp_path / "kept" / "a.json").read_text() == "new"
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["a.json"]


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for each in (check_writable, lambda path: write_whole(path, "x")):
        with pytest.raises(UsageError, match="Too many levels of symbolic links"):
            each(tmp_path / "loop")
    assert (tmp_path / "loop").is_symlink()


def test_a_pipe_behind_a_link_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    check_writable(tmp_path / "link")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(tmp_path / "link", "x")
    assert os.read(reader, 9) == b"x"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "link").is_symlink()


def test_standard_output_that_is_a_file_stays_that_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/stdout")
    code = """
import sys
from pathlib import Path
from harness.files.writing import check_writable, write_whole
check_writable(Path(sys.argv[1]))
write_whole(Path(sys.argv[1]), "x")
"""
    was = Path("/dev/stdout").readlink()
    for name in ("/dev/stdout", str(tmp_path / "link")):
        with (tmp_path / "out").open("w") as out:
            before = os.fstat(out.fileno()).st_ino
            subprocess.run([sys.executable, "-c", code, name], stdout=out, check=True)
        assert ((tmp_path / "out").read_text(), (tmp_path / "out").stat().st_ino) == ("x", before)
    assert Path("/dev/stdout").readlink() == was
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "out"]


SAYS = """
import sys
from pathlib import Path
from harness.files.writing import check_writable, write_whole
path = Path(sys.argv[1])
check_writable(path)
print("before")
write_whole(path, "data\\n")
print("after")
"""


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
@pytest.mark.parametrize("mode", ["w", "a"])
def test_our_own_output_keeps_what_is_printed_around_the_data(tmp_path: Path, name: str, mode: str) -> None:
    """Opened by its name it would be emptied, also what `>>` is to keep, and then written over from its beginning."""
    (tmp_path / "link").symlink_to("/dev/stdout")
    (tmp_path / "out").write_text("kept\n")
    with (tmp_path / "out").open(mode) as out:
        subprocess.run([sys.executable, "-c", SAYS, str(tmp_path / name)], stdout=out, check=True, timeout=60)
    kept = "kept\n" if mode == "a" else ""
    assert (tmp_path / "out").read_text() == f"{kept}before\ndata\nafter\n"


def test_an_input_is_no_output(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("kept\n")
    with (tmp_path / "in").open() as file:
        words = [sys.executable, "-c", SAYS, "/dev/stdin"]
        done = subprocess.run(words, stdin=file, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "cannot write /dev/stdin: it is open for reading alone" in done.stderr
    assert (tmp_path / "in").read_text() == "kept\n"
