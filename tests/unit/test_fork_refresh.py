"""Patches re-created from an edited tree: same headers, same split, the edited tree again when applied."""

from __future__ import annotations

import shutil

import pytest

from harness.errors import UsageError
from harness.fork.patches import header
from harness.fork.pin import load_pin
from harness.fork.refresh import refresh, tidy
from harness.fork.state import IGNORED, fork_status
from harness.fork.tree import ensure
from harness.fork.treehash import tree_hash
from harness.progress import silent
from tests.conftest import TinyFork

FIVE = """\
Five: in words.

Why: a header of several lines,
kept as it is.
---
--- a/src/net.cc
+++ b/src/net.cc
@@ -4,3 +4,3 @@
 line 4
-line 5
+line five
 line 6
"""
FIFTEEN = FIVE.replace("Five", "Fifteen").replace("five", "fifteen").replace("@@ -4,3 +4,3 @@", "@@ -14,3 +14,3 @@")
FIFTEEN = FIFTEEN.replace("line 4", "line 14").replace("line 5", "line 15").replace("line 6", "line 16")
OTHER = """\
Other: another file.
---
--- a/src/other.cc
+++ b/src/other.cc
@@ -1,3 +1,3 @@
 one
-two
+zwei
 three
"""


@pytest.fixture
def series(tiny_fork: TinyFork) -> TinyFork:
    """Three patches; the first two touch the same file."""
    tiny_fork.write_patch("0001-five.patch", FIVE)
    tiny_fork.write_patch("0002-fifteen.patch", FIFTEEN)
    tiny_fork.write_patch("0003-other.patch", OTHER)
    ensure(tiny_fork.layout, progress=silent)
    return tiny_fork


def text_of(tiny: TinyFork, name: str) -> str:
    return (tiny.layout.patches / "9.9.9" / name).read_text()


def edit(tiny: TinyFork, path: str, old: str, new: str) -> None:
    file = tiny.tree / path
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def assert_patches_make_the_tree(tiny: TinyFork) -> None:
    """From nothing: the new patches on the pristine source give what the maintainer had."""
    edited = tree_hash(tiny.tree, ignore=IGNORED)
    shutil.rmtree(tiny.tree)
    ensure(tiny.layout, progress=silent)
    assert tree_hash(tiny.tree, ignore=IGNORED) == edited


def test_is_stable(series: TinyFork) -> None:
    refresh(series.layout)
    before = {name: text_of(series, name) for name in ("0001-five.patch", "0002-fifteen.patch", "0003-other.patch")}
    assert refresh(series.layout) == [f"{name}: unchanged" for name in before]
    assert {name: text_of(series, name) for name in before} == before
    assert_patches_make_the_tree(series)


def test_files_stay_in_the_patchs_own_order(tiny_fork: TinyFork) -> None:
    """Not in the alphabet's, which would show a move as an edit; a new file comes last."""
    tiny_fork.write_patch("0001-two.patch", OTHER + FIVE.partition("---\n")[2])
    ensure(tiny_fork.layout, progress=silent)
    refresh(tiny_fork.layout)
    before = text_of(tiny_fork, "0001-two.patch")
    assert before.index("+++ b/src/other.cc") < before.index("+++ b/src/net.cc")
    assert refresh(tiny_fork.layout) == ["0001-two.patch: unchanged"]
    (tiny_fork.tree / "src" / "a_new.cc").write_text("diff --git a/src/other.cc b/src/other.cc\n")
    refresh(tiny_fork.layout, into="0001-two")
    assert text_of(tiny_fork, "0001-two.patch").startswith(before)
    assert_patches_make_the_tree(tiny_fork)


def test_an_edit_goes_to_the_last_patch_of_its_file(series: TinyFork) -> None:
    edit(series, "src/net.cc", "line 10", "line ten")
    refresh(series.layout)
    assert "ten" not in text_of(series, "0001-five.patch")
    assert "+line ten" in text_of(series, "0002-fifteen.patch") and "+line fifteen" in text_of(
        series, "0002-fifteen.patch"
    )
    assert "+line five" in text_of(series, "0001-five.patch")
    assert not fork_status(series.layout, load_pin(series.layout.pin)).edited
    assert_patches_make_the_tree(series)


def test_headers_are_kept_and_context_is_one_line(series: TinyFork) -> None:
    edit(series, "src/other.cc", "three", "drei")
    refresh(series.layout)
    folder = series.layout.patches / "9.9.9"
    assert header(folder / "0001-five.patch") == FIVE[: FIVE.index("--- a/")]
    assert header(folder / "0003-other.patch") == OTHER[: OTHER.index("--- a/")]
    context = [line for line in text_of(series, "0001-five.patch").splitlines() if line.startswith(" ")]
    assert context == [" line 4", " line 6"]


def test_a_new_file_needs_a_home(series: TinyFork) -> None:
    (series.tree / "src" / "new file.cc").write_text("new\n")
    with pytest.raises(UsageError, match=r"no patch touches src/new file\.cc yet"):
        refresh(series.layout)
    refresh(series.layout, into="0004-new")
    assert "+new" in text_of(series, "0004-new.patch")
    assert_patches_make_the_tree(series)
    assert (series.tree / "src" / "new file.cc").read_text() == "new\n"


def test_modes_links_and_removed_files_survive(series: TinyFork) -> None:
    (series.tree / "src" / "other.cc").chmod(0o755)
    (series.tree / "run.sh").unlink()
    (series.tree / "link").unlink()
    (series.tree / "link").symlink_to("src/other.cc")
    refresh(series.layout, into="0003-other.patch")
    assert_patches_make_the_tree(series)
    assert not (series.tree / "run.sh").exists()


def test_without_edits_no_patch_changes(series: TinyFork) -> None:
    assert refresh(series.layout) == [
        f"{name}: unchanged" for name in ("0001-five.patch", "0002-fifteen.patch", "0003-other.patch")
    ]
    assert text_of(series, "0003-other.patch") == OTHER


def test_a_patch_whose_edits_are_gone_goes_too(series: TinyFork) -> None:
    edit(series, "src/other.cc", "zwei", "two")
    assert "0003-other.patch: removed, its edits are gone from the tree" in refresh(series.layout)
    assert not (series.layout.patches / "9.9.9" / "0003-other.patch").exists()
    assert_patches_make_the_tree(series)


def test_patches_that_changed_meanwhile_are_not_overwritten(series: TinyFork) -> None:
    edit(series, "src/other.cc", "three", "drei")
    series.write_patch("0003-other.patch", OTHER.replace("zwei", "deux"))
    with pytest.raises(UsageError, match="changed since they were applied"):
        refresh(series.layout)
    assert "deux" in text_of(series, "0003-other.patch")


def test_without_a_tree_there_is_nothing_to_refresh(tiny_fork: TinyFork) -> None:
    with pytest.raises(UsageError, match="no tree"):
        refresh(tiny_fork.layout)


def test_quoted_functions_and_one_sided_names_are_tidied() -> None:
    assert tidy("diff --git b/x y b/x y\n@@ -1,2 +3 @@ int function(void) {\n+@@ a\n") == (
        "diff --git a/x y b/x y\n@@ -1,2 +3 @@\n+@@ a\n"
    )
