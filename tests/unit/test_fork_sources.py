"""Whatever the source, what is used is what the pin says."""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path

import pytest
from processes import words_of
from waits import LIMIT_S, until

from harness.errors import R2ccError, SourceError, UsageError
from harness.fork import sources as sources_module
from harness.fork.apt import fetch_through_apt, find_uri, host_mirrors, isolated
from harness.fork.network import run_bounded
from harness.fork.pin import load_pin
from harness.fork.sources import SOURCE_VARIABLE, acquire, chosen_source, from_git, sources, verify
from harness.fork.treehash import tree_hash
from harness.progress import silent
from harness.repo import Layout
from tests.conftest import TinyFork, git


def obtain(tiny: TinyFork, chosen: str | None, scratch: Path) -> tuple[Path, str]:
    scratch.mkdir()
    pin = load_pin(tiny.layout.pin)
    return acquire(pin, sources(pin, tiny.layout.cache / "none.tar", chosen), scratch, silent)


def as_tar(tiny: TinyFork, path: Path) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        tar.add(tiny.upstream, "nccl-9.9.9", filter=lambda member: None if "/.git" in member.name else member)
    return path


def as_folder(tiny: TinyFork, path: Path) -> Path:
    shutil.copytree(tiny.upstream, path, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    return path


def as_bare(tiny: TinyFork, path: Path) -> Path:
    git(tiny.upstream, "clone", "--quiet", "--bare", ".", str(path))
    return path


def as_dirty_clone(tiny: TinyFork, path: Path) -> Path:
    """Its working tree is of no use, the pinned commit is in there all the same."""
    git(tiny.upstream, "clone", "--quiet", ".", str(path))
    (path / "src" / "net.cc").write_text("somebody's work\n")
    return path


@pytest.mark.parametrize("make", [as_tar, as_folder, as_bare, as_dirty_clone])
def test_every_kind_of_path_gives_the_pinned_tree(tiny_fork: TinyFork, tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    path = make(tiny_fork, tmp_path / "so urce")
    tree, name = obtain(tiny_fork, str(path), tmp_path / "scratch")
    assert name == str(path)
    assert tree_hash(tree) == load_pin(tiny_fork.layout.pin).tree
    assert (tree / "link").is_symlink()


def test_a_url_is_fetched_with_git(tiny_fork: TinyFork, tmp_path: Path) -> None:
    tree, _ = obtain(tiny_fork, tiny_fork.upstream.as_uri(), tmp_path / "scratch")
    assert tree_hash(tree) == load_pin(tiny_fork.layout.pin).tree


def test_another_content_names_both_hashes(tiny_fork: TinyFork, tmp_path: Path) -> None:
    folder = as_folder(tiny_fork, tmp_path / "changed")
    (folder / "src" / "net.cc").write_text("not what was pinned\n")
    with pytest.raises(SourceError) as caught:
        obtain(tiny_fork, str(folder), tmp_path / "scratch")
    assert tree_hash(folder) in caught.value.message
    assert load_pin(tiny_fork.layout.pin).tree in caught.value.message


def test_a_source_that_is_something_else_says_what_it_is(tiny_fork: TinyFork, tmp_path: Path) -> None:
    pin = load_pin(tiny_fork.layout.pin)
    folder = as_folder(tiny_fork, tmp_path / "folder")

    def said(source: Path, scratch: str) -> str:
        with pytest.raises(SourceError) as caught:
            obtain(tiny_fork, str(source), tmp_path / scratch)
        return caught.value.message

    assert "it holds no NCCL (no version in makefiles/version.mk)" in said(folder / "src", "1")
    version(folder, patch=8)
    assert "it is NCCL 9.9.8-1, not 9.9.9-1: its tree is" in said(folder, "2")
    version(folder, patch=9)
    assert "it is not as published: a file was changed, is missing, or was added" in said(folder, "3")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "another history")
    assert "it is not as published" in said(folder, "4")
    version(folder, patch=8)
    lacks = f"this git repository has no commit {pin.commit[:12]} (v9.9.9-1)"
    assert f"{lacks}, and NCCL 9.9.8-1 is checked out" in said(folder, "5")
    git(folder, "clone", "--quiet", "--bare", ".", str(tmp_path / "bare"))
    assert said(tmp_path / "bare", "6").endswith(lacks)
    (tmp_path / "text").write_text("no archive")
    assert "is no readable tar archive" in said(tmp_path / "text", "7")


def version(tree: Path, *, patch: int) -> None:
    (tree / "makefiles").mkdir(exist_ok=True)
    text = f"NCCL_MAJOR   := 9\nNCCL_MINOR   := 9\nNCCL_PATCH   := {patch}\nPKG_REVISION := 1\n"
    (tree / "makefiles" / "version.mk").write_text(text)


def test_a_repository_without_the_tag_says_so(tiny_fork: TinyFork, tmp_path: Path) -> None:
    git(tiny_fork.upstream, "tag", "--delete", "v9.9.9-1")
    with pytest.raises(SourceError, match=r"(?m)^  file:\S* has no v9\.9\.9-1$"):
        obtain(tiny_fork, tiny_fork.upstream.as_uri(), tmp_path / "scratch")


def test_a_folder_that_cannot_be_read_whole_is_named(tiny_fork: TinyFork, tmp_path: Path) -> None:
    folder = as_folder(tiny_fork, tmp_path / "folder")
    os.mkfifo(folder / "src" / "pipe")
    with pytest.raises(SourceError, match=r"cannot copy all of .*folder, as .*src/pipe: .*named pipe"):
        obtain(tiny_fork, str(folder), tmp_path / "scratch")


def test_a_matching_sha1_alone_is_not_enough(tiny_fork: TinyFork) -> None:
    text = tiny_fork.layout.pin.read_text()
    good = load_pin(tiny_fork.layout.pin).tree_sha256
    tiny_fork.layout.pin.write_text(text.replace(good, "0" * 64))
    with pytest.raises(SourceError, match=r"SHA-256 tree is [0-9a-f]{64}, but the pin says 0{64}"):
        verify(tiny_fork.upstream, load_pin(tiny_fork.layout.pin))


def test_a_source_that_was_asked_for_is_the_only_one_tried(tiny_fork: TinyFork, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist") as caught:
        obtain(tiny_fork, str(tmp_path / "absent"), tmp_path / "scratch")
    assert "apt" not in caught.value.message


def test_searched_in_order_and_every_failure_is_told(
    tiny_fork: TinyFork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cache empty, upstream gone: apt is asked last, and what each said is in the error."""
    shutil.rmtree(tiny_fork.upstream)

    def no_apt(*_: object) -> None:
        raise SourceError("no mirror is set up")

    monkeypatch.setattr(sources_module, "fetch_through_apt", no_apt)
    with pytest.raises(SourceError) as caught:
        obtain(tiny_fork, None, tmp_path / "scratch")
    told = [caught.value.message.index(part) for part in ("cache: nothing", "git: failed", "apt: no mirror")]
    assert told == sorted(told)
    assert SOURCE_VARIABLE in str(caught.value)


def test_apt_is_used_when_upstream_is_out_of_reach(
    tiny_fork: TinyFork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = as_tar(tiny_fork, tmp_path / "orig.tar.gz")
    shutil.rmtree(tiny_fork.upstream)
    monkeypatch.setattr(
        sources_module, "fetch_through_apt", lambda _a, _s, target: sources_module.unpack_tar(archive, target)
    )
    assert obtain(tiny_fork, None, tmp_path / "scratch")[1] == "apt"


def test_the_option_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen_source(None) is None
    monkeypatch.setenv(SOURCE_VARIABLE, "from-environment")
    assert chosen_source(None) == "from-environment"
    assert chosen_source("option") == "option"


def test_finds_the_archive_in_what_apt_prints(repository: Path) -> None:
    listing = (repository / "tests" / "data" / "apt" / "print-uris.txt").read_text()
    uri = find_uri(listing, "nvidia-nccl_2.29.7-1.orig.tar.gz")
    assert uri.startswith("http://mirror.example/") and uri.endswith("/nvidia-nccl_2.29.7-1.orig.tar.gz")
    with pytest.raises(SourceError, match=r"has no nvidia-nccl_2\.30\.0-1.*only .*2\.29\.7-1\.orig"):
        find_uri(listing, "nvidia-nccl_2.30.0-1.orig.tar.gz")


def test_apt_writes_to_the_scratch_directory_alone(tmp_path: Path) -> None:
    options = dict(option.split("=", 1) for option in isolated(tmp_path / "x", {})[1::2])
    written = {name: value for name, value in options.items() if name.startswith("Dir::") and value != "/dev/null"}
    assert set(written) >= {"Dir::State", "Dir::State::lists", "Dir::Cache"}
    assert all(Path(value).is_relative_to(tmp_path / "x") for value in written.values())


def test_a_helper_of_a_slow_command_is_ended_too(tmp_path: Path) -> None:
    """As git's transport helper: it holds the pipe, so that only ending the whole group returns in time."""
    started = tmp_path / "started"
    script = f"sh -c 'echo $$ > {started}; exec sleep 60' & wait"
    with pytest.raises(SourceError, match="gave up after 5 s"):
        run_bounded(["sh", "-c", script], timeout_s=5)
    helper = started.read_text().strip()
    until(lambda: not words_of(helper), "the helper lives on")


def test_a_failed_command_quotes_its_last_words() -> None:
    with pytest.raises(SourceError, match=r"exit code 7(.|\n)*\| because"):
        run_bounded(["sh", "-c", "echo because >&2; exit 7"], timeout_s=LIMIT_S)
    with pytest.raises(SourceError, match="cannot start no-such-program"):
        run_bounded(["no-such-program"], timeout_s=LIMIT_S)


@pytest.mark.parametrize("damage", ["", "version = 1 2", 'version = "1"\n'])
def test_a_damaged_pin_is_named(tmp_path: Path, damage: str) -> None:
    (tmp_path / "pin.toml").write_text(damage)
    with pytest.raises(UsageError, match=r"pin\.toml"):
        load_pin(tmp_path / "pin.toml")


@pytest.mark.network
def test_the_distribution_still_has_the_pinned_archive(repository: Path, tmp_path: Path) -> None:
    pin = load_pin(Layout(repository).pin)
    assert pin.archive is not None
    if not shutil.which("apt-get") or not host_mirrors():
        pytest.skip("no apt mirror is configured here")
    (tmp_path / "tree").mkdir()
    try:
        fetch_through_apt(pin.archive, tmp_path / "scratch", tmp_path / "tree")
    except SourceError as error:
        pytest.skip(f"not to be had from here: {error.message.splitlines()[-1]}")
    verify(tmp_path / "tree", pin)
    assert tree_hash(tmp_path / "tree") == pin.tree


@pytest.mark.network
def test_upstream_still_has_the_pinned_commit(repository: Path, tmp_path: Path) -> None:
    pin = load_pin(Layout(repository).pin)
    (tmp_path / "tree").mkdir()
    try:
        from_git(pin.repository, f"refs/tags/{pin.tag}", tmp_path / "tree")
    except R2ccError as error:
        pytest.skip(f"upstream is out of reach: {error.message.splitlines()[-1]}")
    assert tree_hash(tmp_path / "tree") == pin.tree
