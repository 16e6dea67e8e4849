"""The host parts under valgrind while NICs fail and come back: no invalid access, no memory lost (issue 4).

Valgrind makes everything some thirty times as slow, so that nothing is said of times.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from harness.build import build_net
from harness.lab.lab import Lab
from harness.lab.topology import Topology
from harness.progress import silent
from harness.workloads.bench import BenchSpec, bench_command, bench_env

pytestmark = [pytest.mark.lab, pytest.mark.build, pytest.mark.slow, pytest.mark.timeout(300)]

CHECKER = "valgrind"
KNOWN = Path(__file__).with_name("valgrind.supp")
WORDS = [
    f"--suppressions={KNOWN}",
    "--quiet",
    "--error-exitcode=99",
    "--leak-check=full",
    "--show-leak-kinds=definite,indirect",
    "--errors-for-leak-kinds=definite,indirect",
]
SPEC = BenchSpec(
    bytes=4 << 20, iterations=1_000_000, warmup=1, channels=4, chunk_bytes=16 << 10, seconds=25, timeout_s=90
)


@pytest.mark.skipif(shutil.which(CHECKER) is None, reason="valgrind is not installed")
@pytest.mark.parametrize("mode", [1, 2], ids=["migrate", "balance"])
def test_failovers_touch_no_memory_that_is_not_theirs_and_leak_none(mode: int, tmp_path: Path) -> None:
    net = build_net(progress=silent)
    outputs, ranks = [], []
    with Lab.up(Topology(hosts=2, nics=3, rate_gbit=0.2)) as lab:
        hosts = list(lab.hosts.values())
        for rank, host in enumerate(hosts):
            argv = bench_command(net.bench, SPEC, rank=rank, ranks=2, root="10.250.0.1:29518", library=net.library)
            env = bench_env(mode, topology_file=lab.places_file, extra={"R2CC_EVENT_FILE": "/dev/stdout"})
            outputs.append(tmp_path / f"rank{rank}")
            with outputs[-1].open("wb") as output:
                ranks.append(host.spawn([CHECKER, *WORDS, *argv], env=env, stdout=output, stderr=output))
        until = time.monotonic() + 60
        while '"event":"iteration"' not in outputs[0].read_text(errors="replace"):
            assert time.monotonic() < until, outputs[0].read_text(errors="replace")[-3000:]
            time.sleep(0.2)
        for nic in ("eth1", "eth2"):
            hosts[0].run(["ip", "link", "set", nic, "down"])
            time.sleep(3)
            hosts[0].run(["ip", "link", "set", nic, "up"])
            time.sleep(2)
        codes = [process.wait(120) for process in ranks]
    for code, output in zip(codes, outputs, strict=True):
        said = output.read_text(errors="replace")
        assert code == 0, said[-5000:]
        assert '"wrong_elements":0' in said[said.rindex('"event":"bench_end"') :]
    moved = any('"cause":"netlink"' in output.read_text() for output in outputs)
    assert moved, "no connection moved: nothing was tried"
