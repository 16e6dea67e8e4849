"""What is kept of a program's output (chaos/run/kept.py)."""

from __future__ import annotations

from pathlib import Path

from chaos.run.kept import END_BYTES, Kept

LINE = b"x" * 999


def test_all_of_a_short_one(tmp_path: Path) -> None:
    kept = Kept()
    kept.add([b"one", b'{"t_ns":5,"event":"traffic"}', b"two"])
    kept.add([b"three"])
    kept.write(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"one\ntwo\nthree\n"


def test_both_ends_of_a_long_one(tmp_path: Path) -> None:
    kept, printed = Kept(), b""
    for number in range(500):
        lines = [b"%d" % number, *[LINE] * 20]
        kept.add(lines)
        printed += b"".join(line + b"\n" for line in lines)
    kept.write(tmp_path / "out")
    head, _, rest = (tmp_path / "out").read_bytes().partition(b"\n... ")
    left_out, _, tail = rest.partition(b" bytes are left out here ...\n")
    assert len(head) == END_BYTES and printed.startswith(head)
    assert END_BYTES <= len(tail) < 2 * END_BYTES and printed.endswith(tail)
    assert len(head) + int(left_out) + len(tail) == len(printed)


def test_no_file_for_who_said_nothing(tmp_path: Path) -> None:
    kept = Kept()
    kept.add([b""])
    kept.write(tmp_path / "out")
    assert not (tmp_path / "out").exists()
