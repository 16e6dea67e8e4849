"""`r2cc lab` as its users type it, and the same as a plain user without any privilege."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from waits import LIMIT_S, until

pytestmark = pytest.mark.lab

REPO = Path(__file__).parents[2]
PACKAGES = sysconfig.get_path("purelib")
RUN = (
    "import sys, click; from harness import cli; from harness.commands.lab import lab; "
    "cli.cli.add_command(lab); cli.main()"
)
NOBODY = 65534
TTL_S = "600"
"""Far longer than a test takes: each command is a Python that starts, late on a busy machine."""


@dataclass
class User:
    """Someone who types r2cc commands: ourselves, or a user with no rights at all."""

    home: Path
    python: str = sys.executable
    prefix: list[str] = field(default_factory=list)

    def command(self, *arguments: str) -> list[str]:
        return [*self.prefix, self.python, "-c", RUN, *arguments]

    def environment(self) -> dict[str, str]:
        # No sbin in PATH, as for a user of Debian: ip and nft must be found all the same.
        path = "/usr/local/bin:/usr/bin:/bin"
        search = os.pathsep.join([str(REPO), PACKAGES])
        return {"PATH": path, "HOME": str(self.home), "PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1"}

    def r2cc(self, *arguments: str, input: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            env=self.environment(),
            cwd="/",
            input=input,
            capture_output=True,
            text=True,
            timeout=60,
        )


def ourselves() -> Iterator[User]:
    with tempfile.TemporaryDirectory() as home:
        yield User(Path(home))


def nobody() -> Iterator[User]:
    """Really another user id, without groups or capabilities, running a Python that it may read."""
    if os.geteuid() != 0:
        pytest.skip("we are a plain user already: the other tests cover it")
    prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env"]
    with tempfile.TemporaryDirectory() as home:
        os.chown(home, NOBODY, NOBODY)
        for python in dict.fromkeys([sys.executable, "/usr/bin/python3"]):
            user = User(Path(home), python, prefix)
            probe = [*prefix, python, "-c", "import click, pydantic, pyroute2, yaml, harness"]
            if not subprocess.run(probe, env=user.environment(), cwd="/", capture_output=True).returncode:
                yield user
                return
    pytest.skip("no Python with our packages that a plain user may read")


@pytest.fixture(scope="module", params=[ourselves, nobody], ids=lambda make: make.__name__)
def user(request: pytest.FixtureRequest) -> Iterator[User]:
    yield from request.param()


@pytest.fixture
def lab(user: User) -> Iterator[User]:
    up = user.r2cc("lab", "up", "small", "--ttl", TTL_S)
    assert up.returncode == 0, up.stderr
    assert "lab 'lab' is up after" in up.stdout
    assert up.stderr == ""
    yield user
    user.r2cc("lab", "down")


def on(user: User, host: str, *argv: str, input: str = "") -> subprocess.CompletedProcess[str]:
    return user.r2cc("lab", "exec", host, "--", *argv, input=input)


def test_exec_gives_output_input_and_exit_code(lab: User) -> None:
    done = on(lab, "h1", "sh", "-c", "hostname; cat; echo err >&2; exit 7", input="in")
    assert (done.returncode, done.stdout, done.stderr) == (7, "h1\nin", "err\n")
    assert on(lab, "h1", "sh", "-c", "kill -9 $$").returncode == 128 + 9
    assert lab.r2cc("lab", "exec", "h0", "hostname").stdout == "h0\n"


def test_faults_work_for_this_user(lab: User) -> None:
    def carrier() -> str:
        return on(lab, "h1", "cat", "/sys/class/net/eth0/carrier").stdout.strip()

    assert carrier() == "1"
    assert on(lab, "switch", "ip", "link", "set", "h1-eth0", "down").returncode == 0
    assert carrier() == "0"
    assert on(lab, "switch", "ip", "link", "set", "h1-eth0", "up").returncode == 0
    rules = 'table netdev t { chain c { type filter hook ingress device "h1-eth0" priority 0; drop; }; }'
    for rule in (rules, rules.replace("netdev", "bridge").replace('ingress device "h1-eth0"', "forward")):
        done = on(lab, "switch", "nft", "-f", "-", input=rule)
        assert (done.returncode, done.stderr) == (0, "")
    tbf = ["tc", "qdisc", "change", "dev", "eth0", "root", "tbf", "rate", "10mbit", "burst", "128kb", "limit", "99999"]
    slower = on(lab, "h0", *tbf)
    assert (slower.returncode, slower.stderr) == (0, "")


def test_status_tells_people_and_programs(lab: User) -> None:
    assert "lab: 2 hosts x 2 NICs x 0.5 Gbit/s, mtu 9000, up for" in lab.r2cc("lab", "status").stdout
    (found,) = json.loads(lab.r2cc("lab", "status", "--json").stdout)["labs"]
    assert (found["name"], found["hosts"], found["nics"], found["owner_pid"]) == ("lab", 2, 2, None)
    assert 0 < found["left_s"] <= int(TTL_S)
    owner = Path(f"/proc/{found['keeper_pid']}").stat().st_uid if not lab.prefix else NOBODY
    assert owner == (NOBODY if lab.prefix else os.geteuid())


def test_mistakes_are_usage_errors(lab: User) -> None:
    taken = lab.r2cc("lab", "up")
    assert (taken.returncode, taken.stdout) == (2, "")
    assert "already up" in taken.stderr
    wrong = on(lab, "h9", "true")
    assert wrong.returncode == 2
    assert "one of: h0, h1, switch" in wrong.stderr
    assert lab.r2cc("lab", "exec", "--name", "other", "h0", "true").returncode == 2
    assert lab.r2cc("lab", "up", "--name", "../x").returncode == 2
    assert lab.r2cc("lab", "up", "--name", "b", "--ttl", "0").returncode == 2
    assert lab.r2cc("lab", "up", "--name", "b", "./absent.yaml").returncode == 2
    assert on(lab, "h0", "no-such-program").returncode == 3


def test_down_is_idempotent(user: User) -> None:
    assert user.r2cc("lab", "up", "small", "--name", "two", "--ttl", TTL_S, "--json").returncode == 0
    assert user.r2cc("lab", "down", "--name", "two").stdout == "lab 'two' is down\n"
    again = user.r2cc("lab", "down", "--name", "two")
    assert (again.returncode, again.stdout) == (0, "lab 'two' was not up\n")
    assert json.loads(user.r2cc("lab", "status", "--json").stdout) == {"schema": 1, "labs": []}
    assert user.r2cc("lab", "status").stdout == "no lab is up (r2cc lab up)\n"


def test_up_describes_itself_as_json(user: User) -> None:
    done = user.r2cc("lab", "up", "small", "--name", "j", "--ttl", TTL_S, "--json")
    try:
        told = json.loads(done.stdout)
        assert told["hosts"] == ["h0", "h1"]
        assert told["nics"][0]["switch_port"] == "h0-eth0"
    finally:
        user.r2cc("lab", "down", "--name", "j")


def test_an_exec_that_is_killed_takes_its_command_along(lab: User) -> None:
    client = subprocess.Popen(
        lab.command("lab", "exec", "h0", "--", "sh", "-c", "echo started; exec sleep 6543"),
        env=lab.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        cwd="/",
    )
    assert client.stdout is not None
    assert client.stdout.readline() == b"started\n"
    client.kill()
    client.wait(LIMIT_S)
    client.stdout.close()
    until(lambda: "6543" not in on(lab, "h0", "ps", "ax").stdout)


@pytest.mark.skipif(shutil.which("nsenter") is None, reason="nsenter is not installed (util-linux)")
def test_a_terminal_gets_a_real_shell(lab: User) -> None:
    """Through nsenter, so that the shell has a controlling terminal and job control."""
    output = in_terminal(
        lab, lab.command("lab", "exec", "h1", "--", "sh", "-c", "tty; hostname; ls /sys/class/net; exit 5")
    )
    assert "/dev/" in output
    assert "h1" in output
    assert "mgmt0" in output
    assert "code 5" in output


def in_terminal(user: User, command: Sequence[str]) -> str:
    """What a command shows on a terminal of its own, then `code N`."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir("/")
        os.execvpe(command[0], list(command), user.environment())
    parts = []
    try:
        while part := os.read(terminal, 4096):
            parts.append(part.decode())
    except OSError:  # how Linux says that the other end of a terminal is closed
        pass
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return "".join(parts) + f"code {code}"
