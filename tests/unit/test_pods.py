"""Pods as hosts: the commands for kubectl, and what its ends mean. The kubectl is a script here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.errors import CommandError, InputErrors, PodError
from harness.hosts.pods.hosts import PodHost
from harness.hosts.pods.target import Placed, PodTarget, failed, placed, running
from harness.sites.inventory_file import parse

POD = PodTarget("w0", "train-0", "train", "main", "prod")
RUNS = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift\n"$@"; code=$?\n'
SAYS = RUNS + '[ $code = 0 ] || echo "command terminated with exit code $code" >&2\nexit $code\n'


def kubectl(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> PodHost:
    (folder / "kubectl").write_text(text)
    (folder / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return PodHost("w0", POD)


def test_the_command() -> None:
    where = ["kubectl", "--context", "prod", "--namespace", "train"]
    assert POD.exec(["true"]) == [*where, "exec", "--stdin", "--quiet", "--container", "main", "train-0", "--", "true"]
    words = ["kubectl", "--namespace", "default", "exec", "--stdin", "--quiet", "w0", "--", "a", "b"]
    assert PodTarget("w0", "w0", "default").exec(["a", "b"]) == words


def test_what_a_command_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = kubectl(tmp_path, SAYS, monkeypatch)
    done = host.run(["sh", "-c", "cat; echo $X; echo no >&2; exit 7"], env={"X": "y"}, input="in\n", check=False)
    assert (done.exit_code, done.stdout, done.stderr) == (7, "in\ny\n", "no\n")
    assert host.run(["sh", "-c", "kill -9 $$"], check=False).exit_code == -9
    with pytest.raises(CommandError, match="cannot start no-such-program"):
        host.run(["no-such-program"])
    with pytest.raises(CommandError, match=r"still ran after 0\.2 s"):
        host.run(["sleep", "60"], timeout_s=0.2)


def test_a_kubectl_that_fails_is_no_command_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing of an exit code, so nobody knows what became of the command."""
    host = kubectl(tmp_path, RUNS + "echo error: connection reset >&2; exit 1\n", monkeypatch)
    with pytest.raises(PodError, match=r"pod train/train-0 \(main\) was lost: while it ran true") as caught:
        host.run(["true"])
    assert caught.value.kind == "lost"


def test_pods_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = kubectl(
        tmp_path, "#!/bin/sh\necho 'Error (NotFound): pods \"train-0\" not found' >&2; exit 1\n", monkeypatch
    )
    with pytest.raises(PodError, match='pods "train-0" not found') as caught:
        host.run(["true"])
    assert caught.value.kind == "unreachable"
    kubectl(tmp_path, "#!/bin/sh\necho '{\"items\": []}'\n", monkeypatch)
    with pytest.raises(PodError, match=r"w0: pod train/train-0 \(main\) does not run"):
        placed([POD])
    kubectl(tmp_path, "#!/bin/sh\necho nonsense\n", monkeypatch)
    with pytest.raises(PodError, match="is no list of pods"):
        placed([POD])
    assert failed("x", "Error from server (Forbidden): no\n").kind == "auth"


def test_an_image_without_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = 'exec: \\"sh\\": executable file not found in $PATH: unknown'
    host = kubectl(tmp_path, f"#!/bin/sh\necho '{said}' >&2; exit 126\n", monkeypatch)
    with pytest.raises(CommandError, match="runs no commands") as caught:
        host.run(["true"])
    assert caught.value.hint == "its image needs a shell (sh)"


def test_only_pods_that_run_count() -> None:
    text = """{"items": [
      {"metadata": {"name": "a"}, "spec": {"nodeName": "n"},
       "status": {"phase": "Running", "podIP": "1", "hostIP": "2"}},
      {"metadata": {"name": "b"}, "spec": {}, "status": {"phase": "Pending"}},
      {"metadata": {"name": "c", "deletionTimestamp": "now"}, "spec": {}, "status": {"phase": "Running"}}]}"""
    assert running(text) == {"a": Placed("n", "2", "1")}


def test_an_inventory_of_pods(tmp_path: Path) -> None:
    text = "schema: 1\npods: {namespace: train, agents: r2cc}\nhosts:\n  - {name: 'w[0-1]', address: 'p[5-6]'}\n"
    hosts = parse(text, "pods.yaml", config=None, home=tmp_path)
    assert [host.target for host in hosts] == [
        PodTarget(f"w{index}", f"p{index + 5}", "train", agents="r2cc") for index in (0, 1)
    ]
    with pytest.raises(InputErrors, match="'port' is for SSH, and the hosts of this file are pods"):
        parse(text.replace("address", "port: 22, address"), "pods.yaml", config=None, home=tmp_path)
