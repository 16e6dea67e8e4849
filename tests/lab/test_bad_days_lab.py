"""What goes wrong on a real cluster, on lab hosts with a real sshd each: one clear error, and hosts as they were.

Wrong keys, unknown host keys and unreachable hosts are in test_ssh_lab.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import ssh_lab

from harness.hosts import Host, Process
from harness.lab.lab import Lab
from harness.lab.topology import Topology

pytestmark = [*ssh_lab.NEEDS, pytest.mark.timeout(120)]

CLI = [sys.executable, "-c", "from harness.cli import main; main()"]
LIMIT_S = 60.0
HOLD = """
import sys
import time
from harness.deploy.remote import locked
from harness.sites.inventory import parse
site = parse(sys.argv[1])
(host,) = site.members
with site, site.connected() as hosts, locked(hosts[host.name], host.prefix, "t", "alice@login1, pid 7"):
    print("held", flush=True)
    time.sleep(60)
"""


@dataclass(frozen=True)
class Site:
    """h1 and h2 as n1 and n2, with a build on both; h0 is where the user sits."""

    lab: Lab
    folder: Path
    inventory: Path

    def deploy(self, build: Path, *more: str) -> tuple[int, str]:
        words = ["deploy", "--inventory", str(self.inventory), "--build", str(build), *more]
        found = self.lab.hosts["h0"].run([*CLI, *words], timeout_s=LIMIT_S, check=False)
        return found.exit_code, found.stdout + found.stderr

    def spawn(self, argv: list[str], output: Path) -> Process:
        with output.open("wb") as file:
            return self.lab.hosts["h0"].spawn(argv, stdout=file, stderr=subprocess.STDOUT)

    def build(self, name: str, size: int = 1000) -> Path:
        root = self.folder / name
        root.mkdir(exist_ok=True)
        (root / "build.json").write_text(json.dumps({"build_id": name}))
        (root / "data").write_bytes(os.urandom(size))
        return root

    def prefix(self, host: str) -> Path:
        return self.folder / f"prefix-{host}"

    def current(self, host: str) -> str:
        """The whole build that a host has."""
        at = str(self.prefix(host) / "current")
        self.lab.hosts[host].run(["sh", "-c", 'cd "$1" && sha256sum -c --quiet manifest', "check", at])
        return self.lab.hosts[host].run(["readlink", at]).stdout.strip().removeprefix("builds/").partition("-")[0]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("bad-days")
    served = ("h1", "h2")
    entries = [
        {"name": f"n{host[1]}", "address": ssh_lab.address_of(host), "prefix": str(folder / f"prefix-{host}")}
        for host in served
    ]
    with (
        Lab.up(Topology.load("hosts: 3\nnics: 1\n")) as lab,
        ssh_lab.served(lab, folder, served, entries) as inventory,
    ):
        made = Site(lab, folder, inventory)
        code, said = made.deploy(made.build("old"))
        assert code == 0, said
        yield made


def _within(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs"], "n1: 1 MiB are free at"),
        (["mount", "-t", "tmpfs", "-o", "ro", "tmpfs"], "cannot be written"),
    ],
)
def test_a_prefix_that_is_full_or_read_only_is_found_before_anything_is_copied(
    site: Site, how: list[str], says: str
) -> None:
    where = str(site.prefix("h1"))
    site.lab.hosts["h1"].run([*how, where])
    try:
        code, said = site.deploy(site.build("new", 2_000_000))
        assert (code, says in said, "nothing was copied" in said) == (2, True, True), said
    finally:
        site.lab.hosts["h1"].run(["umount", where])
    assert [site.current(host) for host in ("h1", "h2")] == ["old", "old"]


def test_the_second_of_two_controllers_is_refused_with_the_firsts_name(site: Site, tmp_path: Path) -> None:
    first = site.spawn([sys.executable, "-c", HOLD, f"{site.inventory}:n1"], tmp_path / "first")
    try:
        _within(lambda: b"held" in (tmp_path / "first").read_bytes(), "the first one does not come")
        code, said = site.deploy(site.build("second"))
        assert code == 3, said
        assert "n1: another deploy is at work there: alice@login1, pid 7" in said
        assert "nothing was changed on any host" in said
        assert [site.current(host) for host in ("h1", "h2")] == ["old", "old"]
    finally:
        first.send_signal(signal.SIGKILL)  # its lock goes with it
        first.close()
    assert site.current("h1") == "old"
    code, said = site.deploy(site.build("old"), "--json")
    assert code == 0, said
    assert json.loads(said)["failed"] == 0


def _sending(site: Site, host: str) -> bool:
    incoming = site.prefix(host) / "incoming"
    with suppress(FileNotFoundError):  # what is whole gets another name
        return any(path.stat().st_size > 100_000 for path in incoming.glob("*.*"))
    return False


@pytest.mark.parametrize("ended_by", ["SIGINT", "SIGKILL"])
def test_a_deploy_that_is_interrupted_or_killed_leaves_the_old_build(site: Site, tmp_path: Path, ended_by: str) -> None:
    big = site.build(f"big{ended_by}", 60_000_000)
    words = ["deploy", "--inventory", str(site.inventory), "--build", str(big)]
    process = site.spawn([*CLI, *words], tmp_path / "out")
    try:
        _within(lambda: _sending(site, "h1") or process.poll() is not None, "nothing is sent")
        assert process.poll() is None, (tmp_path / "out").read_text()
        process.send_signal(signal.Signals[ended_by])
        code = process.wait(LIMIT_S)
    finally:
        process.close()
    said = (tmp_path / "out").read_text()
    assert code in ((130,) if ended_by == "SIGINT" else (-9, 137)), said
    assert "Traceback" not in said
    assert site.current("h1") == "old"
    _within(lambda: not (site.prefix("h1") / "incoming").exists(), "the lock stays")
    code, said = site.deploy(site.build("old"))
    assert code == 0, said


def test_a_host_that_dies_half_way_is_named_and_the_other_one_finished(site: Site, tmp_path: Path) -> None:
    big = site.build("dies", 60_000_000)
    words = ["deploy", "--inventory", str(site.inventory), "--build", str(big)]
    process = site.spawn([*CLI, *words], tmp_path / "out")
    h2: Host = site.lab.hosts["h2"]
    try:
        _within(lambda: _sending(site, "h2") or process.poll() is not None, "nothing is sent")
        h2.run(["sh", "-c", "ip link set mgmt0 down; sleep 0.2; ip link set mgmt0 up; ss -K dport != 22 >/dev/null"])
        code = process.wait(LIMIT_S)
    finally:
        process.close()
    said = (tmp_path / "out").read_text()
    assert code == 3, said
    assert "n2  FAILED, it has what it had" in said
    assert "1 of 2 hosts done" in said
    assert (site.current("h1"), site.current("h2")) == ("dies", "old")
