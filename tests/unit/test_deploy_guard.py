"""A prefix that somebody else can write is refused before anything is copied: what is planted there is not followed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.deploy import build as builds
from harness.deploy import deploy as work
from harness.deploy import remote
from harness.deploy.build import Build
from harness.errors import InfraError, InputErrors
from harness.files.scratch import scratch
from harness.hosts import LocalHost

pytestmark = pytest.mark.skipif(shutil.which("flock") is None, reason="no flock (util-linux)")
OTHER = 12345
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def made(tmp_path: Path) -> Build:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "tool").write_text("x")
    (tmp_path / "b" / "build.json").write_text('{"build_id": "b1"}')
    return builds.folder(tmp_path / "b")


def _deploy(build: Build, prefix: Path | str) -> None:
    hosts, prefixes = {"n1": LocalHost("n1")}, {"n1": str(prefix)}
    planned = work.plan(hosts, prefixes, lambda _: build)
    outcome = work.deploy(hosts, planned, "me", keep=3, told=lambda _host, _what: None)["n1"]
    assert outcome.error is None, outcome.error


def _refused(build: Build, prefix: Path, why: str) -> None:
    """By the look at the host, and by the lock, which looks again."""
    before = sorted(prefix.rglob("*"))
    with pytest.raises(InputErrors, match=why):
        _deploy(build, prefix)
    with pytest.raises(InfraError, match=why), remote.locked(LocalHost("n1"), str(prefix), "token", "me"):
        pass
    assert sorted(prefix.rglob("*")) == before


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757, 0o2777])
def test_a_prefix_that_others_can_write(tmp_path: Path, made: Build, mode: int) -> None:
    prefix = tmp_path / "p"
    prefix.mkdir()
    prefix.chmod(mode)
    _refused(made, prefix, rf"{prefix} belongs to \w+, group \w+, mode {mode:o}: others can write there")


@pytest.mark.parametrize("inner", ["p", "a/b/p"])
def test_a_folder_on_the_way_that_others_can_write(tmp_path: Path, made: Build, inner: str) -> None:
    way = tmp_path / "way"
    way.mkdir()
    way.chmod(0o777)
    _refused(made, way / inner, f"{way} belongs to .*mode 777: others can write there")


def test_a_folder_that_the_way_leads_to_by_a_link(tmp_path: Path, made: Build) -> None:
    real = tmp_path / "open" / "real"
    real.mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(real)
    _refused(made, tmp_path / "link" / "p", f"{tmp_path / 'open'} belongs to")


def test_where_others_may_write_but_not_remove_one_may_have_a_folder(tmp_path: Path, made: Build) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    _deploy(made, tmp_path / "tmp" / "p")
    _deploy(made, f"{tmp_path}/tmp/p/")


@pytest.mark.parametrize(
    "name",
    ["owner.new", "owner", "deploy.lock", "switch.lock", "objects", "builds", "incoming", "objects/x", "builds/x"],
)
def test_what_is_planted_in_it_is_not_followed(tmp_path: Path, made: Build, name: str) -> None:
    prefix, victim = tmp_path / "p", tmp_path / "victim"
    (prefix / name).parent.mkdir(parents=True)
    victim.write_text("precious")
    (prefix / name).symlink_to(victim)
    _refused(made, prefix, f"{prefix / name} is a link, which deploy never makes")
    assert victim.read_text() == "precious"


def _give(path: Path) -> None:
    os.chown(path, OTHER, OTHER)


@as_root
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_give, r"{prefix} belongs to \S+, group \S+, mode 755: its owner can change"),
        (lambda prefix: _give(prefix.parent), "{parent} belongs to"),
        (lambda prefix: _give(prefix / "objects"), "{prefix}/objects belongs to .*: it is not ours"),
        (lambda prefix: _give(prefix / "builds" / "old"), "{prefix}/builds/old belongs to .*: it is not ours"),
    ],
)
def test_what_belongs_to_somebody_else(tmp_path: Path, made: Build, spoil: Callable[[Path], None], why: str) -> None:
    prefix = tmp_path / "way" / "p"
    for name in ("objects", "builds/old"):
        (prefix / name).mkdir(parents=True)
    spoil(prefix)
    _refused(made, prefix, why.format(prefix=prefix, parent=prefix.parent))


@as_root
def test_a_group_that_can_write(tmp_path: Path, made: Build) -> None:
    prefix = tmp_path / "p"
    prefix.mkdir()
    prefix.chmod(0o775)
    _deploy(made, prefix)
    os.chown(prefix, 0, OTHER)
    with pytest.raises(InputErrors, match=f"{prefix} belongs to root, group .*mode 775: others can write there"):
        _deploy(made, prefix)


HELD = """
import sys
from harness.deploy import deploy
from harness.files.scratch import scratch
with scratch("r2cc-deploy-") as folder:
    (folder / "packed").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_deployer_left_in_tmp_goes_with_the_next(
    tmp_path: Path, made: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen(
        [sys.executable, "-c", HELD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
    ) as doomed:
        assert doomed.stdout is not None
        left = Path(doomed.stdout.readline().decode().strip())
        doomed.send_signal(signal.SIGKILL)
    assert left.parent == tmp_path / "tmp" and left.exists()
    _deploy(made, tmp_path / "p")
    assert not list((tmp_path / "tmp").iterdir())
    with scratch("r2cc-deploy-") as folder:
        assert folder.parent == tmp_path / "tmp"
