"""Programs that are not ours under `r2cc chaos run`: what is said when they misbehave, and that nothing stays."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.build import build_net
from harness.progress import silent

pytestmark = [pytest.mark.lab, pytest.mark.build, pytest.mark.timeout(120)]

REPO = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("own_program.py")
CLI = [sys.executable, "-c", "from harness.cli import main; main()"]
STEP = r"step (?P<step>\d+)"
MARK = "OWN_PROGRAM_TEST"
LIMIT_S = 100.0
CABLE = {"id": "cable", "kind": "link_down", "host": "h1", "nic": "eth0", "at": {"iteration": 5}, "duration_s": 0.6}


@dataclass(frozen=True)
class Ran:
    code: int
    said: str
    folder: Path

    @property
    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return found

    @property
    def reasons(self) -> str:
        return "\n".join(self.summary["reasons"])

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Of the journal."""
        every = map(json.loads, (self.folder / "journal.jsonl").read_text().splitlines())
        return [line for line in every if line["event"] == event]

    def run_of(self, arm: str) -> dict[str, Any]:
        found: dict[str, Any] = next(each for each in self.summary["arms"] if each["name"] == arm)["runs"][0]
        return found


class Chaos:
    """One `r2cc chaos run`. Whatever it started has a mark in its environment that nothing gets rid of."""

    def __init__(self, folder: Path, what: str = "", **settings: Any) -> None:
        """`what`: of own_program.py; without it the shipped template runs."""
        self._out, self._token = folder / "runs", secrets.token_hex(8)
        file = self._written(folder, what, settings) if what else REPO / "experiments" / "jobs" / "own_job.yaml"
        self.process = subprocess.Popen(
            [*CLI, "chaos", "run", str(file), "--out", str(self._out), "--void-ok"],
            env={**os.environ, MARK: self._token},
            cwd=REPO,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _written(self, folder: Path, what: str, settings: dict[str, Any]) -> Path:
        arms = settings.pop("arms", ("stock",))
        workload = {"kind": "command", "argv": [sys.executable, str(PROGRAM), what], "progress": {"step": STEP}}
        experiment = {
            "name": what,
            "topology": {"hosts": 2, "nics": 2},
            "workload": {**workload, "warmup": 1, "start_s": 20.0, **settings.pop("workload", {})},
            "faults": settings.pop("faults", []),
            "hypothesis": settings.pop("hypothesis", {}),
            "arms": {name: {"expect": "any" if name == "stock" else "holds"} for name in arms},
        }
        file = folder / "own.yaml"
        file.write_text(json.dumps(experiment))
        return file

    def ended(self) -> Ran:
        try:
            said, _ = self.process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            raise AssertionError(self.process.communicate(timeout=LIMIT_S)[0]) from None
        assert "Traceback" not in said, said
        (folder,) = self._out.iterdir()
        self._nothing_is_left(folder)
        return Ran(self.process.returncode, said, folder)

    def _nothing_is_left(self, folder: Path) -> None:
        assert not self.left(), "processes, and with them the lab's namespaces"
        journal = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
        outs = {line["env"]["R2CC_OUT"] for line in journal if "R2CC_OUT" in (line.get("env") or {})}
        assert outs and not any(Path(out).parent.exists() for out in outs)

    def left(self) -> list[str]:
        """Command lines of what still runs."""
        found, mark = [], f"{MARK}={self._token}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_text().replace("\0", " "))
        return found


def ran(folder: Path, what: str, **settings: Any) -> Ran:
    return Chaos(folder, what, **settings).ended()


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    build_net(progress=silent)


BAD = {
    "other_words": ("no step of the program was seen; its last lines:\n  | epoch one is done", {}),
    "silent": ("no step of the program was seen, and it printed nothing", {}),
    "exits_3": ("ended with exit code 3\n  | no such data set", {}),
    "forks_away": ("ended, and something that it had started ran on: it was ended, too", {}),
    "ignores_sigterm": ("no step of the program was seen in 2 s, and it printed nothing", {"start_s": 2.0}),
    "never_meet": ("no step of the program was seen in 2 s, and it printed nothing", {"start_s": 2.0}),
    "crashes": ("was killed by SIGABRT\n  | step 1 loss 0.5", {}),
    "no_number": (
        "progress.step found 'soon' as ms, which is no number",
        {"progress": {"step": r"step (?P<step>\d+) took (?P<ms>\S+) ms"}},
    ),
}


BAD_HINTS = {
    "other_words": "try: progress.step must match a line that it prints",
    "silent": "try: let it print a line for each step",
    "never_meet": "try: do its ranks meet?",
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_program_is_one_clear_error(what: str, tmp_path: Path) -> None:
    message, workload = BAD[what]
    found = ran(tmp_path, what, workload=workload)
    assert (found.code, found.summary["verdict"]) == (3, "failed"), found.said
    assert message in found.summary["reasons"][0]
    assert message.splitlines()[0] in " ".join(found.said.split())
    assert BAD_HINTS.get(what, "") in " ".join(found.said.split())
    for file in (word for word in found.said.split() if word.endswith((".out", ".stderr"))):
        assert Path(file).read_text(), f"{file} is named, and nothing is in it"


def test_a_pattern_that_takes_for_ever_ends_the_run_and_the_fault(tmp_path: Path) -> None:
    bad = r"step (?P<step>\d+)|(a+)+$"
    cable = {**CABLE, "duration_s": 60.0}
    found = ran(tmp_path, "long_line", workload={"progress": {"step": bad}}, faults=[cable])
    assert (found.code, found.summary["verdict"]) == (3, "failed"), found.said
    assert f"progress.step is too slow for what the program prints: '{bad}'" in found.summary["reasons"][0]
    phases = [line["phase"] for line in found.lines("fault")]
    assert phases == ["armed", "injected", "active", "reverted", "verified"]


def test_the_file_to_copy_runs_as_it_is(tmp_path: Path) -> None:
    """docs/tutorial.md and docs/howto/own-job.md begin with it."""
    found = Chaos(tmp_path).ended()
    assert (found.code, found.summary["verdict"]) == (0, "holds"), found.said
    assert [arm["runs"][0]["iterations"] for arm in found.summary["arms"]] == [58, 58]
    (identical,) = [check for check in found.summary["arms"][1]["checks"] if check["name"] == "identical"]
    assert identical["outcome"] == "holds"
    assert "iterations\n" not in found.said, "nobody knows how many there are"


def test_a_daemon_that_it_leaves_behind_is_ended(tmp_path: Path) -> None:
    found = ran(tmp_path, "leaves_a_daemon")
    assert (found.code, found.run_of("stock")["iterations"]) == (0, 9), found.said


def test_much_output_is_read_and_its_ends_are_kept(tmp_path: Path) -> None:
    found = ran(tmp_path, "chatty")
    assert (found.code, found.run_of("stock")["iterations"]) == (0, 39), found.said
    kept = (found.folder / "raw" / "stock-0-rank1.out").read_bytes()
    assert len(kept) < 3 << 20
    assert b"\nstep 1\n" in kept and b" bytes are left out here ...\n" in kept and kept.endswith(b"\nstep 40\n")


def test_binary_output_hides_no_step(tmp_path: Path) -> None:
    """Nor does a loss that is no number keep a step out of the journal."""
    found = ran(tmp_path, "binary", workload={"progress": {"step": STEP + r" loss (?P<loss>\S+)"}})
    assert (found.code, found.run_of("stock")["iterations"]) == (0, 19), found.said


IDENTICAL: dict[str, Any] = {"hypothesis": {"identical": True}, "arms": ("stock", "balance")}


def test_a_digest_that_no_rank_of_an_arm_leaves(tmp_path: Path) -> None:
    found = ran(tmp_path, "no_digest_with_us", workload={"result": {"digest": "digest"}}, **IDENTICAL)
    assert found.code == 3, found.said
    assert found.summary["reasons"][0].startswith("the program ended well, and no rank left its result in $R2CC_OUT")
    assert "balance, run 0: the program ended well" in found.reasons


def test_a_digest_that_one_rank_does_not_leave(tmp_path: Path) -> None:
    found = ran(tmp_path, "one_digest_is_missing", workload={"result": {"digest": "digest"}}, **IDENTICAL)
    assert found.code == 1, found.said
    assert "balance: run 0, digest of rank 1: nothing, in stock abc" in found.reasons


def test_the_first_step_that_differs_is_named(tmp_path: Path) -> None:
    pattern = r"step (?P<step>\d+) is (?P<result>\d+)"
    found = ran(tmp_path, "differs", workload={"progress": {"step": pattern}}, **IDENTICAL)
    assert found.code == 1, found.said
    assert "balance: run 0, iteration 2 of rank 1: 104, in stock 4" in found.reasons


def test_stock_that_crashes_under_a_fault_says_something_about_stock_alone(tmp_path: Path) -> None:
    found = ran(tmp_path, "stock_crashes", faults=[CABLE], arms=("stock", "balance"))
    assert found.code == 0, found.said
    assert (found.run_of("stock")["completed"], found.run_of("balance")["completed"]) == (False, True)
    assert found.run_of("balance")["iterations"] == 59


def test_ctrl_c_ends_everything(tmp_path: Path) -> None:
    chaos = Chaos(tmp_path, "ignores_sigterm", workload={"start_s": 90.0})
    deadline = time.monotonic() + LIMIT_S
    while sum(line.endswith("own_program.py ignores_sigterm ") for line in chaos.left()) < 2:
        assert time.monotonic() < deadline and chaos.process.poll() is None
        time.sleep(0.05)
    chaos.process.send_signal(signal.SIGINT)
    found = chaos.ended()
    assert (found.code, found.summary["reasons"][0]) == (130, "interrupted; everything was rolled back")
