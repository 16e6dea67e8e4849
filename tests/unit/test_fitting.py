"""The rate that a machine can carry: what follows from a probe, and what becomes of the experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.experiment.file import dump, load, loads
from chaos.run import fitting
from chaos.run.fitting import BUSY_MOST, BUSY_WANTED, FULL_GBIT, RATES, Probe, at_rate, names_no_rate
from chaos.testbed.beds import topology_of
from harness.workloads.kinds.bench import Bench

TEXT = """
name: any
topology: {hosts: 4, nics: 2}
workload: {bytes: 67108864, chunk_bytes: 131072}
arms: {stock: {expect: any}}
"""


def text_with(topology: str) -> str:
    return TEXT.replace("{hosts: 4, nics: 2}", topology)


@pytest.mark.parametrize(
    ("busy", "carried", "expected"),
    [
        (0.95, 0.96, 0.5),  # it nearly carried it: the half leaves half of the CPU
        (1.0, 0.4, 0.18),  # it did not: what it carried counts, not what was asked for
        (0.70, 1.0, 0.7),
        (1.0, 0.001, RATES[-1]),
    ],
)
def test_the_next_rate_leaves_the_cpu_time(busy: float, carried: float, expected: float) -> None:
    probe = Probe(FULL_GBIT, busy, carried)
    assert not probe.fits
    assert probe.next_rate() == expected
    assert expected * busy / carried <= BUSY_WANTED or expected == RATES[-1]


def test_what_others_do_is_not_ours_to_lower() -> None:
    assert Probe(FULL_GBIT, 0.7, 1.0, others=0.3).next_rate() == 0.5  # the half of ours fits beside theirs
    assert Probe(FULL_GBIT, 0.8, 1.0).next_rate() == 0.5


def test_the_next_rate_is_always_lower() -> None:
    assert [Probe(rate, BUSY_MOST + 0.01, 100.0).next_rate() for rate in RATES[:-1]] == list(RATES[1:])


def test_sizes_shrink_with_the_rate() -> None:
    experiment = loads(TEXT, Path("any.yaml"))
    assert names_no_rate(experiment)
    quarter = at_rate(experiment, 0.25)
    assert isinstance(quarter.workload, Bench)
    assert (quarter.workload.bytes, quarter.workload.chunk_bytes) == (16 * 1024 * 1024, 32 * 1024)
    assert topology_of(quarter).rate_gbit == 0.25
    assert not names_no_rate(quarter)
    written = loads(dump(quarter), Path("any.yaml"))  # a run directory's experiment.yaml runs again as it ran
    assert written.workload == quarter.workload
    assert topology_of(written) == topology_of(quarter)


def test_at_the_full_rate_nothing_changes() -> None:
    experiment = loads(TEXT.replace("131072", "1000"), Path("any.yaml"))
    assert at_rate(experiment, FULL_GBIT).workload == experiment.workload
    assert at_rate(experiment, 0.04).workload.chunk_bytes == 40  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "topology",
    ["{hosts: 4, nics: 2, rate_gbit: 1.0}", "{hosts: 4, nics: 2, overrides: [{host: h0, nic: eth0, rate_gbit: 0.5}]}"],
)
def test_a_rate_that_is_named_stays(topology: str) -> None:
    assert not names_no_rate(loads(text_with(topology), Path("any.yaml")))


def test_the_demo_fits_itself_to_the_machine() -> None:
    assert names_no_rate(load(Path("experiments/nic_down.yaml")))


def test_a_machine_that_others_use_is_warned_of_as_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "_others", lambda: 0.5)
    monkeypatch.setattr(fitting, "_probed", lambda *_: Probe(FULL_GBIT, 0.4, 1.0))
    said: list[str] = []
    fitting.fitted(loads(TEXT, Path("any.yaml")), ["stock"], lambda _: None, said.append)  # type: ignore[arg-type,return-value]
    assert [line for line in said if "warning" in line] == [
        "r2cc: warning: other programs keep 50% of this machine's CPU busy; times may come out void"
    ]
