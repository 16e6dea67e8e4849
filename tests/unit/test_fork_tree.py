"""The tree is whole or absent, never loses edits, and needs its source once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from waits import LIMIT_S, until

from harness.errors import SourceError, UsageError
from harness.fork import tree as tree_module
from harness.fork.pin import load_pin
from harness.fork.state import IGNORED, ForkStatus, fork_status
from harness.fork.tree import ensure, fetch, patch
from harness.fork.treehash import tree_hash
from harness.progress import silent
from tests.conftest import TinyFork, git

PATCH = """\
Why: a test.
---
--- a/src/net.cc
+++ b/src/net.cc
@@ -4,3 +4,3 @@
 line 4
-line 5
+line five
 line 6
"""


def status(tiny: TinyFork) -> ForkStatus:
    return fork_status(tiny.layout, load_pin(tiny.layout.pin))


def left_over(tiny: TinyFork) -> list[str]:
    return sorted(path.name for path in tiny.tree.parent.iterdir() if path.name not in ("pins", "tree"))


def test_fetch_then_patch_then_nothing_more_to_do(tiny_fork: TinyFork) -> None:
    tiny_fork.write_patch("0001-five.patch", PATCH)
    assert not status(tiny_fork).exists
    fetched = fetch(tiny_fork.layout, progress=silent)
    assert (fetched.fetched, fetched.patched, fetched.edited, fetched.source) == (True, False, False, "git")
    patched = patch(tiny_fork.layout, progress=silent)
    assert (patched.patched, patched.edited) == (True, False)
    assert "line five" in (tiny_fork.tree / "src" / "net.cc").read_text()
    before = (tiny_fork.tree / "src" / "net.cc").stat()
    assert patch(tiny_fork.layout, progress=silent) == patched == fetch(tiny_fork.layout, progress=silent)
    after = (tiny_fork.tree / "src" / "net.cc").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert left_over(tiny_fork) == []


def test_the_second_time_needs_no_source(tiny_fork: TinyFork, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure(tiny_fork.layout, progress=silent)
    shutil.rmtree(tiny_fork.upstream)
    shutil.rmtree(tiny_fork.tree)
    monkeypatch.setenv("PATH", str(tiny_fork.layout.root))  # no git, no apt either
    assert fetch(tiny_fork.layout, progress=silent).source == "cache"


def test_a_damaged_cache_is_passed_over(tiny_fork: TinyFork) -> None:
    fetch(tiny_fork.layout, progress=silent)
    (cache,) = (tiny_fork.layout.cache / "nccl").iterdir()
    cache.write_bytes(cache.read_bytes().replace(b"line 7", b"line X"))
    shutil.rmtree(tiny_fork.tree)
    assert fetch(tiny_fork.layout, progress=silent).source == "git"
    assert b"line X" not in cache.read_bytes()


def test_changed_patches_are_applied_to_the_pristine_source(tiny_fork: TinyFork) -> None:
    """And only what they change looks new to make."""
    tiny_fork.write_patch("0001-five.patch", PATCH)
    ensure(tiny_fork.layout, progress=silent)
    os.utime(tiny_fork.tree / "src" / "net.cc", (1, 1))
    os.utime(tiny_fork.tree / "src" / "other.cc", (1, 1))
    tiny_fork.write_patch("0001-five.patch", PATCH.replace("+line five", "+line V"))
    assert not status(tiny_fork).patched
    assert ensure(tiny_fork.layout, progress=silent).patched
    text = (tiny_fork.tree / "src" / "net.cc").read_text()
    assert "line V" in text and "five" not in text
    assert (tiny_fork.tree / "src" / "other.cc").stat().st_mtime == 1
    assert (tiny_fork.tree / "src" / "net.cc").stat().st_mtime > 1


def test_a_removed_patch_is_undone_and_looks_new_to_make(tiny_fork: TinyFork) -> None:
    path = tiny_fork.write_patch("0001-five.patch", PATCH)
    ensure(tiny_fork.layout, progress=silent)
    os.utime(tiny_fork.tree / "src" / "net.cc", (1, 1))
    path.unlink()
    ensure(tiny_fork.layout, progress=silent)
    assert tree_hash(tiny_fork.tree, ignore=IGNORED) == load_pin(tiny_fork.layout.pin).tree
    assert (tiny_fork.tree / "src" / "net.cc").stat().st_mtime > 1


def test_a_patch_that_does_not_apply_leaves_the_tree_as_it_was(tiny_fork: TinyFork) -> None:
    fetch(tiny_fork.layout, progress=silent)
    tiny_fork.write_patch("0001-five.patch", PATCH)
    tiny_fork.write_patch("0002-again.patch", PATCH)
    with pytest.raises(SourceError, match=r"0002-again\.patch does not apply(.|\n)*net\.cc"):
        patch(tiny_fork.layout, progress=silent)
    assert status(tiny_fork).tree_hash == load_pin(tiny_fork.layout.pin).tree
    assert left_over(tiny_fork) == []


def test_edits_are_never_lost_unasked(tiny_fork: TinyFork) -> None:
    tiny_fork.write_patch("0001-five.patch", PATCH)
    ensure(tiny_fork.layout, progress=silent)
    (tiny_fork.tree / "src" / "other.cc").write_text("my work\n")
    assert status(tiny_fork).edited
    assert ensure(tiny_fork.layout, progress=silent).edited  # built as it is
    tiny_fork.write_patch("0001-five.patch", PATCH.replace("five", "V"))
    for act in (patch, ensure):
        with pytest.raises(UsageError, match="edited"):
            act(tiny_fork.layout, progress=silent)
    assert (tiny_fork.tree / "src" / "other.cc").read_text() == "my work\n"


def test_force_throws_edits_away(tiny_fork: TinyFork) -> None:
    ensure(tiny_fork.layout, progress=silent)
    (tiny_fork.tree / "src" / "other.cc").write_text("my work\n")
    assert not patch(tiny_fork.layout, force=True, progress=silent).edited
    assert "my work" not in (tiny_fork.tree / "src" / "other.cc").read_text()


def test_another_version_is_not_patched(tiny_fork: TinyFork) -> None:
    ensure(tiny_fork.layout, progress=silent)
    pin = load_pin(tiny_fork.layout.pin)
    text = tiny_fork.layout.pin.read_text().replace("9.9.9-1", "9.9.9-2").replace(pin.tree, "1" * 40)
    tiny_fork.layout.pin.write_text(text)
    with pytest.raises(UsageError, match=r"no NCCL 9\.9\.9-2"):
        patch(tiny_fork.layout, progress=silent)


def test_a_folder_that_is_not_ours_is_not_replaced(tiny_fork: TinyFork) -> None:
    tiny_fork.tree.mkdir()
    (tiny_fork.tree / "precious").write_text("x")
    for act in (fetch, ensure):
        with pytest.raises(UsageError, match="would replace it"):
            act(tiny_fork.layout, progress=silent)
    assert (tiny_fork.tree / "precious").exists()
    assert fetch(tiny_fork.layout, force=True, progress=silent).fetched


def test_a_wrong_source_is_told_even_when_the_tree_is_there(tiny_fork: TinyFork, tmp_path: Path) -> None:
    ensure(tiny_fork.layout, progress=silent)
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / "file").touch()
    for act in (fetch, ensure):
        with pytest.raises(SourceError, match="but the pin says"):
            act(tiny_fork.layout, str(tmp_path / "wrong"), progress=silent)
    assert status(tiny_fork).fetched


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_interrupted_or_out_of_space_leaves_nothing_behind(
    tiny_fork: TinyFork, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(tree_module, "pack_tar", fail)
        with pytest.raises(type(error)):
            fetch(tiny_fork.layout, progress=silent)
    assert not tiny_fork.tree.exists() and left_over(tiny_fork) == []
    assert fetch(tiny_fork.layout, progress=silent).fetched


FETCH = """
import sys
from pathlib import Path
from harness.fork.tree import ensure
from harness.repo import Layout
from harness.progress import silent
ensure(Layout(Path(sys.argv[1])), *sys.argv[2:], progress=silent)
"""


def start_fetch(
    tiny: TinyFork, repository: Path, code: str = FETCH, source: Path | None = None
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, str(tiny.layout.root), *([str(source)] if source else [])],
        cwd=repository,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_full_disk_is_one_clear_error_and_leaves_nothing(
    tiny_fork: TinyFork, repository: Path, tmp_path: Path
) -> None:
    """A real failed write: the kernel refuses files over 64 KiB to a child that fetches a bigger one."""
    (tiny_fork.upstream / "big").write_bytes(b"x" * 200_000)
    archive = tmp_path / "big.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tiny_fork.upstream, "nccl")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))\n"
    child = start_fetch(tiny_fork, repository, limit + FETCH, archive)
    _, errors = child.communicate(timeout=LIMIT_S)
    assert child.returncode != 0
    assert "File too large" in errors
    assert not tiny_fork.tree.exists() and left_over(tiny_fork) == []


def test_two_at_once_both_succeed(tiny_fork: TinyFork, repository: Path) -> None:
    tiny_fork.write_patch("0001-five.patch", PATCH)
    children = [start_fetch(tiny_fork, repository) for _ in range(3)]
    errors = [child.communicate(timeout=LIMIT_S)[1] for child in children]
    assert [child.returncode for child in children] == [0, 0, 0], errors
    found = status(tiny_fork)
    assert found.patched and not found.edited and left_over(tiny_fork) == []


def test_what_a_killed_fetch_left_is_swept(tiny_fork: TinyFork, repository: Path) -> None:
    slow = "import harness.fork.tree as t, time\nt.pack_tar = lambda *_: time.sleep(60)\n"
    child = start_fetch(tiny_fork, repository, slow + FETCH)
    until(lambda: [*tiny_fork.tree.parent.glob("tree.tmp-*/source*/src")])
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=LIMIT_S)
    assert not tiny_fork.tree.exists() and len(left_over(tiny_fork)) == 1
    assert ensure(tiny_fork.layout, progress=silent).patched
    assert left_over(tiny_fork) == []


def test_the_tree_is_not_taken_for_a_part_of_our_own_repository(tiny_fork: TinyFork) -> None:
    """git skips, silently, patches to files outside the repository that it believes to be in."""
    git(tiny_fork.layout.root, "init", "--quiet")
    tiny_fork.write_patch("0001-five.patch", PATCH)
    ensure(tiny_fork.layout, progress=silent)
    assert "line five" in (tiny_fork.tree / "src" / "net.cc").read_text()


def test_our_patches_apply_to_the_pinned_nccl(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To the real one, exactly where they say; the cache has it after any build."""
    from harness.fork.pin import load_pin
    from harness.fork.tree import cached_archive
    from harness.repo import Layout

    caches = list((repository / ".cache" / "nccl").glob("*.tar"))
    if not cached_archive(Layout(repository), load_pin(Layout(repository).pin)).exists():
        pytest.skip("NCCL was not fetched yet: `r2cc fork fetch`")
    layout = Layout(tmp_path / "check out")
    shutil.copytree(repository / "nccl_fork" / "pins", layout.pins)
    shutil.copytree(repository / "r2cc_patches" / "patches", layout.patches)
    (layout.cache / "nccl").mkdir(parents=True)
    for cache in caches:
        (layout.cache / "nccl" / cache.name).symlink_to(cache)
    found = ensure(layout, progress=silent)
    assert found.patched and found.applied and found.source == "cache"
    assert "offset" not in capsys.readouterr().err
