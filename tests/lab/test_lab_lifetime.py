"""A lab dies with its owner, however that ends, and leaves nothing: no process, no namespace, no mount, no folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from waits import LIMIT_S, until

from harness.errors import LabError
from harness.hosts import LocalHost
from harness.lab import keeper, lifetime, state
from harness.lab.lab import Lab, down
from harness.lab.network import netns
from harness.lab.plan import Cable, Plan, describe
from harness.lab.topology import Topology

pytestmark = pytest.mark.lab

REPO = Path(__file__).parents[2]
SMALL = Topology(hosts=2, nics=1)

OWNER = """
import json, os, sys, time
from pathlib import Path
from harness.lab.lab import Lab
from harness.lab.topology import Topology

with Lab.up(Topology(hosts=2, nics=1)) as lab:
    # It ignores every polite signal and has left its process group and session: only the pid namespace holds it.
    stubborn = "trap '' TERM INT HUP; echo ready; while :; do sleep 1; done"
    process = lab.hosts["h0"].spawn(["setsid", "--wait", "sh", "-c", stubborn])
    process.stdout.readline()
    state = json.loads((lab.folder / "state.json").read_text())
    net = os.readlink(f"/proc/{process.pid}/ns/net")
    pids = [process.pid, state["keeper_pid"], state["init_pid"]]
    print(json.dumps({"pids": pids, "net": net, "folder": str(lab.folder)}), flush=True)
    if sys.argv[1] == "error":
        raise RuntimeError("the run failed")
    time.sleep(60)
"""


@dataclass
class Owner:
    process: subprocess.Popen[str]
    pids: list[int]
    net: str
    folder: Path

    def is_gone(self) -> bool:
        return not any(is_alive(pid) for pid in self.pids) and self.net not in networks()


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labs of other runs on this machine are none of our business."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture(autouse=True)
def machine_unchanged() -> Iterator[None]:
    """Whatever a lab did, this machine's own mounts and NICs are as before."""
    mounts, nics = Path("/proc/self/mountinfo").read_text(), sorted(Path("/sys/class/net").iterdir())
    yield
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert sorted(Path("/sys/class/net").iterdir()) == nics


def start_owner(how: str = "wait") -> Owner:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPO)},
        start_new_session=True,
    )
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    process.stdout.close()
    return Owner(process, told["pids"], told["net"], Path(told["folder"]))


def is_alive(pid: int) -> bool:
    """A zombie is not alive: it only waits for its parent to look."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def networks() -> set[str]:
    """Every network namespace that a process of this machine is in or holds open."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = [process / "ns" / "net", *(process / "fd").iterdir()]
        except OSError:
            continue
        for link in links:
            try:
                found.add(str(link.readlink()))
            except OSError:
                continue
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_lab_dies_with_its_owner(number: signal.Signals) -> None:
    owner = start_owner()
    assert all(is_alive(pid) for pid in owner.pids)
    assert owner.net in networks()
    os.killpg(owner.process.pid, number)
    assert owner.process.wait(LIMIT_S) != 0
    until(owner.is_gone)
    until(lambda: not owner.folder.exists())


def test_a_lab_dies_when_its_owner_fails() -> None:
    owner = start_owner("error")
    assert owner.process.wait(LIMIT_S) == 1
    until(owner.is_gone)
    assert not owner.folder.exists()


@pytest.mark.parametrize("victim", [1, 2], ids=["keeper", "pid 1"])
def test_a_lab_dies_with_any_of_its_parts(victim: int) -> None:
    """kill -9 of the keeper leaves its folder, unlocked; the next look removes it."""
    owner = start_owner()
    try:
        os.kill(owner.pids[victim], signal.SIGKILL)
        until(owner.is_gone)
        assert state.living() == []
        until(lambda: not owner.folder.exists())
    finally:
        owner.process.kill()
        owner.process.wait(LIMIT_S)


def test_the_controller_learns_that_its_lab_died() -> None:
    with Lab.up(SMALL) as lab:
        process = lab.hosts["h0"].spawn(["sleep", "60"])
        assert lab.keeper is not None
        lab.keeper.kill()
        assert process.wait(LIMIT_S) == -signal.SIGKILL
        process.close()
        with pytest.raises(LabError):
            lab.hosts["h0"].run(["true"])
    state.living()


def test_leaving_the_block_leaves_nothing() -> None:
    with Lab.up(SMALL) as lab:
        process = lab.hosts["h1"].spawn(["sleep", "60"])
        pid, net = process.pid, str(Path(f"/proc/{process.pid}/ns/net").readlink())
    assert not is_alive(pid)
    assert net not in networks()
    assert not lab.folder.exists()
    assert process.wait(LIMIT_S) == -signal.SIGKILL
    lab.close()  # twice is fine


def test_a_lab_belongs_to_the_process_not_to_a_thread() -> None:
    made: list[Lab] = []
    thread = threading.Thread(target=lambda: made.append(Lab.up(SMALL)))
    thread.start()
    thread.join(LIMIT_S)
    time.sleep(0.3)
    with made[0] as lab:
        assert lab.hosts["h0"].run(["hostname"]).stdout == "h0\n"


def test_a_lab_with_a_time_to_live_outlives_its_maker_but_not_its_time() -> None:
    code = "from harness.lab.lab import Lab; from harness.lab.topology import Topology; "
    code += "Lab.up(Topology(hosts=1, nics=1), ttl_s=8.0, name='short')"
    started = time.monotonic()
    LocalHost().run([sys.executable, "-W", "error", "-c", code], env={"PYTHONPATH": str(REPO)}, timeout_s=LIMIT_S)
    (found,) = state.living()
    assert found["name"] == "short"
    assert Lab.attach("short").hosts["h0"].run(["hostname"]).stdout == "h0\n"
    assert is_alive(found["keeper_pid"])
    until(lambda: not is_alive(found["keeper_pid"]) and not is_alive(found["init_pid"]))
    assert time.monotonic() - started >= 8.0
    assert state.living() == []


def test_down_ends_a_lab_whoever_owns_it() -> None:
    owner = start_owner()
    try:
        name = owner.folder.name
        assert down(name) is True
        assert owner.is_gone()
        assert not owner.folder.exists()
        assert down(name) is False
    finally:
        owner.process.kill()
        owner.process.wait(LIMIT_S)


def test_down_ends_a_keeper_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.lab.lab.DOWN_TIMEOUT_S", 0.3)
    with Lab.up(SMALL, name="stuck") as lab:
        assert lab.keeper is not None
        lab.keeper.send_signal(signal.SIGSTOP)
        assert down("stuck") is True
        assert not lab.folder.exists()


def test_a_plan_that_cannot_be_made_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel refuses a NIC's name of more than 15 letters: pid 1 must report that and leave nothing."""

    def too_long(topology: Topology) -> Plan:
        plan = describe(topology)
        broken = [Cable(**{**vars(cable), "port": "a-name-that-is-too-long"}) for cable in plan.cables]
        return Plan(plan.hosts, plan.bridges, tuple(broken))

    monkeypatch.setattr("harness.lab.lab.describe", too_long)
    with pytest.raises(LabError, match="the lab could not be built") as caught:
        Lab.up(SMALL)
    assert caught.value.hint
    assert state.living() == []
    assert list(state.root().iterdir()) == []


def test_a_machine_without_namespaces_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_flags: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(netns, "unshare", refused)
    with pytest.raises(LabError, match="does not allow namespaces: Operation not permitted") as caught:
        keeper._isolate()
    assert caught.value.exit_code == 3
    assert "run as root" in str(caught.value.hint)


def test_the_remedy_names_the_switch_that_is_off(tmp_path: Path) -> None:
    switch = tmp_path / "restrict"
    switch.write_text("1\n")
    assert keeper._remedy({str(switch): ("0", "kernel.x=0")}) == "sudo sysctl -w kernel.x=0 (or run as root)"
    switch.write_text("0\n")
    assert "kernel.x" not in keeper._remedy({str(switch): ("0", "kernel.x=0")})


def test_an_owner_that_is_not_our_parent_is_refused() -> None:
    with pytest.raises(LabError, match="owner was gone"):
        lifetime.open_owner(os.getpid())


def test_mounting_is_refused_in_the_machines_own_mount_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netns, "unshare", lambda _flags: None)
    monkeypatch.setattr(netns, "mount", lambda *_arguments: pytest.fail("it mounted"))
    with pytest.raises(OSError, match="still in the machine's mount namespace"):
        netns.private_mounts()


def test_the_state_folder_falls_back_to_one_that_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "file"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert state.root() == tmp_path / "cache" / "r2cc" / "labs"
    assert state.root().stat().st_mode & 0o077 == 0


def test_a_lab_comes_up_under_a_very_long_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Unix socket's address has 107 bytes; a home folder may have more, and a space."""
    deep = tmp_path / ("with a space " + "x" * 60) / ("y" * 60)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    with Lab.up(SMALL) as lab:
        assert str(lab.folder).startswith(str(deep))
        assert lab.hosts["h0"].run(["hostname"]).stdout == "h0\n"
