"""The lease of a host: who has it, and that it ends with its controller, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from waits import until

from harness.errors import InfraError
from harness.hosts import LocalHost
from harness.hosts.lease import Holder, hold, holder_of, me, parse_holder, take_away

ALICE = Holder("alice", "desk", 12, "2026-01-02T03:04:05+0000", "r2cc chaos run flap.yaml")
HOLD = """
import time
from harness.hosts import LocalHost
from harness.hosts.lease import Holder, hold
with hold({"n1": LocalHost("n1")}, silence_s=3.0, holder=Holder("bob", "lap", 7, "now", "r2cc chaos run")):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As another user, whose state is below HOME: root's is the machine's own."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "id").write_text("#!/bin/sh\necho 1000\n")
    (tools / "id").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    yield


def until_free() -> None:
    until(lambda: holder_of(LocalHost("n1")) is None, "the lease outlives its controller")


def test_the_second_is_refused_with_the_firsts_name_and_may_have_it_afterwards() -> None:
    hosts = {"n1": LocalHost("n1")}
    with hold(hosts, holder=ALICE):
        assert holder_of(hosts["n1"]) == ALICE
        with pytest.raises(InfraError) as caught, hold(hosts):
            pass
        assert "n1 is used by alice@desk (pid 12, since 2026-01-02T03:04:05+0000, runs `r2cc chaos" in str(caught.value)
        assert caught.value.exit_code == 3
    assert holder_of(hosts["n1"]) is None
    with hold(hosts) as leases:
        leases.check()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_it_ends_with_a_controller_that_is_killed_or_hangs(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as first:
        try:
            assert first.stdout is not None
            assert first.stdout.readline() == b"held\n"
            time.sleep(4)
            assert str(holder_of(LocalHost("n1"))).startswith("bob@lap"), "heartbeats keep it"
            first.send_signal(number)
            until_free()
        finally:
            first.kill()


def test_one_who_only_looks_is_not_taken_for_a_holder_that_was_killed(tmp_path: Path) -> None:
    host = LocalHost("n1")
    with hold({"n1": host}, holder=ALICE):
        (named,) = tmp_path.glob(".r2cc/run/*/*/holder")
        left = named.read_text()
    named.write_text(left)  # as SIGKILL leaves it
    with subprocess.Popen(["flock", "-o", named.with_name("lease"), "cat"], stdin=subprocess.PIPE) as looks:
        until(lambda: holder_of(host) == ALICE, "it does not look")
        waits = tmp_path / "bin" / "sleep"  # who asks again waits until the look is over
        waits.write_text(f"#!/bin/sh\nkill {looks.pid}; while kill -0 {looks.pid}; do :; done\n")
        waits.chmod(0o755)
        threading.Thread(target=looks.wait).start()
        with hold({"n1": host}) as leases:
            leases.check()


def test_it_can_be_taken_away_and_its_holder_notices() -> None:
    host = LocalHost("n1")
    with hold({"n1": host}) as leases:
        take_away(host)
        until_free()
        with (
            hold({"n1": host}, holder=ALICE),
            pytest.raises(InfraError, match=r"the lease of n1 is lost: n1 .* alice@"),
        ):
            leases.check()
        leases.check()
        assert holder_of(host).pid == os.getpid(), "nobody has it: it is taken again"  # type: ignore[union-attr]


def test_what_cannot_be_read_is_still_a_holder() -> None:
    assert str(parse_holder("17 {torn")).startswith("?@?")
    assert me(["/usr/bin/r2cc", "run", "a b"]).command == "r2cc run 'a b'"
