"""The pytest plugin with a real lab: what a maintainer of an NCCL fork would write, and what a failing test shows."""

from __future__ import annotations

from pathlib import Path

import pandas  # noqa: F401 - pytester forgets what is first imported in a test, and numpy cannot be imported twice
import pytest

import r2cc

pytest_plugins = "pytester"
pytestmark = [pytest.mark.lab, pytest.mark.build, pytest.mark.timeout(300)]

TESTS = '''
import pytest

SMALL = """
name: small
topology: {hosts: 2, nics: 2, rate_gbit: 0.2}
workload: {bytes: 1MiB, iterations: 12, warmup: 1, timeout_s: 60}
faults:
  - {id: cable, kind: link_down, host: h1, nic: eth1, at: {iteration: 4}, duration_s: 0.4}
arms: {stock: {expect: any}, migrate: {expect: any}}
"""

@pytest.mark.r2cc_needs("lab")
def test_exact(r2cc_run):
    run = r2cc_run(SMALL, arms="migrate", void_ok=True)
    assert (run.arm("migrate").wrong_elements, run.arm("migrate").iterations) == (0, 12)
    assert list(run.arms) == ["migrate"]

def test_that_fails(r2cc_run):
    run = r2cc_run(SMALL, ["migrate"], void_ok=True, set={"workload.iterations": 6})
    assert run.arm("migrate").stall_ms < 0

def test_that_misses(r2cc_run):
    r2cc_run(SMALL, ["migrate"], set={"faults.0.at": {"launch_s": 300}})

@pytest.mark.r2cc_needs("lab")
def test_a_lab(r2cc_lab):
    lab = r2cc_lab(hosts=2, nics=1)
    assert set(lab.hosts) == {"h0", "h1"}
    assert [nic.address for nic in lab.nics] == ["10.1.0.1", "10.1.0.2"]
'''


def test_a_maintainers_tests(pytester: pytest.Pytester, tmp_path: Path) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--r2cc-runs", str(tmp_path), timeout=280)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*- r2cc run *-small -*", f"{tmp_path}/*-small*", "verdict: *", "migrate: *stall_ms*"])
    result.stdout.fnmatch_lines(["*RunFailed: *the fault cable missed*", "verdict: failed"])
    assert sorted(r2cc.store(tmp_path).runs().verdict)[0] == "failed"
    assert len(r2cc.store(tmp_path).runs()) == 3
