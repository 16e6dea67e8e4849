"""The controller's own way to a host is cut by that host, over real SSH, and comes back by the kernel's own clock."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from ssh_lab import NEEDS, served

from harness.lab.lab import Lab
from harness.lab.topology import Topology

pytestmark = [*NEEDS, pytest.mark.slow]

CLI = [sys.executable, "-c", "from harness.cli import main; main()"]
REPO = Path(__file__).parents[2]
CONTROLLER = """
import json, sys, time
from chaos.run.actors import Actors

from chaos.faults.registry import fault_of, spec_of
from chaos.faults.spec import FaultSpec
from harness.errors import R2ccError
from harness.sites.inventory import parse

spec = spec_of(
    {"id": "cut", "kind": "controller_lost", "host": "h1", "at": {"time_s": 0.0}, "duration_s": 4.0})
with parse(sys.argv[1]) as site, site.connected() as hosts:
    actors = Actors(None, hosts, lambda rank: None)
    fault = fault_of(spec, [], "h1")
    fault = fault.knowing(actors.take(fault.facts()))
    said = {"ends": fault.ends, "before": fault.is_active(actors.take(fault.probe()))}
    started = time.monotonic()
    said["exit_codes"] = [result.exit_code for result in actors.take(fault.inject())]
    said["after"] = fault.is_active(actors.take(fault.probe()))
    time.sleep(1.5)
    asked = time.monotonic()
    try:
        hosts["h1"].run(["true"], timeout_s=10)
    except R2ccError:
        pass  # whether the connection survives is for SSH to say
    said["silent_s"] = time.monotonic() - asked
    said["reverted"] = []
    while time.monotonic() < started + 20:
        try:
            said["reverted"] = [result.exit_code for result in actors.take(fault.revert())]
            break
        except R2ccError:
            time.sleep(0.1)
    said["took_s"] = time.monotonic() - started
    said["again"] = [result.exit_code for result in actors.take(fault.revert())]
    said["end"] = fault.is_active(actors.take(fault.probe()))
    print(json.dumps(said))
"""


def test_the_host_is_deaf_to_its_controller_until_the_kernel_forgets(tmp_path: Path) -> None:
    with Lab.up(Topology.load("hosts: 2\nnics: 1\n")) as lab, served(lab, tmp_path, ["h1"]) as inventory:
        env = {"PYTHONPATH": str(REPO), "HOME": "/nonexistent", "SSH_AUTH_SOCK": ""}
        argv = [sys.executable, "-c", CONTROLLER, str(inventory)]
        process = lab.hosts["h0"].spawn(argv, env=env, stderr=subprocess.STDOUT)
        assert process.stdout is not None
        text = process.stdout.read().decode()
        assert process.wait(60) == 0, text
        process.close()
        able = lab.hosts["h0"].run([*CLI, "chaos", "faults", "--inventory", str(inventory), "--json"], env=env)
        hosts = {entry["kind"]: entry["hosts"]["h1"] for entry in json.loads(able.stdout)["faults"]}
        assert hosts["controller_lost"]["supported"], hosts["controller_lost"]
        assert hosts["qp_error"]["why"] == ["it has no RDMA device"]
        said = json.loads(text)
        assert said["ends"] == ["10.250.0.1", "22"]
        assert (said["before"], said["exit_codes"], said["after"]) == (False, [0], True)
        assert said["silent_s"] > 1.5, "the host answered while it was to be deaf"
        assert said["took_s"] > 3.0
        assert (said["reverted"], said["again"], said["end"]) == ([0], [0], False)
        assert "r2cc" not in lab.hosts["h1"].run(["nft", "list", "tables"]).stdout
