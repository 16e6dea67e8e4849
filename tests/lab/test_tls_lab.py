"""What somebody who listens can read of the data and of the agreement: all of it, and with R2CC_TLS=1 nothing."""

from __future__ import annotations

import struct
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.build import build_net, run_target
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent
from harness.workloads.bench import BenchSpec

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from netcases.bed import DATA, Bed
from netcases.play import Stage, made, stage
from netcases.tls import ON, secret
from schedule_switch import run_switch

pytestmark = [pytest.mark.lab, pytest.mark.build, pytest.mark.timeout(240)]

TAPPED = [sys.executable, str(Path(__file__).with_name("tapped.py"))]
MOST_MB = 24
MIX = 0x9E3779B97F4A7C15
"""As net_driver fills its messages (tests/driver/flow.cc)."""
MESSAGES = range(1, 400)


def words(message: int) -> bytes:
    """Eight words out of the middle of a message."""
    start = (message + 1) * MIX
    return struct.pack("<8Q", *((start + at) % 2**64 for at in range(100, 108)))


def heard(bed: Bed, on: Stage, env: Mapping[str, str]) -> bytes:
    """What passed the receiver's NICs while messages went over them, one NIC after the other."""
    file = on.folder / f"tapped-{len(env)}"
    listener = bed.host("h1").spawn([*TAPPED, str(file), str(MOST_MB), *DATA])
    assert listener.stdout is not None and b"listens" in listener.stdout.readline()
    pair = on.pair(bed, "--seconds", 2, env=env)
    if pair.connected():
        pair.at(0.4, lambda: bed.cut("eth0"))
    both = pair.end()
    bed.plug("eth0")
    listener.kill()
    listener.wait(60)
    assert both.exact() == []
    return file.read_bytes()


def test_with_tls_nobody_reads_what_passes() -> None:
    library = build_net(progress=silent).library
    run_target("driver", silent)
    with stage(library.with_name("net_driver"), library, 1) as on, made() as bed:
        plain = heard(bed, on, {})
        found = [message for message in MESSAGES if words(message) in plain]
        assert len(found) > 10, "else nothing would be found below, either"
        for env in (ON, secret(on, "s")):
            encrypted = heard(bed, on, env)
            assert len(encrypted) > len(plain) // 4
            assert [message for message in MESSAGES if words(message) in encrypted] == []


@pytest.mark.timed
def test_with_tls_nobody_reads_what_the_ranks_agree_about() -> None:
    """A cable is pulled under the bench. Its ranks agree over the management network, where somebody listens."""
    spec = BenchSpec(bytes=2 << 20, iterations=40, warmup=1, channels=2, slots=3, timeout_s=30, schedule="auto")
    net = build_net(progress=silent)
    found: list[bool] = []
    settings: list[Mapping[str, str]] = [{}, ON]
    for extra in settings:
        with tempfile.TemporaryDirectory() as folder, Lab.up(Topology(hosts=4, nics=2, rate_gbit=0.2)) as lab:
            file = Path(folder) / "tapped"
            listener = lab.hosts["h1"].spawn([*TAPPED, str(file), str(MOST_MB), "mgmt0"])
            assert listener.stdout is not None and b"listens" in listener.stdout.readline()
            run = run_switch(lab, net, spec, pull=5, plug=None, extra=extra)
            listener.kill()
            listener.wait(60)
            assert run.wrong_elements == 0 and run.switches[-1].capacities == "capacities 1:0=0"
            found.append(b"capacities 1:0=0" in file.read_bytes())
    assert found == [True, False]
