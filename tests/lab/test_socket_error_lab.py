"""`socket_error` for real: on TCP of a program that knows nothing of us, and on NCCL's own sockets, stock and patched.

What is judged never depends on how busy the machine is, but for one bound: what is slow must not be fast.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from chaos.experiment.file import loads
from chaos.experiment.planned import planned_faults
from chaos.faults.parts.shim import ENVIRONMENT, folder
from chaos.record.journal import Journal, read
from chaos.run.actors import Actors
from chaos.run.injector import Injector
from harness.build import NetBuild, build_net
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent

pytestmark = [pytest.mark.lab, pytest.mark.build, pytest.mark.timeout(240)]

ROOT = Path(__file__).resolve().parents[2]
CLI = [sys.executable, "-c", "from harness.cli import main; main()"]
TWO_NICS = ("10.1.0.2", "10.2.0.2")
TALK = """
import fcntl, json, select, socket, struct, sys, termios, time
links = {}
if sys.argv[1] == "serve":
    for address in sys.argv[2:]:
        door = socket.create_server((address, 7007)); door.settimeout(60); links[address] = door
    print("ready", flush=True)
    links = {address: door.accept()[0] for address, door in links.items()}
    doors = [socket.create_server((address, 7008)) for address in sys.argv[2:]]
else:
    door = socket.create_server(("0.0.0.0", 7008))
    links = {address: socket.create_connection((address, 7007), 60) for address in sys.argv[2:]}
for link in links.values():
    link.setblocking(False)
print("ready", flush=True)
def send(address, size):
    try:
        return links[address].send(bytes(size))
    except OSError as error:
        return type(error).__name__
def receive(address, seconds):
    if not select.select([links[address]], [], [], seconds)[0]:
        return 0
    try:
        return len(links[address].recv(1 << 20))
    except OSError as error:
        return type(error).__name__
def pour(address, seconds):
    until, sent = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        try:
            sent += links[address].send(bytes(1 << 16))
        except BlockingIOError:
            time.sleep(0.001)
    return sent
def drain(address, seconds):
    until, got = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        try:
            got += len(links[address].recv(1 << 20))
        except BlockingIOError:
            time.sleep(0.001)
    return got
def unacknowledged(address):
    return struct.unpack("i", fcntl.ioctl(links[address], termios.TIOCOUTQ, bytes(4)))[0]
def dial(address, seconds):
    try:
        socket.create_connection((address, 7008), seconds).close()
    except OSError as error:
        return type(error).__name__
    return "connected"
for line in sys.stdin:
    name, *words = json.loads(line)
    print(json.dumps(globals()[name](*words)), flush=True)
"""


class Talk:
    """h0 and h1 with a TCP connection over each of two NICs; h1 has the library under it."""

    def __init__(self, lab: Lab, net: NetBuild, stack: ExitStack) -> None:
        self.lab = lab
        env = {"LD_PRELOAD": str(net.faults), ENVIRONMENT: str(folder())}
        self.h1 = self._start(stack, "h1", "serve", env)
        self.h0 = self._start(stack, "h0", "connect", {})
        self._heard("h1")

    def _start(self, stack: ExitStack, host: str, role: str, env: dict[str, str]) -> Any:
        theirs, ours = os.pipe2(os.O_CLOEXEC)
        process = self.lab.hosts[host].spawn([sys.executable, "-ISc", TALK, role, *TWO_NICS], env=env, stdin=theirs)
        os.close(theirs)
        stack.callback(process.close)
        stack.callback(os.close, ours)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n", process.stderr_tail(20)
        return process, ours

    def _heard(self, host: str) -> Any:
        return getattr(self, host)[0].stdout.readline()

    def tell(self, host: str, *words: Any) -> None:
        os.write(getattr(self, host)[1], (json.dumps(words) + "\n").encode())

    def ask(self, host: str, *words: Any) -> Any:
        self.tell(host, *words)
        return json.loads(self._heard(host))


@pytest.fixture(scope="module")
def net() -> NetBuild:
    return build_net(progress=silent)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.up(Topology(hosts=2, nics=2)) as made:
        yield made


@pytest.fixture
def talk(lab: Lab, net: NetBuild) -> Iterator[Talk]:
    with ExitStack() as stack:
        yield Talk(lab, net, stack)


TIMELINE = """
name: one
topology: {hosts: 2, nics: 2}
workload: {iterations: 1}
faults:
  - {id: f, kind: socket_error, host: h1, nic: eth1, at: {time_s: 0.0}, duration_s: 1.0, %s}
arms: {migrate: {expect: any}}
"""


def struck(lab: Lab, stack: ExitStack, journal: Path, words: str) -> Injector:
    """The fault in force; undone at the end of the stack."""
    (planned,) = planned_faults(loads(TIMELINE % words, Path("one.yaml")), lab.nics)
    lines = stack.enter_context(Journal(journal))
    actors = Actors(lab.switch, lab.hosts, lambda rank: pytest.fail("no rank runs"))
    injector = Injector(actors, lines, stack, lambda message: None)
    injector.arm(planned)
    injector.strike("f", 0)
    return injector


HOME, OTHER = TWO_NICS[1], TWO_NICS[0]


def test_a_reset_ends_the_connection_on_both_sides_and_no_other(talk: Talk, tmp_path: Path) -> None:
    with ExitStack() as stack:
        struck(talk.lab, stack, tmp_path / "j", "action: reset")
        assert talk.ask("h1", "receive", HOME, 30) == "ConnectionResetError"
        assert talk.ask("h0", "receive", HOME, 30) == "ConnectionResetError"
        assert talk.ask("h0", "send", OTHER, 100) == 100
        assert talk.ask("h1", "receive", OTHER, 30) == 100
    (proof,) = [line for line in read(tmp_path / "j") if line["event"] == "probe" and line["active"]]
    (command,) = [line for line in read(tmp_path / "j") if line.get("phase") == "injected"]
    assert proof["hits"] == 1
    assert command["before_ns"] <= proof["first_hit_ns"] <= proof["t_ns"]
    assert not folder().exists()


def test_silence_takes_nothing_acknowledgements_included_and_nothing_is_lost_by_it(talk: Talk, tmp_path: Path) -> None:
    with ExitStack() as stack:
        struck(talk.lab, stack, tmp_path / "j", "action: silent")
        assert talk.ask("h1", "send", HOME, 70) == 70
        assert talk.ask("h0", "receive", HOME, 30) == 70, "the first of it leaves: only what comes is dropped"
        assert talk.ask("h0", "send", HOME, 50) == 50
        assert talk.ask("h1", "receive", HOME, 0.3) == 0
        assert [talk.ask(host, "unacknowledged", HOME) for host in ("h0", "h1")] == [50, 70]
        assert talk.ask("h1", "dial", "10.2.0.1", 0.3) == "TimeoutError"
        assert talk.ask("h0", "dial", HOME, 0.3) == "TimeoutError"
        assert talk.ask("h1", "dial", "10.1.0.1", 30) == "connected"
        assert talk.ask("h0", "dial", OTHER, 30) == "connected"
        assert talk.ask("h1", "send", OTHER, 100) == 100
        assert talk.ask("h0", "receive", OTHER, 30) == 100
    assert talk.ask("h1", "receive", HOME, 30) == 50
    assert talk.ask("h1", "send", HOME, 30) == 30
    assert talk.ask("h0", "receive", HOME, 30) == 30
    assert talk.ask("h1", "dial", "10.2.0.1", 30) == "connected"
    assert talk.ask("h0", "dial", HOME, 30) == "connected"


def test_calls_are_short_and_all_comes(talk: Talk, tmp_path: Path) -> None:
    with ExitStack() as stack:
        struck(talk.lab, stack, tmp_path / "j", "action: short_reads, bytes: 7")
        assert talk.ask("h1", "send", HOME, 100) == 7
        assert talk.ask("h0", "send", HOME, 20) == 20
        assert [talk.ask("h1", "receive", HOME, 30) for _ in range(3)] == [7, 7, 6]
        assert talk.ask("h0", "send", OTHER, 20) == 20
        assert talk.ask("h1", "receive", OTHER, 30) == 20


def test_what_is_slow_is_not_fast_and_is_fast_again(talk: Talk, tmp_path: Path) -> None:
    """8 Mbit/s is a megabyte in a second; what waits for it in buffers is not counted, as it was not received."""
    with ExitStack() as stack:
        struck(talk.lab, stack, tmp_path / "j", "action: slow, rate_mbit: 8.0")
        talk.tell("h1", "pour", HOME, 2.0)
        slow = talk.ask("h0", "drain", HOME, 2.0)
        talk._heard("h1")
    assert 0 < slow < 3_500_000
    got, tries = 0, 0
    while got < 20_000_000 and tries < 30:
        talk.tell("h1", "pour", HOME, 1.0)
        got += talk.ask("h0", "drain", HOME, 1.0)
        talk._heard("h1")
        tries += 1
    assert got >= 20_000_000, "30 s at the slow rate would be 30 MB at most, in far more tries"


def test_only_connections_with_that_port_or_peer(talk: Talk, tmp_path: Path) -> None:
    with ExitStack() as stack:
        struck(talk.lab, stack, tmp_path / "j", "action: short_reads, bytes: 7, ports: [7000, 7010], peer: 10.2.0.1")
        assert talk.ask("h1", "send", HOME, 100) == 7


WAITING = """
import os, socket, sys, time
socket.socket()
while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read().endswith("\\n"): time.sleep(0.01)
"""


def test_a_library_of_another_build_is_refused_in_a_line(net: NetBuild, tmp_path: Path) -> None:
    other, rules = tmp_path / "libr2cc_net_other.so", tmp_path / "rules"
    source = 'extern __attribute__((visibility("default"))) const char r2ccBuildId[] = "b0";'
    subprocess.run(["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", other], input=source, text=True, check=True)
    rules.mkdir()
    (rules / "f0").write_text("r2cc-faults 1\nsocket 10.2.0.2 reset\nend\n")
    env = {"LD_PRELOAD": f"{net.faults}:{other}", ENVIRONMENT: str(rules)}
    done = subprocess.run(
        [sys.executable, "-ISc", WAITING, str(rules / "f0.hits")], env=env, capture_output=True, text=True, timeout=60
    )
    why = f"libr2cc_faults.so is of build {net.build_id}, {other} of build b0"
    assert why in (rules / "f0.hits").read_text()
    assert done.stderr == f"r2cc faults: {rules}/f0 is refused: {why}\n"


NOBODY = 65534
ALONE = """
import json, os, socket, struct, sys, time
file, action = sys.argv[1:]
def pair():
    door = socket.create_server(("127.0.0.1", 0))
    mine = socket.create_connection(door.getsockname(), 30, ("127.0.0.2", 0))
    theirs = door.accept()[0]; theirs.settimeout(30)
    return mine, theirs
def seen(link):
    try:
        return link.recv(1).decode()
    except OSError as error:
        return type(error).__name__
def filtered(link):
    import ctypes
    keep = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0xffffffff))
    try:
        link.setsockopt(socket.SOL_SOCKET, 26, struct.pack("H6xP", 1, ctypes.addressof(keep)))
    except PermissionError:
        return False
    return True
first = pair()
allowed = filtered(socket.socket())
with open(file + ".", "w") as rules:
    rules.write(f"r2cc-faults 1\\nsocket 127.0.0.2 {action}\\nend\\n")
os.rename(file + ".", file)
until = time.monotonic() + 30
def answers():
    try:
        return open(file + ".hits").read()
    except FileNotFoundError:
        return ""
while not {"hit", "refused"} & set(answers().split()) and time.monotonic() < until:
    time.sleep(0.01)
time.sleep(0.1)
links = [*first, *pair()] if action == "reset" else []
print(json.dumps({"allowed": allowed, "seen": [seen(link) for link in links], "answers": answers()}))
"""


def alone(net: NetBuild, action: str) -> tuple[dict[str, Any], str]:
    """What an ordinary user of this machine gets, in no namespace of the lab's; and stderr."""
    who: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    with TemporaryDirectory(dir="/tmp") as made:
        here = Path(made)
        here.chmod(0o755)
        library, rules = here / net.faults.name, here / "rules"
        shutil.copy(net.faults, library)
        rules.mkdir()
        if who:
            os.chown(rules, NOBODY, NOBODY)
        python = next((name for name in (sys.executable, "/usr/bin/python3") if runs(name, here, who)), None)
        if python is None:
            pytest.skip("no Python that an ordinary user may run")
        done = subprocess.run(
            [python, "-ISc", ALONE, str(rules / "f0"), action], cwd=here, capture_output=True, text=True, timeout=120,
            env={"LD_PRELOAD": str(library), ENVIRONMENT: str(rules)}, check=False, **who,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def runs(python: str, here: Path, who: dict[str, Any]) -> bool:
    try:
        return subprocess.run([python, "-ISc", ""], cwd=here, capture_output=True, check=False, **who).returncode == 0
    except OSError:
        return False


def test_an_ordinary_user_resets_connections_whatever_the_kernel_refuses(net: NetBuild) -> None:
    said, stderr = alone(net, "reset")
    assert said["seen"] == ["ConnectionResetError"] * 4, said
    assert "hit" in said["answers"].split()
    assert "refused" not in said["answers"]
    assert stderr == ""


def test_silence_that_the_kernel_refuses_to_an_ordinary_user_is_told_once(net: NetBuild) -> None:
    said, stderr = alone(net, "silent")
    lines = [line.split()[0] for line in said["answers"].splitlines()]
    if said["allowed"]:
        assert lines == ["seen", "hit"]
        assert stderr == ""
    else:
        assert lines == ["refused"]
        assert "the kernel refuses the filter" in said["answers"]
        assert stderr.count("\n") == 1
        assert "f0 is refused: the kernel refuses the filter" in stderr


def experiment(fault: dict[str, Any], arms: dict[str, str], **hypothesis: Any) -> dict[str, Any]:
    name = f"f{os.getpid()}"  # what is left is looked for by it, on a machine where others have rules of their own
    common = {"id": name, "kind": "socket_error", "host": "h1", "nic": "eth1", "duration_s": 1.0}
    return {
        "name": "small",
        "topology": {"hosts": 2, "nics": 2, "rate_gbit": 0.2},
        "workload": {"bytes": 2 * 2**20, "iterations": 40, "channels": 2, "warmup": 1, "timeout_s": 60},
        "faults": [{**common, "at": {"iteration": 5, "fraction": 0.5}, **fault}],
        "hypothesis": {"exact": True, "completes": True, **hypothesis},
        "arms": {arm: {"expect": expected} for arm, expected in arms.items()},
    }


def run(file: Path, text: dict[str, Any], code: int) -> tuple[str, list[dict[str, Any]]]:
    file.write_text(yaml.safe_dump(text))
    out = file.parent / "out"
    done = subprocess.run(
        [*CLI, "chaos", "run", str(file), "--out", str(out), "--void-ok", "--quiet"],
        capture_output=True, text=True, timeout=220, check=False,
    )  # fmt: skip
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    (journal,) = out.rglob("journal.jsonl")
    assert not [*folder().parent.glob(f"r2cc-faults-*/{text['faults'][0]['id']}-*")]
    return done.stderr, list(read(journal))


@pytest.mark.timed
def test_nccl_alone_dies_of_a_reset_and_with_r2cc_it_does_not(net: NetBuild, tmp_path: Path) -> None:
    text = experiment({"action": "reset"}, {"stock": "deviates", "migrate": "holds", "balance": "holds"})
    _, lines = run(tmp_path / "small.yaml", text, 0)
    hits = [line["hits"] for line in lines if line["event"] == "probe" and line["active"]]
    assert len(hits) == 3
    assert all(hits)


@pytest.mark.timed
def test_short_calls_are_no_fault_to_anybody(net: NetBuild, tmp_path: Path) -> None:
    fault = {"action": "short_reads", "bytes": 1000}
    text = experiment(fault, {"stock": "holds", "migrate": "holds"}, failovers_max=0)
    run(tmp_path / "small.yaml", text, 0)


@pytest.mark.timed
def test_a_rule_that_matches_nothing_is_a_fault_that_missed(net: NetBuild, tmp_path: Path) -> None:
    text = experiment({"action": "reset", "peer": "10.2.0.77"}, {"migrate": "holds"})
    stderr, _ = run(tmp_path / "small.yaml", text, 3)
    assert "no TCP connection of h1 eth1 matched" in stderr
