"""What a failed step of a deploy says about its host, and what to do: it differs from failure to failure."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from harness.deploy import remote
from harness.deploy.build import Build
from harness.errors import InfraError
from harness.hosts import LocalHost

pytestmark = pytest.mark.skipif(shutil.which("flock") is None, reason="no flock (util-linux)")
HOST = LocalHost("n1")


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """Two builds of one file each; `two` is current, `one` was before."""
    (tmp_path / "incoming").mkdir()
    (tmp_path / "owner").write_text("token\nme\n")
    for name in ("one", "two"):
        folder = tmp_path / "builds" / name
        folder.mkdir(parents=True)
        (folder / "tool").write_text(name)
        (folder / "manifest").write_text(f"{hashlib.sha256(name.encode()).hexdigest()}  tool\n")
    (tmp_path / "current").symlink_to("builds/two")
    (tmp_path / "previous").symlink_to("builds/one")
    return tmp_path


def _said(prefix: Path, token: str = "token") -> str:
    with pytest.raises(InfraError) as caught:
        remote.rollback(HOST, str(prefix), token)
    return str(caught.value)


def test_of_a_damaged_build(prefix: Path) -> None:
    (prefix / "builds" / "one" / "tool").write_text("another")
    said = _said(prefix)
    assert "checksums differ" in said and "the earlier build is damaged, and what was current still is" in said
    assert (prefix / "current").readlink() == Path("builds/two")


def test_of_a_lock_that_another_one_has_now(prefix: Path) -> None:
    said = _said(prefix, "of_before")
    assert "the lock was lost meanwhile" in said and "nothing was changed on this host" in said
    assert "--list" not in said


def test_in_the_midst_nobody_knows_what_is_current(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has switched, and dies before `previous` is another one."""
    move = tmp_path / "path" / "mv"
    move.parent.mkdir()
    move.write_text(f'#!/bin/sh\n[ "$4" != previous ] || exit 1\nexec {shutil.which("mv")} "$@"\n')
    move.chmod(0o755)
    monkeypatch.setenv("PATH", str(move.parent), prepend=":")
    said = _said(prefix)
    assert (prefix / "current").readlink() == Path("builds/one"), "it has gone back"
    assert "r2cc deploy --list says which build is current there" in said and "still is" not in said


def test_a_deploy_that_ends_in_the_midst_may_have_switched(prefix: Path) -> None:
    (prefix / "incoming").rmdir()
    with pytest.raises(InfraError, match="n1: install: ") as caught:
        remote.install(HOST, str(prefix), Build((), "two"), "token")
    assert "says which build is current there" in str(caught.value)
