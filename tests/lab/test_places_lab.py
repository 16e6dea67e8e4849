"""The lab writes the places of its NICs, its hosts see the file, and the net library reads it there."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.build import build_net
from harness.lab.lab import Lab
from harness.lab.places import places
from harness.lab.topology import parse
from harness.progress import silent
from harness.schemas import dumped
from harness.workloads.bench import BenchSpec, bench_command, bench_env
from r2cc.pytest_plugin import LabMaker

pytestmark = [pytest.mark.lab, pytest.mark.build, pytest.mark.timeout(120)]

ROOT = "10.250.0.1:29518"
SPEC = BenchSpec(bytes=1 << 16, iterations=1, warmup=0, channels=1, timeout_s=30)
TOPOLOGY = "hosts: 2\nnics: 3\nplacement: [{nic: eth0, numa: 0, switch: a}, {nic: eth1, numa: 0, switch: a}]\n"


def said_by_ranks(lab: Lab, file: Path) -> list[str]:
    """What each rank's net library logs about itself."""
    net = build_net(progress=silent)
    env = bench_env(1, topology_file=file, extra={"NCCL_DEBUG": "INFO"})
    started = [
        host.spawn(bench_command(net.bench, SPEC, rank=rank, ranks=2, root=ROOT, library=net.library), env=env)
        for rank, host in enumerate(lab.hosts.values())
    ]
    said = []
    for process in started:
        assert process.stdout is not None
        process.stdout.read()
        assert process.wait(60) == 0, process.stderr_tail(20)
        said.append("\n".join(line for line in process.stderr_tail(2000).splitlines() if "R2CC" in line))
    return said


def test_ranks_read_the_labs_places(r2cc_lab: LabMaker) -> None:
    lab = r2cc_lab(TOPOLOGY)
    assert lab.places_file.read_text() == dumped(places(parse(TOPOLOGY, "t.yaml")), 1)
    assert lab.hosts["h1"].read_text(str(lab.places_file)) == lab.places_file.read_text()
    for said in said_by_ranks(lab, lab.places_file):
        assert f"NIC distances from {lab.places_file}: eth0 eth1 0, eth0 eth2 2, eth1 eth2 2" in said
    lab.close()
    assert not lab.places_file.exists()


def test_a_malformed_file_is_warned_of_and_left_alone(r2cc_lab: LabMaker, tmp_path: Path) -> None:
    bad = tmp_path / "places.json"
    bad.write_text('{"schema": 1,\n "hosts": {"h0": 5}}')
    for said in said_by_ranks(r2cc_lab(hosts=2, nics=2), bad):
        assert said.count(f"R2CC_TOPO_FILE {bad}:2: host h0 must be an object, not a number; going on") == 1
        assert "NIC distances from sysfs: eth0 eth1 2" in said
