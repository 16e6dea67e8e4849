"""The shells that change a host are killed at any of their steps: `current` leads to a whole build, then and later."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from harness.deploy import build as builds
from harness.deploy import deploy as work
from harness.deploy import remote
from harness.deploy.build import Build
from harness.hosts import LocalHost

pytestmark = pytest.mark.skipif(shutil.which("flock") is None, reason="no flock (util-linux)")

LIMIT_S = 60.0
COMMANDS = [
    "mkdir", "mv", "ln", "rm", "cat", "sed", "sort", "sha256sum", "touch", "sync", "readlink", "flock", "ls", "comm",
]  # fmt: skip
KILLER = """\
#!/bin/sh
read -r n <"$R2CC_COUNT"; n=$((n + 1)); echo $n >"$R2CC_COUNT"
if [ $n -eq "$R2CC_AT" ] && [ "$R2CC_WHEN" = before ]; then kill -9 $PPID; exit 1; fi
REAL "$@"; code=$?
if [ $n -eq "$R2CC_AT" ]; then kill -9 $PPID; fi
exit $code
"""


def _build(root: Path, text: str) -> Build:
    for name in ("same", "other"):
        (root / "lib").mkdir(parents=True, exist_ok=True)
        (root / "lib" / name).write_text("same\n" if name == "same" else text)
    (root / "build.json").write_text(json.dumps({"build_id": f"b{text}"}))
    return builds.folder(root)


def _deploy(build: Build, prefix: Path) -> None:
    hosts = {"n1": LocalHost("n1")}
    planned = work.plan(hosts, {"n1": str(prefix)}, lambda _: build)
    outcome = work.deploy(hosts, planned, "me", keep=3, told=lambda _host, _what: None)["n1"]
    assert outcome.error is None, outcome.error


def _whole(prefix: Path) -> str:
    assert (prefix / "current").is_symlink()
    for line in (prefix / "current" / "manifest").read_text().splitlines():
        digest, path = line.split("  ", 1)
        assert hashlib.sha256((prefix / "current" / path).read_bytes()).hexdigest() == digest
    return (prefix / "current").resolve().name


def _ready(name: str, model: Path, old: Build, new: Build) -> tuple[list[str], str, set[str]]:
    """A prefix on which the script is to run next, its words and input, and what may be current afterwards."""
    _deploy(old, model)
    if name != "install":
        _deploy(new, model)
    (model / "owner").write_text("token\nme\n")
    (model / "incoming").mkdir(exist_ok=True)
    if name == "rollback":
        return ["token"], "", {old.name, new.name}
    if name == "prune":
        (model / "objects" / "unused").touch()
        shutil.copytree(model / "builds" / old.name, model / "builds" / "older")
        os.utime(model / "builds" / "older", (1, 1))
        return ["1", "token"], "", {new.name}
    for digest, file in new.objects.items():
        shutil.copy(file.local, model / "objects" / digest)
    return [new.name, "token"], new.manifest, {old.name, new.name}


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["install", "prune", "rollback"])
def test_killed_at_any_step_the_old_build_or_the_new_one_is_whole(
    name: str, stride: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell is killed before its nth command, or after it; then the script runs again."""
    old, new, model = _build(tmp_path / "b1", "1"), _build(tmp_path / "b2", "2"), tmp_path / "model"
    words, input, outcomes = _ready(name, model, old, new)
    (tmp_path / "path").mkdir()
    for command in COMMANDS:
        file = tmp_path / "path" / command
        file.write_text(KILLER.replace("REAL", shutil.which(command) or command))
        file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/path:{os.environ['PATH']}")
    monkeypatch.setenv("R2CC_COUNT", str(tmp_path / "count"))
    seen, at, ended = set(), 0, False
    while not ended:
        at += stride
        prefix = tmp_path / f"p{at}"
        shutil.copytree(model, prefix, symlinks=True)
        monkeypatch.setenv("R2CC_WHEN", "before" if at // stride % 2 else "after")
        monkeypatch.setenv("R2CC_AT", str(at))
        (tmp_path / "count").write_text("0\n")
        argv = remote.argv(name, str(prefix), *words)
        LocalHost().run(argv, input=input, check=False, timeout_s=LIMIT_S)
        ended = int((tmp_path / "count").read_text()) < at
        seen.add(_whole(prefix))
        monkeypatch.setenv("R2CC_AT", "0")
        again = LocalHost().run(argv, input=input, check=False, timeout_s=LIMIT_S)
        assert again.exit_code == 0 or (name == "rollback" and "no previous build" in again.stderr), again.stderr
        assert _whole(prefix) in outcomes
        shutil.rmtree(prefix)
    assert at > 10
    assert seen == outcomes
