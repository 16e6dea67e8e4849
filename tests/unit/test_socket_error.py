"""`socket_error`: what it writes, what proves it, what is refused. No rank runs here."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from chaos_double import experiment
from host_double import FakeHost

from chaos.experiment.planned import planned_faults
from chaos.faults.catalogue import example
from chaos.faults.parts.shim import HEAD, LIBRARY, PUT, folder
from chaos.faults.registry import fault_of, spec_of
from chaos.faults.steps import Command
from chaos.record.journal import Journal, read
from chaos.run.actors import Actors
from chaos.run.injector import Injector
from chaos.testbed import launch
from harness.errors import FaultError, UsageError
from harness.hosts import LocalHost, Result
from harness.sites.site import PlannedNic

BED = [PlannedNic(f"h{h}", f"eth{n}", f"10.{n + 1}.0.{h + 1}", f"h{h}-eth{n}") for h in range(2) for n in range(2)]
RULES = f"{HEAD}\nsocket 10.2.0.2 reset\nend\n"
SEEN = "seen 7 b1\n"


def words(**more: Any) -> dict[str, Any]:
    common = {"id": "f0", "kind": "socket_error", "at": {"iteration": 3}, "duration_s": 1.0}
    return {**common, "nics": ["h1:eth1"], "action": "reset", **more}


def fault(**more: Any) -> Any:
    spec = spec_of(words(**more))
    wanted = spec.targets({"h0": ["eth0", "eth1"], "h1": ["eth0", "eth1"]})
    return fault_of(spec, [nic for nic in BED if (nic.host, nic.name) in wanted], "h1")


def said(*texts: str) -> list[Result]:
    return [Result((), 1, text) for text in texts]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({}, "socket 10.2.0.2 reset"),
        ({"times": 2, "peer": "10.2.0.1"}, "socket 10.2.0.2 reset peer=10.2.0.1 times=2"),
        ({"action": "silent", "ports": [4000, 5000]}, "socket 10.2.0.2 silent ports=4000-5000"),
        ({"action": "slow", "rate_mbit": 8.0}, "socket 10.2.0.2 slow rate_Bps=1000000"),
        ({"action": "short_reads", "bytes": 7}, "socket 10.2.0.2 short_reads bytes=7"),
    ],
)
def test_the_rules(more: dict[str, Any], line: str) -> None:
    (step,) = fault(**more).inject()
    assert isinstance(step, Command)
    assert (step.on, step.input) == ("h1", f"{HEAD}\n{line}\nend\n")
    assert step.argv[-1] == str(folder() / "f0-0")


def test_each_host_has_a_file_of_its_own_with_all_its_nics() -> None:
    steps = fault(nics=["*:*"]).inject()
    assert [(step.on, step.argv[-1][-4:], step.input.count("socket")) for step in steps] == [
        ("h0", "f0-0", 2),
        ("h1", "f0-1", 2),
    ]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"action": "slow"}, "needs rate_mbit"),
        ({"rate_mbit": 1.0}, "has no rate_mbit"),
        ({"action": "short_reads"}, "needs bytes"),
        ({"peer": "h0"}, "does not appear to be an IPv4 or IPv6 address"),
        ({"ports": [5000, 4000]}, "lowest and the highest"),
        ({"times": 0}, "greater than or equal to 1"),
        ({"action": "explode"}, "reset"),
    ],
)
def test_wrong_settings_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        spec_of(words(**more))


def test_a_nic_that_is_not_there_or_has_no_address_is_refused() -> None:
    with pytest.raises(UsageError, match="this testbed has no h1:eth9"):
        planned_faults(experiment_with(words(nics=["h1:eth9"])), BED)
    bare = fault_of(spec_of(words()), [PlannedNic("h1", "eth1", "", "")], "h1")
    with pytest.raises(ValueError, match="h1 eth1 has no address"):
        bare.knowing([])


@pytest.mark.parametrize(
    ("text", "active", "why"),
    [
        ("", False, f"no rank with {LIBRARY} saw the rules on h1"),
        (RULES, None, f"no rank with {LIBRARY} saw the rules on h1"),
        (RULES + SEEN, None, "no TCP connection of h1 eth1 matched"),
        (RULES + SEEN + "hit 7 10.2.0.1 1 55\n", None, "no TCP connection of h1 eth1 matched"),
        (RULES + SEEN + "hit 7 10.2.0.2 1 55\n", True, ""),
        (RULES + SEEN + "hit 7 10.2.0.2 1 55\nhit 7 10.2.0.2 0 55\n", None, "no TCP connection of h1 eth1 matched"),
        (SEEN + "hit 7 10.2.0.2 1 55\n", False, ""),
    ],
)
def test_proof(text: str, active: bool | None, why: str) -> None:
    made = fault()
    assert made.is_active(said(text)) is active
    assert made.why_not(said(text)) == why


def test_where_it_may_miss_rules_that_a_rank_saw_are_enough() -> None:
    """A soak strikes NICs whose connections have all moved away."""
    made = fault(may_miss=True)
    assert [made.is_active(said(text)) for text in ("", RULES, RULES + SEEN, SEEN)] == [False, None, True, False]


def test_one_nic_of_two_is_neither_active_nor_gone() -> None:
    made = fault(nics=["h1:eth0", "h1:eth1"])
    assert made.is_active(said(f"{RULES}{SEEN}hit 7 10.2.0.2 1 55\n")) is None
    assert made.is_active(said(f"{RULES}{SEEN}hit 7 10.2.0.2 1 55\nhit 7 10.1.0.2 1 55\n")) is True
    assert made.is_active(said("")) is False


def test_the_journal_has_the_hits_of_all_ranks_and_the_first_time() -> None:
    text = f"{RULES}{SEEN}hit 7 10.2.0.2 1 55\nhit 8 10.2.0.2 3 60\nhit 7 10.2.0.2 4 90\n"
    assert fault().seen(said(text)) == {"hits": 7, "first_hit_ns": 55}
    assert fault().seen(said(RULES)) == {}


def test_rules_that_a_rank_refuses_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"h1: a rank refuses the rules: libr2cc_faults.so is of build b1"):
        fault().is_active(said(f"{RULES}refused 7 libr2cc_faults.so is of build b1, libr2cc_net.so of build b2\n"))


def test_a_rule_that_matches_nothing_is_a_fault_that_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.faults.parts.shim.ShimFault.confirm_s", 0.05)
    monkeypatch.setattr("chaos.run.injector.CONFIRM_S", 0.05)
    (planned,) = planned_faults(experiment_with(words()), BED)
    host = FakeHost("h1")
    with Journal(tmp_path / "journal.jsonl") as journal, ExitStack() as stack:
        injector = Injector(Actors(None, {"h1": host}, pytest.fail), journal, stack, lambda message: None)
        injector.arm(planned)
        host.answers["cat *"] = Result((), 1, RULES + SEEN)
        with pytest.raises(FaultError, match="no TCP connection of h1 eth1 matched") as caught:
            injector.strike("f0", 0)
        host.answers.clear()
    assert caught.value.exit_code == 3
    assert [line["phase"] for line in read(tmp_path / "journal.jsonl") if line["event"] == "fault"][-1] == "verified"


def experiment_with(entry: dict[str, Any]) -> Any:
    made = experiment()
    return made.model_copy(update={"faults": (spec_of(entry),)})


class Bench:
    """Says which libraries it was asked for."""

    def under(self, names: Any) -> dict[str, str]:
        return {"LD_PRELOAD": ":".join(names)}


def test_ranks_get_the_libraries_of_all_faults_once() -> None:
    jump = {"id": "j", "kind": "clock_jump", "rank": 1, "jump_s": 5, "duration_s": 1.0, "at": {"iteration": 1}}
    made = experiment().model_copy(update={"faults": tuple(map(spec_of, (words(), words(id="f1"), jump)))})
    env = [launch._for_faults(made, rank, Bench()) for rank in range(2)]  # type: ignore[arg-type]
    assert env[0] == {"LD_PRELOAD": LIBRARY, "R2CC_FAULTS": str(folder())}
    assert env[1]["LD_PRELOAD"] == f"{LIBRARY}:libr2cc_clock.so"
    assert set(env[1]) == {"LD_PRELOAD", "R2CC_FAULTS", "R2CC_TEST_CLOCK_FILE"}


def test_it_needs_no_privilege_and_a_host_can_undo_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands that a dead-man switch would run, run here: any number of times, and nothing stays."""
    monkeypatch.setattr("chaos.faults.parts.shim.folder", lambda: tmp_path / "rules")
    made = fault()
    assert example("socket_error").privilege == "none"
    undo = Actors(None, {}, pytest.fail).armable(made.revert())
    assert [step.on for step in undo] == ["h1"]
    for steps, there in ((made.inject(), ["f0-0"]), (undo, None), (undo, None)):
        for step in steps:
            assert isinstance(step, Command)
            assert LocalHost().run(list(step.argv), input=step.input or None).exit_code == 0
        found = sorted(path.name for path in (tmp_path / "rules").iterdir()) if (tmp_path / "rules").exists() else None
        assert found == there


def put(file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", PUT, "r2cc", file], input=RULES, capture_output=True, text=True, check=False)


def test_rules_are_put_into_a_folder_of_our_own(tmp_path: Path) -> None:
    file = tmp_path / "rules" / "f0-0"
    for _ in range(2):
        assert put(file).returncode == 0
        assert file.read_text() == RULES
    assert [*file.parent.iterdir()] == [file]


def test_a_folder_that_somebody_else_may_have_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "rules").symlink_to("theirs")
    done = put(tmp_path / "rules" / "f0-0")
    assert (done.returncode, [*(tmp_path / "theirs").iterdir()]) == (1, [])
    assert done.stderr == f"{tmp_path}/rules cannot be made, or somebody else made it: remove it\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder away")
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    os.chown(tmp_path / "rules", 12345, 12345)
    assert put(tmp_path / "rules" / "f0-0").returncode == 1
    assert not [*(tmp_path / "rules").iterdir()]
