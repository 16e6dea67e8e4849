"""`r2cc fork port`: our patches on another version of a tiny NCCL. Pin and patches are written whole, or not at all."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import cli
from harness.errors import SourceError, UsageError
from harness.fork.pin import load_pin
from harness.fork.refresh import refresh
from harness.fork.state import fork_status
from harness.fork.tree import ensure
from harness.fork.treehash import tree_hash
from harness.port import port as port_module
from harness.port.port import port
from harness.port.report import NameFound, Present, describe
from harness.progress import silent
from tests.conftest import TinyFork, git

FIVE = """\
Five: in words.
---
--- a/src/net.cc
+++ b/src/net.cc
@@ -4,3 +4,3 @@
 line 4
-line 5
+line five
 line 6
"""
OTHER = """\
Other: another file.
---
--- a/src/other.cc
+++ b/src/other.cc
@@ -1,3 +1,4 @@
 one
-two
+zwei
 three
+four
"""
VERSION = "NCCL_MAJOR   := 9\nNCCL_MINOR   := 9\nNCCL_PATCH   := {patch}\nPKG_REVISION := 1\n"


@pytest.fixture
def next_one(tiny_fork: TinyFork, monkeypatch: pytest.MonkeyPatch) -> TinyFork:
    """Two patches of 9.9.9, and a 9.9.10 in which lines of one file have moved and the other is the same."""
    tiny_fork.write_patch("0001-five.patch", FIVE)
    tiny_fork.write_patch("0002-other.patch", OTHER)
    (tiny_fork.layout.pins.parent / "no-source.toml").write_text('"9.9.11" = "only binaries"\n')
    change(tiny_fork, "v9.9.10-1", net="new\n" * 3 + net())
    monkeypatch.setattr(port_module, "_names", lambda *_: [NameFound("src/net.cc", "a", "changed", "int", "long")])
    monkeypatch.setattr(port_module, "cuda_include", lambda *_: Path("/cuda"))
    monkeypatch.setattr(port_module, "proven", lambda *_: (True, True))
    return tiny_fork


def net() -> str:
    return "".join(f"line {number}\n" for number in range(1, 21))


def change(tiny: TinyFork, tag: str, *, net: str, other: str = "one\ntwo\nthree\n", patch: int = 10) -> None:
    (tiny.upstream / "makefiles").mkdir(exist_ok=True)
    (tiny.upstream / "makefiles" / "version.mk").write_text(VERSION.format(patch=patch))
    (tiny.upstream / "src" / "net.cc").write_text(net)
    (tiny.upstream / "src" / "other.cc").write_text(other)
    git(tiny.upstream, "add", "--all")
    git(tiny.upstream, "commit", "--quiet", "-m", tag)
    git(tiny.upstream, "tag", tag)


def repin(tiny: TinyFork, tag: str) -> None:
    """The pin of 9.9.9 is now of this tag."""
    pin = load_pin(tiny.layout.pin)
    text = tiny.layout.pin.read_text()
    for old, new in (
        (pin.tag, tag),
        (pin.commit, git(tiny.upstream, "rev-parse", tag)),
        (pin.tree, git(tiny.upstream, "rev-parse", f"{tag}^{{tree}}")),
        (pin.tree_sha256, tree_hash(tiny.upstream, "sha256")),
    ):
        text = text.replace(old, new)
    tiny.layout.pin.write_text(text)


def files(tiny: TinyFork) -> list[str]:
    roots = (tiny.layout.pins.parent, tiny.layout.patches)
    return sorted(str(path.relative_to(tiny.layout.root)) for root in roots for path in root.rglob("*"))


def test_every_hunk_is_told_and_nothing_is_written(next_one: TinyFork) -> None:
    before = files(next_one)
    found = port(next_one.layout, "9.9.10", str(next_one.upstream), progress=silent)
    assert [(hunk.outcome, hunk.line, hunk.there) for hunk in found.hunks] == [("moved", 4, 7), ("applied", 1, 1)]
    assert (found.version, found.ok, found.built, found.written) == ("9.9.10-1", True, None, [])
    assert "  src/net.cc #1, line 4: moved by +3" in list(describe(found))
    assert "  src/net.cc: a is long, was int" in list(describe(found))
    assert files(next_one) == before


def test_what_is_written_builds_the_tree_and_shares_what_is_alike(next_one: TinyFork) -> None:
    found = port(next_one.layout, "v9.9.10-1", str(next_one.upstream), write=True, progress=silent)
    assert found.ok and found.written == ["nccl_fork/pins/9.9.10.toml"]  # only line numbers differ: both are shared
    there = next_one.layout.with_version("9.9.10")
    status = ensure(there, progress=silent)  # from the cache: the port has filled it
    assert status.patched and status.source == "cache" and there.tree.name == "tree-9.9.10"
    assert "line five" in (there.tree / "src" / "net.cc").read_text()
    assert refresh(there) == [
        f"{name}: unchanged, shared with 9.9.9" for name in ("0001-five.patch", "0002-other.patch")
    ]


def test_a_second_run_has_nothing_to_do(next_one: TinyFork, monkeypatch: pytest.MonkeyPatch) -> None:
    port(next_one.layout, "v9.9.10-1", str(next_one.upstream), write=True, progress=silent)
    before = files(next_one)
    monkeypatch.setattr(port_module, "proven", lambda *_: pytest.fail("built once more"))
    for what in ("9.9.10", str(next_one.upstream)):
        again = port(next_one.layout, what, write=True, progress=silent)
        assert again.ok and again.written == [] and again.present == Present("nccl_fork/pins/9.9.10.toml", [], [])
        said = "nothing to do: nccl_fork/pins/9.9.10.toml is of this tree, and its patches apply"
        assert list(describe(again))[-1] == said
    assert files(next_one) == before


def test_a_pin_of_another_tree_is_not_replaced(next_one: TinyFork) -> None:
    port(next_one.layout, "9.9.10", str(next_one.upstream), write=True, progress=silent)
    change(next_one, "ours", net="more\n" + net())
    before = files(next_one)
    for write in ({"write": True}, {"partial": True}):
        with pytest.raises(
            UsageError, match=r"9\.9\.10\.toml is there already, of another tree: [0-9a-f]{12} \(NCCL 9"
        ):
            port(next_one.layout, "ours", str(next_one.upstream), progress=silent, **write)
    assert port(next_one.layout, "ours", str(next_one.upstream), progress=silent).ok  # to look is free
    assert files(next_one) == before


def test_a_patch_that_reads_otherwise_gets_a_folder(next_one: TinyFork) -> None:
    change(next_one, "v9.9.12-1", net=net().replace("line 4\n", "LINE 4\n"), patch=12)
    found = port(next_one.layout, "9.9.12", str(next_one.upstream), write=True, progress=silent)
    assert [hunk.outcome for hunk in found.hunks] == ["neighbours", "applied"]
    assert found.written == ["r2cc_patches/patches/9.9.12", "nccl_fork/pins/9.9.12.toml"]
    assert [path.name for path in (next_one.layout.patches / "9.9.12").iterdir()] == ["0001-five.patch"]
    there = next_one.layout.with_version("9.9.12")
    assert ensure(there, progress=silent).patched
    assert "LINE 4\nline five" in (there.tree / "src" / "net.cc").read_text()


@pytest.mark.parametrize("passes", [(False, None), (True, False)])
def test_what_does_not_pass_is_not_written(
    next_one: TinyFork, monkeypatch: pytest.MonkeyPatch, passes: tuple[bool, bool | None]
) -> None:
    before = files(next_one)
    monkeypatch.setattr(port_module, "proven", lambda *_: passes)
    found = port(next_one.layout, "9.9.10", str(next_one.upstream), write=True, progress=silent)
    assert not found.ok and (found.built, found.tested) == passes and found.log is not None
    assert any("failed, see" in line for line in describe(found))
    assert files(next_one) == before


def test_a_failed_hunk_names_the_nearest_place_and_can_be_mended(next_one: TinyFork) -> None:
    change(next_one, "v9.9.12-1", net=net().replace("line 5\n", "line 5 and a half\n"), patch=12)
    before = files(next_one)
    found = port(next_one.layout, "9.9.12", str(next_one.upstream), write=True, progress=silent)
    assert not found.ok and found.built is None and files(next_one) == before
    assert "failed; nearest: src/net.cc:5: line 5 and a half" in "\n".join(describe(found))
    partly = port(next_one.layout, "9.9.12", str(next_one.upstream), partial=True, progress=silent)
    assert not partly.ok and partly.written
    there = next_one.layout.with_version("9.9.12")
    assert [patch.name for patch in ensure(there, progress=silent).applied] == ["0002-other.patch"]
    text = (there.tree / "src" / "net.cc").read_text()
    (there.tree / "src" / "net.cc").write_text(text.replace("line 5 and a half", "line five and a half"))
    assert refresh(there, into="0001-five") == [
        "0001-five.patch: new; write its header",
        "0002-other.patch: unchanged",
    ]


def test_a_second_run_says_what_is_not_mended_yet(next_one: TinyFork) -> None:
    change(next_one, "v9.9.12-1", net=net().replace("line 5\n", "line 5 and a half\n"), patch=12)
    port(next_one.layout, "9.9.12", str(next_one.upstream), partial=True, progress=silent)
    again = port(next_one.layout, "9.9.12", write=True, progress=silent)
    assert not again.ok and again.present == Present("nccl_fork/pins/9.9.12.toml", [], ["src/net.cc"])
    assert "what failed is not mended in src/net.cc" in list(describe(again))[-1]
    there = next_one.layout.with_version("9.9.12")
    ensure(there, progress=silent)
    text = (there.tree / "src" / "net.cc").read_text()
    (there.tree / "src" / "net.cc").write_text(text.replace("line 5 and a half", "line five and a half"))
    refresh(there, into="0001-five")
    mended = port(next_one.layout, "9.9.12", write=True, progress=silent)
    assert mended.ok and mended.present == Present("nccl_fork/pins/9.9.12.toml", ["src/net.cc"], [])
    assert list(describe(mended))[-1] == "  made by hand there, otherwise than here: src/net.cc"


def test_a_patch_that_git_would_put_elsewhere_is_written_anew(next_one: TinyFork) -> None:
    """Only line numbers differ, but what stands where it stood before is the same text in another function."""
    one = "fail:\n  free(it);\n  goto exit;\n"
    text = "one {\n" + "a;\n" * 9 + f"{one}}}\n\n"
    other = "two {\n" + "b;\n" * 9 + f"{one}}}\n\n"
    change(next_one, "v9.9.9-2", net=text, patch=9)
    repin(next_one, "v9.9.9-2")
    next_one.write_patch(
        "0001-five.patch",
        "Drop: in one.\n---\n--- a/src/net.cc\n+++ b/src/net.cc\n@@ -11,3 +11,3 @@\n"
        " fail:\n-  free(it);\n+  drop(it);\n   goto exit;\n",
    )
    change(next_one, "v9.9.12-1", net=other + text, patch=12)
    found = port(next_one.layout, "9.9.12", str(next_one.upstream), write=True, progress=silent)
    assert next((hunk.outcome, hunk.there) for hunk in found.hunks) == ("moved", 26)
    assert found.written == ["r2cc_patches/patches/9.9.12", "nccl_fork/pins/9.9.12.toml"]
    there = next_one.layout.with_version("9.9.12")
    ensure(there, progress=silent)
    assert (there.tree / "src" / "net.cc").read_text() == other + text.replace("free", "drop")
    (next_one.layout.patches / "9.9.12" / "0001-five.patch").unlink()  # and so it is when the tree is mended by hand
    ensure(there, progress=silent)
    assert (there.tree / "src" / "net.cc").read_text() == other.replace("free", "drop") + text
    (there.tree / "src" / "net.cc").write_text(other + text.replace("free", "drop"))
    assert refresh(there)[0] == "0001-five.patch: updated"


def test_what_a_killed_port_left_is_replaced(next_one: TinyFork) -> None:
    """A folder of patches that no pin names, of which one would be taken for a patch of the new version."""
    left = next_one.layout.patches / "9.9.10"
    left.mkdir()
    (left / "0001-five.patch").write_text("half a pa")
    found = port(next_one.layout, "9.9.10", str(next_one.upstream), write=True, progress=silent)
    assert found.ok and not left.exists()
    assert ensure(next_one.layout.with_version("9.9.10"), progress=silent).patched


@pytest.mark.parametrize("when", ["patches", "pin"])
def test_ctrl_c_while_writing_leaves_all_as_it_was(
    next_one: TinyFork, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    change(next_one, "v9.9.12-1", net=net().replace("line 4\n", "LINE 4\n"), patch=12)
    left = next_one.layout.patches / "9.9.12"
    left.mkdir()
    (left / "0009-old.patch").write_text("of another time")
    before = files(next_one)
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        if path.name == ("pin.toml" if when == "pin" else "patches"):
            monkeypatch.undo()
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        port(next_one.layout, "9.9.12", str(next_one.upstream), write=True, progress=silent)
    assert files(next_one) == before
    assert (left / "0009-old.patch").read_text() == "of another time"


def test_a_folder_that_is_a_repository_is_read_at_its_commit(next_one: TinyFork) -> None:
    (next_one.upstream / "build").mkdir()
    (next_one.upstream / "build" / "net.o").write_text("what a build left")
    found = port(next_one.layout, str(next_one.upstream), write=True, progress=silent)
    assert found.ok and found.commit == git(next_one.upstream, "rev-parse", "HEAD")
    assert found.tree == git(next_one.upstream, "rev-parse", "HEAD^{tree}")
    (next_one.upstream / "src" / "net.cc").write_text("mine\n")
    with pytest.raises(UsageError, match=r"has changes that are not committed: src/net\.cc") as caught:
        port(next_one.layout, str(next_one.upstream), progress=silent)
    assert "commit them" in str(caught.value)
    there = next_one.layout.with_version("9.9.10")
    shutil.rmtree(there.cache / "nccl")
    assert ensure(there, str(next_one.upstream), progress=silent).patched  # its commit is in there all the same


def test_a_source_of_another_version_is_not_taken_for_it(next_one: TinyFork, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(next_one.upstream, folder, ignore=shutil.ignore_patterns(".git"), symlinks=True)
    assert port(next_one.layout, "9.9.10", str(folder), progress=silent).version == "9.9.10-1"
    with pytest.raises(SourceError, match=r"it is NCCL 9\.9\.10-1, not 9\.9\.12-1"):
        port(next_one.layout, "9.9.12", str(folder), progress=silent)
    with pytest.raises(SourceError, match=r"has no v9\.9\.12-1"):
        port(next_one.layout, "9.9.12", str(next_one.upstream), progress=silent)
    with pytest.raises(SourceError, match=r"nowhere does not exist"):
        port(next_one.layout, str(tmp_path / "nowhere"), progress=silent)


def test_the_tree_that_the_patches_are_for_may_be_in_the_same_place(next_one: TinyFork, tmp_path: Path) -> None:
    """Nothing cached and no network: the repository that has the new version has the old one, too."""
    text = next_one.layout.pin.read_text()
    next_one.layout.pin.write_text(text.replace(str(next_one.upstream), str(tmp_path / "nowhere")))
    assert port(next_one.layout, "9.9.10", str(next_one.upstream), progress=silent).ok


def test_a_file_that_moved_away_is_looked_for(next_one: TinyFork, tmp_path: Path) -> None:
    folder = tmp_path / "split"
    shutil.copytree(next_one.upstream, folder, ignore=shutil.ignore_patterns(".git"), symlinks=True)
    (folder / "src" / "net.cc").rename(folder / "src" / "wire.cc")
    found = port(next_one.layout, str(folder), progress=silent)
    assert (found.hunks[0].outcome, found.hunks[0].file, found.hunks[0].there) == ("failed", "src/wire.cc", 8)
    (folder / "src" / "net").mkdir()
    (folder / "src" / "wire.cc").rename(folder / "src" / "net" / "net.cc")
    found = port(next_one.layout, str(folder), progress=silent)
    assert (found.hunks[0].outcome, found.hunks[0].file, found.hunks[0].there) == ("moved", "src/net/net.cc", 7)
    assert "  src/net.cc #1, line 4: moved, now src/net/net.cc:7" in list(describe(found))
    (folder / "src" / "net" / "net.cc").write_text("another\n" * 20 + "line 4\nline 5\nline 6\n")
    found = port(next_one.layout, str(folder), progress=silent)  # of the same name, and nothing else
    assert (found.hunks[0].outcome, found.hunks[0].file, found.hunks[0].there) == ("failed", "src/net/net.cc", 22)


def test_folders_and_archives_are_candidates_too(next_one: TinyFork, tmp_path: Path) -> None:
    archive = tmp_path / "nccl.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(next_one.upstream, "nccl", filter=lambda member: None if "/.git" in member.name else member)
    found = port(next_one.layout, str(archive), write=True, progress=silent)
    assert found.ok and (found.commit, found.source) == ("", str(archive))
    there = next_one.layout.with_version("9.9.10")
    assert ensure(there, progress=silent).patched
    shutil.rmtree(there.tree)
    shutil.rmtree(there.cache / "nccl")
    with pytest.raises(SourceError, match="no source gave NCCL"):
        ensure(there, progress=silent)
    assert ensure(there, str(archive), progress=silent).patched


def test_a_version_without_a_source_says_what_is_known(next_one: TinyFork, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"skipped.*(\n.*)*what is known of 9\.9\.11: only binaries"):
        port(next_one.layout, "9.9.11", str(next_one.upstream), progress=silent)
    with pytest.raises(UsageError, match=r"no source of NCCL 9\.9\.11: only binaries"):
        next_one.layout.with_version("9.9.11")
    with pytest.raises(UsageError, match=r"no pin of NCCL 1\.1"):
        next_one.layout.with_version("1.1")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="holds no NCCL"):
        port(next_one.layout, str(tmp_path / "empty"), progress=silent)


def test_the_command_prints_json_and_says_by_its_exit_code(next_one: TinyFork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.repo.checkout", lambda _version=None: next_one.layout)
    words = ["fork", "port", "9.9.10", "--source", str(next_one.upstream), "--quiet"]
    result = CliRunner().invoke(cli, [*words, "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["hunks"][0]["outcome"] == "moved"
    change(next_one, "v9.9.12-1", net="nothing\n", patch=12)
    assert CliRunner().invoke(cli, ["fork", "port", "9.9.12", *words[3:]]).exit_code == 1


def test_the_status_of_another_version_is_its_own(next_one: TinyFork) -> None:
    port(next_one.layout, "9.9.10", str(next_one.upstream), write=True, progress=silent)
    there = next_one.layout.with_version("9.9.10")
    ensure(there, progress=silent)
    assert fork_status(there, load_pin(there.pin)).patched
    assert not fork_status(next_one.layout, load_pin(next_one.layout.pin)).exists
