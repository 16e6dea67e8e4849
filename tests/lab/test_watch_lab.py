"""A job that is watched: health, metrics and the line at its end say what a pulled cable did, to real Prometheus, too;
and a NIC is drained, pulled, plugged in and used again without a connection that froze."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ports import free_port

from harness.build import NetBuild, build_net
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent
from harness.schemas import problems
from harness.watch.health import judged
from harness.watch.status import read_folder
from harness.workloads.bench import BenchSpec, bench_command, bench_env

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from drain import run_drain

pytestmark = [pytest.mark.lab, pytest.mark.build, pytest.mark.timeout(180)]
SPEC = BenchSpec(bytes=1 << 18, iterations=100_000, warmup=1, channels=2, timeout_s=60)
PORT = "h1-eth1"
LIMIT_S = 60


@pytest.fixture(scope="module")
def net() -> NetBuild:
    return build_net(progress=silent)


def within(what: Callable[[], bool], limit_s: float = LIMIT_S) -> bool:
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.1)
    return False


@contextmanager
def job(lab: Lab, net: NetBuild, seconds: int, status: Path) -> Iterator[list[Any]]:
    """A rank on each host, for so many seconds."""
    spec = BenchSpec(**{**SPEC.__dict__, "seconds": seconds})
    ranks = []
    for rank, host in enumerate(lab.hosts.values()):
        env = bench_env(1, extra={"R2CC_STATUS_DIR": str(status), "R2CC_JOB": "j1", "R2CC_RANK": str(rank)})
        command = bench_command(
            net.bench, spec, rank=rank, ranks=len(lab.hosts), root="10.250.0.1:29533", library=net.library
        )
        ranks.append(host.spawn(command, env=env, stdout=subprocess.DEVNULL))
    try:
        yield ranks
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait(20)


def pull(lab: Lab, *, down: bool) -> None:
    lab.switch.run(["ip", "link", "set", PORT, "down" if down else "up"])


def verdict(folder: Path, host: str) -> str:
    return judged(read_folder(folder, host)).verdict


def test_a_pulled_cable_is_carried_at_its_host_and_said_at_the_end(net: NetBuild, tmp_path: Path) -> None:
    with Lab.up(Topology(hosts=2, nics=2, rate_gbit=0.2)) as lab, job(lab, net, 8, tmp_path) as ranks:
        assert within(lambda: all(read_folder(tmp_path, host).live for host in ("h0", "h1")))
        assert verdict(tmp_path, "h1") == "healthy"
        pull(lab, down=True)
        assert within(lambda: verdict(tmp_path, "h1") == "carried")
        assert verdict(tmp_path, "h0") == "healthy"  # nothing of its own is broken
        for file in tmp_path.glob("*.json"):
            assert problems("status", json.loads(file.read_text())) == []
        ends = [rank.wait(60) for rank in ranks]
        said = [rank.stderr_tail(50) for rank in ranks]
        pull(lab, down=False)
    assert ends == [0, 0], said
    assert "R2CC: 1 NIC failure carried, " in said[0]
    assert "10.2.0.2 still down" in said[0]
    assert "still down" not in said[1]  # rank 0 alone speaks
    assert within(lambda: not read_folder(tmp_path).live, 15)


@pytest.mark.timed
@pytest.mark.parametrize("mode", [1, 2])
def test_a_drained_nic_is_left_and_used_again_without_a_freeze(net: NetBuild, mode: int) -> None:
    """How many iterations are late is benchmarks/drain.py's to measure."""
    steps = {20: "drain", 110: "pull", 130: "plug", 160: "undrain"}
    spec = BenchSpec(bytes=1 << 20, iterations=300, warmup=2, channels=3, timeout_s=60)
    with Lab.up(Topology(hosts=2, nics=3, rate_gbit=0.2)) as lab:
        run = run_drain(lab, net, mode, steps=steps, spec=spec)
    assert (run.moved, run.wrong_elements) == (0, 0)


@pytest.mark.slow
def test_real_prometheus_fires_and_clears(net: NetBuild, tmp_path: Path) -> None:
    """About a minute. The rules are ours but for how long a NIC must be down: 1 s."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no prometheus (Debian's package)")
    status, rules = tmp_path / "status", tmp_path / "rules.yaml"
    text = Path("harness/watch/rules/alerts.yaml").read_text()
    rules.write_text(text.replace("for: 5m", "for: 1s"))
    page, web = free_port(), free_port()
    (tmp_path / "prometheus.yml").write_text(json.dumps({
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [{"job_name": "r2cc", "static_configs": [{"targets": [f"127.0.0.1:{page}"]}]}],
    }))  # fmt: skip
    r2cc = str(Path(sys.executable).with_name("r2cc"))
    serve = [r2cc, "metrics", "--status", str(status), "--listen", str(page), "--address", "127.0.0.1"]
    scrape = [program, f"--config.file={tmp_path / 'prometheus.yml'}", f"--storage.tsdb.path={tmp_path / 'data'}",
              f"--web.listen-address=127.0.0.1:{web}"]  # fmt: skip

    def firing(name: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{web}/api/v1/alerts", timeout=5) as answer:
                alerts = json.load(answer)["data"]["alerts"]
        except OSError:
            return False
        return any(a["labels"]["alertname"] == name and a["state"] == "firing" for a in alerts)

    with (
        Lab.up(Topology(hosts=2, nics=3, rate_gbit=0.2)) as lab,
        job(lab, net, 120, status),
        program_of(serve),
        program_of(scrape),
    ):
        assert within(lambda: bool(read_folder(status, "h1").live))
        pull(lab, down=True)
        assert within(lambda: firing("R2ccNicDown"))
        assert not firing("R2ccNoBackup")
        pull(lab, down=False)
        assert within(lambda: not firing("R2ccNicDown"))


@contextmanager
def program_of(argv: list[str]) -> Iterator[None]:
    program = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        program.terminate()
        program.wait(20)
