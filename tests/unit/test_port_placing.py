"""A hunk finds its place in another version of its file by the whole file, not by its line or two of context."""

from __future__ import annotations

import pytest

from harness.errors import SourceError
from harness.port.alignment import aligned
from harness.port.hunks import Hunk, read_hunks
from harness.port.placing import APPLIED, FAILED, MOVED, NEIGHBOURS, REFORMATTED, Placement, place

BEFORE = [
    "int first(int a) {",
    "  if (a < 0) return bad;",
    "  free(a);",
    "  return good;",
    "}",
    "",
    "int second(int a) {",
    "  if (a < 0) return bad;",
    "  free(a);",
    "  return good;",
    "}",
]
PATCH = """\
Why: a test.
---
--- a/src/x.cc
+++ b/src/x.cc
@@ -8,3 +8,3 @@
   if (a < 0) return bad;
-  free(a);
+  ours(a);
   return good;
@@ -11 +11,2 @@
 }
+// the end
"""


def hunk(number: int = 0) -> Hunk:
    return read_hunks(PATCH, "a.patch")[number]


def placed(after: list[str], number: int = 0) -> Placement:
    return place(hunk(number), aligned(BEFORE, after), after)


def made(after: list[str], to: Placement) -> list[str]:
    return [*after[: to.begin], *to.lines, *after[to.end :]]


def test_hunks_are_read_with_their_context() -> None:
    first, second = read_hunks(PATCH, "a.patch")
    assert (first.path, first.number, first.start, first.lead, first.trail) == ("src/x.cc", 1, 7, 1, 1)
    assert (first.core_old, first.core_new) == (["  free(a);"], ["  ours(a);"])
    assert (second.number, second.start, second.lead, second.trail, second.core_old) == (2, 10, 1, 0, [])
    with pytest.raises(SourceError, match="holds no hunk"):
        read_hunks("nothing\n", "a.patch")


def test_lines_are_followed_through_another_version() -> None:
    assert aligned(BEFORE, BEFORE) == list(range(11))
    assert aligned(["a", "b", "c"], ["x", "a", "c"]) == [1, None, 2]
    assert aligned(["a", "b"], ["a", "new", "  b"]) == [0, 2]
    assert aligned(["a"], []) == [None]


def test_the_same_file_takes_it_where_it_was() -> None:
    to = placed(BEFORE)
    assert (to.outcome, to.begin) == (APPLIED, 7)
    assert made(BEFORE, to)[6:10] == [BEFORE[6], BEFORE[7], "  ours(a);", BEFORE[9]]
    assert placed(BEFORE, 1).outcome == APPLIED


def test_it_does_not_land_in_another_function_that_looks_alike() -> None:
    """Four lines more in front of the second function bring the first one's text to the line that the patch names."""
    after = [*["// new"] * 6, *BEFORE]
    to = placed(after)
    assert (to.outcome, to.begin) == (MOVED, 13)
    assert made(after, to).index("  ours(a);") == 14


def test_white_space_and_line_breaks_do_not_matter() -> None:
    after = [*BEFORE[:7], "    if (a < 0)", "      return bad;", "    free( a );", "    return good;", "}"]
    to = placed(after)
    assert to.outcome == REFORMATTED
    assert made(after, to)[7:11] == ["    if (a < 0)", "      return bad;", "  ours(a);", "    return good;"]


def test_what_stands_beside_it_may_have_changed_but_that_is_said() -> None:
    after = [*BEFORE[:7], "  check(a);", "  free(a);", "  say(a);", "  return good;", "}"]
    to = placed(after)
    assert to.outcome == NEIGHBOURS and made(after, to)[8] == "  ours(a);"
    ending = placed([*BEFORE[:10], "}", "// more"], 1)
    assert ending.outcome in (APPLIED, NEIGHBOURS)


def test_lines_that_are_only_added_go_beside_the_neighbour_that_is_left() -> None:
    adds = Hunk("src/x.cc", 1, 7, ((" ", BEFORE[7]), ("+", "  ours(a);"), (" ", BEFORE[8])))
    after = [*BEFORE[:8], "  more(a);", *BEFORE[8:]]
    to = place(adds, aligned(BEFORE, after), after)
    assert (to.outcome, to.begin, to.end) == (NEIGHBOURS, 8, 8)
    after = [*BEFORE[:7], "  other(a);", *BEFORE[8:]]
    assert place(adds, aligned(BEFORE, after), after).begin == 8
    after = [*BEFORE[:7], "  other(a);", "  release(a);", *BEFORE[9:]]
    assert place(adds, aligned(BEFORE, after), after).outcome == FAILED


def test_a_text_that_is_no_more_fails_and_names_the_nearest_line() -> None:
    after = [*BEFORE[:8], "  free_all(a);", *BEFORE[9:]]
    to = placed(after)
    assert (to.outcome, after[to.begin], to.lines) == (FAILED, "  free_all(a);", ())


def test_one_of_two_places_is_not_chosen() -> None:
    after = [*BEFORE[:7], "  x();", "  free(a);", "  y();", "  free(a);", "}"]
    assert placed(after).outcome == FAILED
