"""What a user sees: a moving line on a terminal, plain lines in a pipe, nothing when quiet."""

from __future__ import annotations

import io
import os
import pty
import threading

import pytest

from chaos.record.live import Display, Live, Plain, bars_of, display
from harness.units import nth


def test_the_display_fits_where_the_output_goes() -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        assert type(display(terminal, quiet=False)) is Live
        assert type(display(terminal, quiet=False, plain=True)) is Plain
        assert type(display(terminal, quiet=True)) is Display
    os.close(ours)
    assert type(display(io.StringIO(), quiet=False)) is Plain


def test_a_terminal_gets_one_moving_line_with_notes_above_it() -> None:
    ours, theirs = pty.openpty()
    shown = bytearray()

    def collect() -> None:
        try:
            while data := os.read(ours, 4096):
                shown.extend(data)
        except OSError:  # how a pty says that its other end is closed
            return

    reader = threading.Thread(target=collect)
    reader.start()
    with os.fdopen(theirs, "w") as terminal, Live(terminal) as live:
        live.run_started("migrate", 0, 2, 10)
        live.iteration(0, 200.0)
        live.iteration(1, 400.0)
        live.note("link_down on h1 eth2: [active]")
    reader.join(60)
    os.close(ours)
    text = shown.decode()
    assert "run 0 of 0 to 1, 10 iterations" in text
    assert "link_down on h1 eth2: [active]" in text, "a message is text, not markup"
    assert "iteration 1 of 0 to 9    400.0 ms  ▄█" in text


def test_plain_lines_have_a_time_and_the_arm() -> None:
    out = io.StringIO()
    with Plain(out) as plain:
        plain.run_started("stock", 1, 2, 40)
        plain.iteration(3, 211.04)
    first, second = out.getvalue().splitlines()
    assert first.endswith("s] stock     run 1 of 0 to 1, 40 iterations")
    assert second.endswith("s] stock     iteration   3      211.0 ms")


@pytest.mark.parametrize(
    ("number", "of", "text"),
    [(0, 1, "run 0"), (7, None, "run 7"), (0, 2, "run 0 of 0 to 1"), (3, 4, "run 3 of 0 to 3")],
)
def test_numbers_are_those_of_files_and_verdicts(number: int, of: int | None, text: str) -> None:
    assert nth("run", number, of) == text


def test_bars() -> None:
    assert bars_of([], " #") == ""
    assert bars_of([0.0, 0.0], " #") == "  "
    assert bars_of([1.0, 2.0, 4.0], " -=+#") == "-=#"
