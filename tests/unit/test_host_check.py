"""All hosts at once, and what is known of host keys; no network."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from host_double import FakeHost
from paramiko import Ed25519Key, HostKeys
from paramiko.hostkeys import HostKeyEntry

from harness.errors import CommandError, SshError, UsageError
from harness.hosts.check import answers, check
from harness.hosts.parallel import Outcome, on_all
from harness.hosts.remote import preamble
from harness.hosts.ssh import link
from harness.hosts.ssh.command import remote_line
from harness.hosts.ssh.keys import known_hosts
from harness.hosts.ssh.target import Target
from harness.schemas import dumped


def test_one_failure_hides_nothing() -> None:
    hosts = {"good": FakeHost("good"), "bad": FakeHost("bad").answer("true", exit_code=1, stderr="no room")}
    heard: list[str] = []
    checked = check(hosts, lambda outcome: heard.append(outcome.host))
    assert sorted(heard) == ["bad", "good"]
    assert [outcome.host for outcome in checked.failed] == ["bad"]
    assert (len(hosts["good"].commands), len(hosts["bad"].commands)) == (2, 1)
    told = json.loads(dumped(answers(checked, "lab", hosts)))
    assert [(host["name"], host["ok"]) for host in told["hosts"]] == [("good", True), ("bad", False)]
    assert told["hosts"][1]["error"]["kind"] == "command"
    assert "no room" in told["hosts"][1]["error"]["message"]


def test_a_line_has_the_name_of_its_host_once() -> None:
    outcome = Outcome[None]("h0", None, SshError("unreachable", "h0: cannot reach h0: no route", "ask"), 0.1)
    assert outcome.why == "cannot reach h0: no route\n  try: ask"


def test_what_to_type_for_a_host_that_refuses_names_the_user() -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(SshError, match="cannot reach alice@127") as caught:
            link._dial(Target("n1", "127.0.0.1", "alice", port))
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(f"ssh -v -p {port} alice@127.0.0.1;")


def test_work_runs_at_the_same_time_and_a_mistake_of_ours_is_one_hosts() -> None:
    both = threading.Barrier(2, timeout=60)

    def wrong() -> int:
        both.wait()
        return 1 // 0

    outcomes = on_all({"a": both.wait, "b": wrong})
    assert outcomes["a"].error is None
    assert "b: internal error, please report it: ZeroDivisionError" in str(outcomes["b"].error)


def test_the_callers_mistakes_are_the_callers() -> None:
    def told(_outcome: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        on_all({"a": lambda: 1}, told)


@pytest.mark.parametrize(
    ("env", "ok"),
    [({"A": "x y'\";$(id)"}, True), ({"A": "1\n2"}, False), ({"A B": "1"}, False), ({"A;id": "1"}, False)],
)
def test_the_environment_is_sent_as_data(env: dict[str, str], ok: bool) -> None:
    if ok:
        assert preamble("h", env) == f"A={env['A']}\n\n".encode()
        return
    with pytest.raises(UsageError, match="cannot be set there"):
        preamble("h", env)


def test_the_remote_line_is_quoted_words(tmp_path: Path) -> None:
    nasty = f"$(touch {tmp_path}/owned);`id`'\n\"!"
    done = subprocess.run(
        ["sh", "-c", remote_line(["printf", "%s", nasty])], input=b"\n", capture_output=True, check=True
    )
    assert done.stdout.partition(b"r2cc-pid ")[2].split(b"\n", 1)[1] == nasty.encode()
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def keys() -> list[str]:
    """Two public keys."""
    made = [Ed25519PrivateKey.generate().public_key() for _ in range(2)]
    return [key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode() for key in made]


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ("h1 {a}", None),
        ("h1 {b}\nh1 {a}", None),
        ("other,h1 {a}", None),
        ("h? {a}", None),
        ("*,!h1 {a}", "unknown_host_key"),
        ("h2 {a}\n\n# h1 {a}\nnonsense\nh1 ssh-ed25519 ####", "unknown_host_key"),
        ("@cert-authority * {a}", "unknown_host_key"),
        ("[h1]:2222 {a}", "unknown_host_key"),
        ("h1 {b}", "changed_host_key"),
        ("h1 {a}\n@revoked * {a}", "revoked_host_key"),
        ("h1 {a}\n@revoked * {b}", None),
    ],
)
def test_host_keys_are_believed_as_openssh_does(lines: str, kind: str | None, keys: list[str], tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(lines.format(a=keys[0], b=keys[1]))
    entry = HostKeyEntry.from_line(f"h1 {keys[0]}")
    assert entry is not None
    assert isinstance(entry.key, Ed25519Key)
    target = Target("n1", "h1", "u", known_hosts=(file,))
    if kind is None:
        known_hosts((file,)).check(target, entry.key)
        return
    with pytest.raises(SshError) as caught:
        known_hosts((file,)).check(target, entry.key)
    assert (caught.value.kind, caught.value.exit_code) == (kind, 3)
    assert "SHA256:" in caught.value.message


def test_hashed_names_are_found(keys: list[str], tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"{HostKeys.hash_host('h1')} {keys[0]}\n")
    assert known_hosts((file,)).types("h1") == ["ssh-ed25519"]
    assert known_hosts((file,)).types("h2") == []


def test_an_error_without_ssh_is_a_commands() -> None:
    checked = check({"x": FakeHost("x").answer("true", exit_code=9)})
    assert isinstance(checked.failed[0].error, CommandError)
