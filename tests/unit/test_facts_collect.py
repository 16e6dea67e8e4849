"""All facts in one round trip: the script on this machine's shell, and what is made of its answer."""

from __future__ import annotations

import pytest
from host_double import FakeHost
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InfraError
from harness.facts import Fact, NotAvailable, catalogue
from harness.facts.collect import MOST_BYTES, ClockOffset, arguments, collect, offset, split
from harness.hosts.local import LocalHost

ECHO = Fact("echo", ("printf", "%s|", "a b", "c'd", "$HOME", ""), str, "printf", "coreutils")
MISSING = Fact("missing", ("no-such-tool", "-x"), str, "no-such-tool", "a-package")
FAILS = Fact("fails", ("sh", "-c", "echo out; echo one >&2; echo two >&2; exit 7"), str, "sh")
SLOW = Fact("slow", ("sleep", "30"), str, "sleep", limit_s=0.2)
READS = Fact("reads", ("cat",), str, "cat")
LAST = Fact("last", ("echo", "end"), str, "echo")


def test_one_script_runs_all_commands_on_a_real_shell() -> None:
    found = collect(LocalHost(), [ECHO, MISSING, FAILS, SLOW, READS, LAST]).known
    assert found.get(ECHO) == "a b|c'd|$HOME||"
    assert found.why(MISSING) == NotAvailable("no-such-tool", "a-package")
    assert str(found.why(FAILS)) == "sh: exit code 7: two"
    assert str(found.why(SLOW)) == "sleep: no answer within 0.2 s"
    assert (found.get(READS), found.get(LAST)) == ("", "end\n")


def test_output_without_end_is_cut() -> None:
    endless = Fact("endless", ("yes",), len, "yes", limit_s=20)
    found = collect(LocalHost(), [endless, LAST]).known
    assert found.get(endless) is None or found.get(endless) == MOST_BYTES
    assert found.get(LAST) == "end\n"


def test_this_machine_is_known() -> None:
    """Nothing that it prints is unreadable, whatever it has."""
    found = collect(LocalHost(), catalogue.asked("~/.r2cc"))
    assert [value for value in found.known.values.values() if isinstance(value, Exception)] == []
    links = found.known.get(catalogue.LINKS)
    if links is not None:
        assert "lo" in [link.name for link in links]
    assert found.clock is not None
    assert abs(found.clock.offset_s) <= found.clock.error_s + 1e-3


def test_a_host_that_says_nothing_is_an_error() -> None:
    with pytest.raises(InfraError, match="h1: cannot be examined: dash: no"):
        collect(FakeHost("h1").answer("*", stderr="dash: no"), [LAST])


def test_a_mark_in_an_output_changes_nothing() -> None:
    text = "M clock 1.5\n\nM begin a\nline\nX begin b\nM is here\n\nM end said\n0\n\nM clock 2.5\n"
    raws, clocks = split(text, "M")
    assert (raws["a"].stdout, raws["a"].stderr, raws["a"].exit_code) == ("line\nX begin b\nM is here\n", "said", 0)
    assert clocks == ["1.5", "2.5"]
    assert [*raws] == ["a"]


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("610.000000000", "612.000000000", ClockOffset(600.0, 0.5)),  # 10 minutes ahead, heard 0.5 s late each way
        ("610.%N", "612.%N", ClockOffset(600.5, 1.0)),  # no fractions: the middle of a second, give or take half
        ("610", "612", ClockOffset(600.5, 1.0)),
        ("", "612.0", None),
        ("%s", "%s", None),
    ],
)
def test_clock_offset(first: str, last: str, expected: ClockOffset | None) -> None:
    assert offset(9_500_000_000, first, last, 12_500_000_000) == expected


def test_words_of_a_command_stay_words() -> None:
    words = ["echo", "printf", "5", "6", "printf", "%s|", "a b", "c'd", "$HOME", ""]
    assert arguments([ECHO], "M")[-10:] == words


@given(st.text(alphabet="M \n0a²clokbegindm.", max_size=200))
def test_whatever_a_host_says_is_split(said: str) -> None:
    raws, clocks = split(f"M begin a\n{said}\nM clock 1\n", "M")
    assert all(isinstance(raw.exit_code, int | None) for raw in raws.values())
    assert clocks
